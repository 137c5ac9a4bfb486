#include "exchange/common/import_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/order.h"
#include "model/track.h"

struct importer {
    struct mp_import_log *log;
    struct mp_error *error;
    MP_VEC(struct mp_base_block) base;
    struct mp_map live; /* by key_of(): index of the call that made the block, + 1 */
    uint64_t blocks;    /* blocks numbered so far, without the base */
    uint64_t unknown_frees, missed_frees;
    struct mp_import_events events;
};

void mp_import_call(struct mp_import_log *log, const struct mp_import_call *call)
{
    mp_vec_add(&log->calls, *call);
    log->calls.at[log->calls.count - 1].order = (uint32_t)(log->calls.count - 1);
}

void mp_import_note(struct mp_import_log *log, const char *format, ...)
{
    char text[480];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    mp_vec_add(&log->notes, mp_import_text(&log->tables, text, strlen(text)));
}

static uint32_t find_device(struct mp_import_log *log, unsigned type, int index)
{
    char id[64];
    mp_format_device_id(id, sizeof id, type, type == MP_DEVICE_CPU ? -1 : index);
    uint32_t name = mp_import_text(&log->tables, id, strlen(id));
    for (size_t i = 0; i < log->tables.devices.count; i++)
        if (log->tables.devices.at[i].name == name) return (uint32_t)i;
    log->overlong = log->tables.devices.count >= MP_DEVICES_MAX;
    if (log->overlong) return 0;
    struct mp_device device = {.name = name, .total_bytes = MP_BYTES_UNKNOWN};
    mp_vec_add(&log->tables.devices, device);
    return (uint32_t)(log->tables.devices.count - 1);
}

uint16_t mp_import_track(struct mp_import_log *log, unsigned device_type, int device, enum mp_layer layer,
                         const char *name)
{
    bool added;
    if (log->overlong) return 0; /* mp_import_log_model() refuses it */
    mp_import_text(&log->tables, "", 0);
    struct mp_track track = {.device = find_device(log, device_type, device),
                             .layer = (uint8_t)layer,
                             .size_basis = MP_BASIS_EXACT,
                             .name = mp_import_text(&log->tables, name, strlen(name))};
    uint64_t key = (uint64_t)track.device << 40 | (uint64_t)track.layer << 32 | track.name;
    uint64_t *number = mp_map_at(&log->track_ids, key + 1, &added);
    if (!added) return (uint16_t)*number;
    log->overlong |= log->tables.tracks.count >= MP_TRACK_NONE;
    if (log->overlong) return 0;
    mp_vec_add(&log->tables.tracks, track);
    return (uint16_t)(*number = log->tables.tracks.count - 1);
}

uint32_t mp_import_thread(struct mp_import_log *log, uint32_t tid)
{
    bool added;
    struct mp_thread_info thread = {.tid = tid};
    uint64_t *id = mp_map_at(&log->thread_ids, (uint64_t)tid + 1, &added);
    if (added) mp_vec_add(&log->tables.threads, thread);
    if (added) *id = log->tables.threads.count - 1;
    return (uint32_t)*id;
}

MP_ORDER(by_time, struct mp_import_call, MP_RISING(ns) ?: MP_RISING(order))

static uint64_t key_of(const struct mp_import_call *call)
{
    uint64_t key = call->address ^ (uint64_t)call->track << 48;
    return key ? key : 1;
}

/* Pairs frees with their blocks. The base's blocks have the first numbers, so all frees are paired before any event is
 * made. */
static void pair(struct importer *importer)
{
    struct mp_import_log *log = importer->log;
    for (size_t i = 0; i < log->calls.count; i++) {
        struct mp_import_call *call = &log->calls.at[i];
        uint64_t made;
        if (call->type == MP_EVENT_ALLOC) {
            uint64_t *live = mp_map_at(&importer->live, key_of(call), NULL);
            importer->missed_frees += *live != 0;
            *live = i + 1;
        } else if (call->type == MP_EVENT_FREE && !mp_map_remove(&importer->live, key_of(call), &made)) {
            struct mp_base_block block = {.block = importer->base.count,
                                          .address = call->address,
                                          .bytes = call->bytes,
                                          .track = call->track,
                                          .kind = call->kind};
            call->block = block.block;
            call->base = true;
            importer->unknown_frees++;
            mp_vec_add(&importer->base, block);
        }
    }
    mp_map_clear(&importer->live);
    importer->blocks = importer->base.count;
}

static void put_event(struct importer *importer, const struct mp_import_call *call, uint8_t type, uint64_t bytes,
                      uint64_t block)
{
    const struct mp_event event = {.time_ns = (uint64_t)call->ns - (uint64_t)importer->log->calls.at[0].ns,
                                   .address = call->address,
                                   .bytes = bytes,
                                   .block = block,
                                   .stack = call->stack,
                                   .name = call->name,
                                   .thread = call->thread,
                                   .track = call->track,
                                   .type = type,
                                   .kind = call->kind};
    mp_import_event(&importer->events, &event);
}

static void put_alloc(struct importer *importer, struct mp_import_call *call)
{
    uint64_t *live = mp_map_at(&importer->live, key_of(call), NULL);
    if (*live) {
        const struct mp_import_call *before = &importer->log->calls.at[*live - 1];
        put_event(importer, call, MP_EVENT_FREE, before->bytes, before->block);
    }
    *live = (uint64_t)(call - importer->log->calls.at) + 1;
    call->block = importer->blocks++;
    put_event(importer, call, MP_EVENT_ALLOC, call->bytes, call->block);
}

static void put_free(struct importer *importer, const struct mp_import_call *call)
{
    uint64_t made;
    if (call->base) {
        put_event(importer, call, MP_EVENT_FREE, call->bytes, call->block);
    } else if (mp_map_remove(&importer->live, key_of(call), &made)) {
        const struct mp_import_call *alloc = &importer->log->calls.at[made - 1];
        put_event(importer, call, MP_EVENT_FREE, alloc->bytes, alloc->block);
    }
}

static enum mp_status put_events(struct importer *importer)
{
    struct mp_import_log *log = importer->log;
    for (size_t i = 0; !importer->events.status && i < log->calls.count; i++) {
        struct mp_import_call *call = &log->calls.at[i];
        if (call->type == MP_EVENT_ALLOC) put_alloc(importer, call);
        if (call->type == MP_EVENT_FREE) put_free(importer, call);
        if (call->type != MP_EVENT_ALLOC && call->type != MP_EVENT_FREE)
            put_event(importer, call, call->type, call->bytes, 0);
    }
    return mp_import_events_flush(&importer->events);
}

static enum mp_status put_base(struct importer *importer)
{
    struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .count = importer->base.count, .base_total = importer->base.count};
    chunk.as.base = importer->base.at;
    return chunk.count ? mp_builder_add(importer->events.builder, &chunk, importer->error) : MP_OK;
}

static enum mp_status put_coverage(struct importer *importer, uint32_t source)
{
    struct mp_import_log *log = importer->log;
    struct mp_coverage coverage = {.events = log->calls.count,
                                   .unknown_frees = importer->unknown_frees,
                                   .missed_frees = importer->missed_frees,
                                   .sources = &source,
                                   .source_count = 1,
                                   .notes = log->notes.at,
                                   .note_count = (uint32_t)log->notes.count};
    struct mp_exit how = {.time_ns = (uint64_t)log->calls.at[log->calls.count - 1].ns - (uint64_t)log->calls.at[0].ns};
    return mp_import_end(importer->events.builder, &coverage, &how, importer->error);
}

static enum mp_status fill_calls(struct importer *importer)
{
    struct mp_import_log *log = importer->log;
    qsort(log->calls.at, log->calls.count, sizeof *log->calls.at, by_time);
    pair(importer);
    if (log->overlong)
        return mp_fail(importer->error, MP_LIMIT, "the log has memory of more than %d devices or 65 535 pools",
                       MP_DEVICES_MAX);
    if (importer->unknown_frees)
        mp_import_note(log, "blocks that were live before the log begins: %llu; what else lived then is not known",
                       (unsigned long long)importer->unknown_frees);
    if (importer->missed_frees)
        mp_import_note(log, "frees that are not in the log, as their address is handed out again: %llu",
                       (unsigned long long)importer->missed_frees);
    if (!log->dated) mp_import_note(log, "the file does not say on which day it was recorded");
    uint32_t source = mp_import_text(&log->tables, log->format, strlen(log->format));
    enum mp_status status = mp_import_tables_put(&log->tables, importer->events.builder, importer->error);
    if (!status) status = put_base(importer);
    if (!status) status = put_events(importer);
    return status ? status : put_coverage(importer, source);
}

static enum mp_status build_log(struct importer *importer, const char *path, struct mp_model **model)
{
    struct mp_import_log *log = importer->log;
    int64_t first = log->calls.at[0].ns;
    for (size_t i = 0; i < log->calls.count; i++)
        if (log->calls.at[i].ns < first) first = log->calls.at[i].ns;
    const char *command[] = {log->command ? mp_intern_get(&log->tables.strings, log->command, NULL) : NULL, NULL};
    struct mp_recording_start start = {.pid = log->pid,
                                       .host = "",
                                       .command = command,
                                       .configuration = "",
                                       .spool = "",
                                       .realtime_ns = log->dated ? (uint64_t)log->unix_ns + (uint64_t)first : 0};
    struct stat facts;
    uint64_t file_bytes = stat(path, &facts) ? 0 : (uint64_t)facts.st_size;
    mp_builder_new(&start, &importer->events.builder);
    return mp_import_finish(importer->events.builder, fill_calls(importer), file_bytes, log->format, model,
                            importer->error);
}

enum mp_status mp_import_log_model(struct mp_import_log *log, const char *path, struct mp_model **model,
                                   struct mp_error *error)
{
    if (log->calls.count >= MP_NONE) return mp_fail(error, MP_LIMIT, "%s holds more than 4 294 967 294 calls", path);
    struct importer *importer = mp_alloc_zeroed(1, sizeof *importer);
    importer->log = log;
    importer->error = importer->events.error = error;
    enum mp_status status = build_log(importer, path, model);
    mp_vec_free(&importer->base);
    mp_map_free(&importer->live);
    free(importer);
    return status;
}

void mp_import_log_free(struct mp_import_log *log)
{
    mp_import_tables_free(&log->tables);
    mp_map_free(&log->thread_ids);
    mp_map_free(&log->track_ids);
    mp_vec_free(&log->calls);
    mp_vec_free(&log->notes);
}
