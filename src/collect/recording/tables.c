#include "collect/recording/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/recording/secret_shapes.h"

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "out of memory while collecting names");
}

enum mp_status mp_tables_text(struct mp_tables *tables, const char *text, uint32_t *id, struct mp_error *error)
{
    *id = mp_intern_text(&tables->strings, text);
    return *id == MP_INTERN_FAILED ? no_memory(error) : MP_OK;
}

uint32_t mp_tables_spool_string(const struct mp_tables *tables, uint32_t spool_id)
{
    const uint64_t *id = spool_id ? mp_map_find(&tables->spool_strings, (uint64_t)spool_id + 1) : NULL;
    return id ? (uint32_t)*id : 0;
}

static enum mp_status read_strings(struct mp_tables *tables, struct mp_spool_header *spool, struct mp_error *error)
{
    const char *entries = mp_spool_entries(spool, MP_TABLE_STRINGS);
    uint64_t end = tables->seen[MP_TABLE_STRINGS], *at = &tables->done[MP_TABLE_STRINGS];
    while (*at + sizeof(uint32_t) <= end) {
        uint32_t length;
        memcpy(&length, entries + *at, sizeof length);
        bool is_whole = length <= end - *at - sizeof length && (length || !*at); /* only the first text is empty */
        if (!is_whole) return MP_OK; /* a damaged spool: the rest cannot be separated */
        uint32_t id = mp_intern_bytes(&tables->strings, entries + *at + sizeof length, length);
        uint64_t *known = mp_map_insert(&tables->spool_strings, *at / 4 + 1, NULL);
        if (id == MP_INTERN_FAILED || !known) return no_memory(error);
        *known = id;
        *at += (sizeof length + length + 3) & ~UINT64_C(3);
    }
    return MP_OK;
}

enum mp_status mp_tables_read(struct mp_tables *tables, struct mp_spool_header *spool, mp_tables_module_seen *seen,
                              void *context, struct mp_error *error)
{
    /* Each table is read before the tables that it refers to. So no entry refers beyond the count of another table. */
    static const enum mp_spool_table_id order[] = {MP_TABLE_NODES, MP_TABLE_FRAMES, MP_TABLE_TRACKS, MP_TABLE_MODULES,
                                                   MP_TABLE_STRINGS};
    uint64_t modules_before = tables->seen[MP_TABLE_MODULES];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        uint64_t count = mp_spool_table_count(spool, order[i]), *known = &tables->seen[order[i]];
        if (count > *known) *known = count;
    }
    enum mp_status status = read_strings(tables, spool, error);
    const struct mp_wire_module *modules = mp_spool_entries(spool, MP_TABLE_MODULES);
    for (uint64_t i = modules_before ? modules_before : 1; !status && seen && i < tables->seen[MP_TABLE_MODULES]; i++) {
        uint32_t path = mp_tables_spool_string(tables, modules[i].path);
        seen(context, (uint32_t)i, mp_intern_get(&tables->strings, path, NULL), &modules[i].file);
    }
    return status;
}

uint16_t mp_tables_device_key(const struct mp_wire_track *track)
{
    return (uint16_t)(track->device_type << 8 | ((track->device_index + 1) & 0xff));
}

void mp_tables_device_uuid(const struct mp_spool_header *spool, int index, char to[MP_UUID_TEXT])
{
    *to = '\0';
    if (index < 0 || index >= MP_SPOOL_DEVICES) return;
    const struct mp_spool_device *device = &spool->devices[index];
    if (!atomic_load_explicit(&device->known, memory_order_acquire)) return;
    size_t room = MP_UUID_TEXT, used = (size_t)snprintf(to, room, "GPU");
    for (size_t i = 0; i < sizeof device->uuid; i++) {
        bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(to + used, room - used, "%s%02x", dash ? "-" : "", device->uuid[i]);
    }
}

static enum mp_status device_of(struct mp_tables *tables, const struct mp_spool_header *spool,
                                const struct mp_wire_track *track, uint32_t *device, struct mp_error *error)
{
    uint16_t key = mp_tables_device_key(track);
    for (*device = 0; *device < tables->device_keys.count; ++*device)
        if (tables->device_keys.at[*device] == key) return MP_OK;
    char id[MP_ID_TEXT], uuid[MP_UUID_TEXT] = "";
    mp_format_device_id(id, sizeof id, track->device_type, track->device_index);
    struct mp_device entry = {.total_bytes = MP_BYTES_UNKNOWN};
    if (track->device_type == MP_DEVICE_CPU)
        entry.total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (track->device_type == MP_DEVICE_CUDA) mp_tables_device_uuid(spool, track->device_index, uuid);
    enum mp_status status = mp_tables_text(tables, id, &entry.name, error);
    if (!status && *uuid) status = mp_tables_text(tables, uuid, &entry.uuid, error);
    if (status) return status;
    return mp_vec_push(&tables->devices, entry) && mp_vec_push(&tables->device_keys, key) ? MP_OK : no_memory(error);
}

/* Adds a second entry with the device's name, since the first may already be in the file. Its key matches no track. */
enum mp_status mp_tables_device_facts(struct mp_tables *tables, unsigned type, int index, const char *uuid,
                                      const char *model, uint64_t total_bytes, struct mp_error *error)
{
    char id[MP_ID_TEXT];
    mp_format_device_id(id, sizeof id, type, index);
    struct mp_device entry = {.total_bytes = total_bytes};
    enum mp_status status = mp_tables_text(tables, id, &entry.name, error);
    if (!status && *uuid) status = mp_tables_text(tables, uuid, &entry.uuid, error);
    if (!status && *model) status = mp_tables_text(tables, model, &entry.model, error);
    if (status) return status;
    return mp_vec_push(&tables->devices, entry) && mp_vec_push(&tables->device_keys, MP_DEVICE_KEY_NOBODY)
               ? MP_OK
               : no_memory(error);
}

enum mp_status mp_tables_thread(struct mp_tables *tables, const struct mp_spool_header *spool, uint32_t ring,
                                uint32_t *thread, struct mp_error *error)
{
    uint32_t tid = spool->rings[ring].tid, known = tables->ring_thread[ring];
    if (known && tables->threads.at[known - 1].tid == tid) {
        *thread = known - 1;
        return MP_OK;
    }
    char name[sizeof spool->rings[ring].name + 1] = {0};
    memcpy(name, spool->rings[ring].name, sizeof spool->rings[ring].name);
    struct mp_thread_info entry = {.tid = tid};
    enum mp_status status = mp_tables_text(tables, name, &entry.name, error);
    if (status) return status;
    if (!mp_vec_push(&tables->threads, entry)) return no_memory(error);
    *thread = (uint32_t)tables->threads.count - 1;
    tables->ring_thread[ring] = *thread + 1;
    return MP_OK;
}

enum mp_status mp_tables_lane(struct mp_tables *tables, uint64_t lane, uint32_t *thread, struct mp_error *error)
{
    if (lane >= tables->lane_thread.count && !mp_vec_extend(&tables->lane_thread, (size_t)lane + 1))
        return no_memory(error);
    uint32_t *known = &tables->lane_thread.at[lane];
    if (!*known) {
        struct mp_thread_info entry = {.tid = MP_TID_LANE};
        char name[32];
        snprintf(name, sizeof name, MP_LANE_NAME "%u", (unsigned)lane);
        enum mp_status status = mp_tables_text(tables, name, &entry.name, error);
        if (status) return status;
        if (!mp_vec_push(&tables->threads, entry)) return no_memory(error);
        *known = (uint32_t)tables->threads.count;
    }
    *thread = *known - 1;
    return MP_OK;
}

void mp_tables_known_lane(struct mp_tables *tables, uint32_t thread)
{
    unsigned lane;
    const char *name = mp_intern_get(&tables->strings, tables->threads.at[thread].name, NULL);
    if (sscanf(name, MP_LANE_NAME "%u", &lane) == 1 && lane <= MP_LANES_MAX &&
        mp_vec_extend(&tables->lane_thread, lane + 1))
        tables->lane_thread.at[lane] = thread + 1;
}

static enum mp_status write_strings(struct mp_tables *tables, struct mp_writer *writer, struct mp_error *error)
{
    uint32_t count = tables->strings.count - tables->strings_written;
    if (!count) return MP_OK;
    struct mp_string *strings = malloc(count * sizeof *strings);
    char **masked = calloc(count, sizeof *masked);
    enum mp_status status = strings && masked ? MP_OK : no_memory(error);
    for (uint32_t i = 0; !status && i < count; i++) {
        strings[i].text = mp_intern_get(&tables->strings, tables->strings_written + i, &strings[i].length);
        if (!mp_secret_shapes_without(strings[i].text, strings[i].length, &masked[i])) status = no_memory(error);
        if (masked[i]) strings[i] = (struct mp_string){.text = masked[i], .length = strlen(masked[i])};
    }
    if (!status) status = mp_writer_strings(writer, strings, count, error);
    for (uint32_t i = 0; masked && i < count; i++)
        free(masked[i]);
    free(masked);
    free(strings);
    if (!status) tables->strings_written += count;
    return status;
}

/* Turns the new entries of one spool table into file entries and writes them. */
#define WRITE_NEW(table_id, wire_type, file_type, writer_function, convert)                                            \
    do {                                                                                                               \
        uint64_t from_ = tables->done[table_id], count_ = tables->seen[table_id] - from_;                              \
        if (!count_) break;                                                                                            \
        const wire_type *wire = (const wire_type *)mp_spool_entries(spool, table_id) + from_;                          \
        file_type *file = calloc(count_, sizeof *file);                                                                \
        if (!file) return no_memory(error);                                                                            \
        for (uint64_t i_ = 0; i_ < count_; i_++, wire++) {                                                             \
            file_type *to = &file[i_];                                                                                 \
            convert;                                                                                                   \
        }                                                                                                              \
        enum mp_status status_ = writer_function(writer, file, count_, error);                                         \
        free(file);                                                                                                    \
        if (status_) return status_;                                                                                   \
        tables->done[table_id] += count_;                                                                              \
    } while (0)

/* The id, or `none` if the table has no such entry: a program that writes out of bounds may damage the spool. */
static uint32_t known_or(struct mp_tables *tables, uint32_t id, uint64_t count, uint32_t none)
{
    if (id < count) return id;
    tables->mended++;
    return none;
}

static enum mp_status write_modules_and_frames(struct mp_tables *tables, struct mp_spool_header *spool,
                                               struct mp_writer *writer, struct mp_error *error)
{
    WRITE_NEW(MP_TABLE_MODULES, struct mp_wire_module, struct mp_module, mp_writer_modules, {
        to->path = mp_tables_spool_string(tables, wire->path);
        to->start = wire->start;
        to->end = wire->end;
        to->bias = wire->bias;
        to->file = wire->file;
    });
    WRITE_NEW(MP_TABLE_FRAMES, struct mp_wire_frame, struct mp_frame, mp_writer_frames, {
        to->language = wire->language < MP_LANGUAGES ? (uint8_t)wire->language : MP_NATIVE;
        to->module = wire->module ? known_or(tables, wire->module, tables->done[MP_TABLE_MODULES], 0) : 0;
        to->address = wire->address;
        to->function = mp_tables_spool_string(tables, wire->function);
        to->file = mp_tables_spool_string(tables, wire->file);
        to->line = wire->line;
    });
    WRITE_NEW(MP_TABLE_NODES, struct mp_wire_node, struct mp_stack_node, mp_writer_stacks, {
        uint64_t own = from_ + i_;
        to->parent = wire->parent ? known_or(tables, wire->parent, own, 0) : 0;
        bool no_frame = wire->frame == MP_WIRE_FRAME_CUT || !own; /* node 0: the empty stack */
        to->frame = no_frame ? wire->frame : known_or(tables, wire->frame, tables->done[MP_TABLE_FRAMES], MP_FRAME_CUT);
    });
    return MP_OK;
}

static enum mp_status write_tracks(struct mp_tables *tables, struct mp_spool_header *spool, struct mp_writer *writer,
                                   struct mp_error *error)
{
    /* Devices come first: they add their names to the strings, which are written next. */
    const struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    uint64_t count = tables->seen[MP_TABLE_TRACKS], from = tables->done[MP_TABLE_TRACKS];
    struct mp_track entries[256];
    for (uint64_t i = from; i < count; i++) {
        struct mp_track *to = &entries[i - from];
        *to = (struct mp_track){.layer = tracks[i].layer,
                                .size_basis = tracks[i].size_basis,
                                .name = mp_tables_spool_string(tables, tracks[i].name)};
        enum mp_status status = device_of(tables, spool, &tracks[i], &to->device, error);
        if (status) return status;
    }
    enum mp_status status = write_strings(tables, writer, error);
    size_t new_devices = tables->devices.count - tables->devices_written;
    if (!status && new_devices)
        status = mp_writer_devices(writer, tables->devices.at + tables->devices_written, new_devices, error);
    if (!status) tables->devices_written += new_devices;
    if (!status && count > from) status = mp_writer_tracks(writer, entries, count - from, error);
    if (!status) tables->done[MP_TABLE_TRACKS] = count;
    return status;
}

enum mp_status mp_tables_write(struct mp_tables *tables, struct mp_spool_header *spool, struct mp_writer *writer,
                               struct mp_error *error)
{
    enum mp_status status = write_tracks(tables, spool, writer, error);
    size_t new_threads = tables->threads.count - tables->threads_written;
    if (!status && new_threads)
        status = mp_writer_threads(writer, tables->threads.at + tables->threads_written, new_threads, error);
    if (!status) tables->threads_written += new_threads;
    return status ? status : write_modules_and_frames(tables, spool, writer, error);
}

void mp_tables_free(struct mp_tables *tables)
{
    mp_intern_free(&tables->strings);
    mp_map_free(&tables->spool_strings);
    mp_vec_free(&tables->devices);
    mp_vec_free(&tables->device_keys);
    mp_vec_free(&tables->threads);
    mp_vec_free(&tables->lane_thread);
}

void mp_tables_track_id(const struct mp_tables *tables, struct mp_spool_header *spool, size_t track,
                        char id[MP_ID_TEXT])
{
    *id = '\0';
    if (track >= tables->seen[MP_TABLE_TRACKS]) return;
    const struct mp_wire_track *wire = (const struct mp_wire_track *)mp_spool_entries(spool, MP_TABLE_TRACKS) + track;
    size_t length;
    const char *pool = mp_intern_get(&tables->strings, mp_tables_spool_string(tables, wire->name), &length);
    mp_format_track_id(id, MP_ID_TEXT, wire->device_type, wire->device_index, wire->layer, pool, length);
}
