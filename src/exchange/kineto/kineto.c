#include "exchange/kineto/kineto.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/order.h"
#include "exchange/common/import_tables.h"
#include "exchange/kineto/kineto_parts.h"

/* The order in which boundaries of one time take effect. */
enum turn { ENDS, STEPS, BEGINS, ENDS_AT_ONCE };

struct boundary {
    int64_t ns, tie;
    uint32_t region, order;
    uint8_t turn, type;
};

struct importer {
    struct mp_kineto *kineto;
    MP_VEC(struct boundary) boundaries;
    uint64_t reserved[1024]; /* per device: the last reported total */
    int64_t start_ns, end_ns;
    struct mp_import_events events;
    struct mp_error *error;
};

bool mp_kineto_looks_like(const unsigned char *text, size_t size)
{
    static const char *const signs[] = {"\"traceEvents\"", "\"deviceProperties\"", "\"baseTimeNanoseconds\"",
                                        "\"distributedInfo\""};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memmem(text, size, signs[i], strlen(signs[i]))) return true;
    return false;
}

MP_ORDER(by_time_then_turn, struct boundary, MP_RISING(ns) ?: MP_RISING(turn) ?: MP_FALLING(tie) ?: MP_RISING(order))

/* If regions begin at one time, the longer one is the outer one. If regions end at one time, the one begun later is the
 * inner one. */
static void make_boundaries(struct importer *importer)
{
    const struct mp_kineto *kineto = importer->kineto;
    for (uint32_t i = 0; i < kineto->regions.count; i++) {
        const struct mp_kineto_region *region = &kineto->regions.at[i];
        struct boundary begin = {region->start_ns,
                                 region->end_ns,
                                 i,
                                 region->order,
                                 region->step ? STEPS : BEGINS,
                                 region->step ? MP_EVENT_STEP : MP_EVENT_REGION_BEGIN};
        struct boundary end = {region->end_ns,
                               region->start_ns,
                               i,
                               region->order,
                               region->start_ns == region->end_ns ? ENDS_AT_ONCE : ENDS,
                               MP_EVENT_REGION_END};
        mp_vec_add(&importer->boundaries, begin);
        if (!region->step) mp_vec_add(&importer->boundaries, end);
    }
    if (importer->boundaries.count)
        qsort(importer->boundaries.at, importer->boundaries.count, sizeof *importer->boundaries.at, by_time_then_turn);
}

static void widen(struct importer *importer, int64_t ns)
{
    if (ns < importer->start_ns) importer->start_ns = ns;
    if (ns > importer->end_ns) importer->end_ns = ns;
}

static void find_window(struct importer *importer)
{
    const struct mp_kineto *kineto = importer->kineto;
    importer->start_ns = importer->end_ns = kineto->memory.at[0].ns;
    widen(importer, kineto->memory.at[kineto->memory.count - 1].ns);
    if (importer->boundaries.count) {
        widen(importer, importer->boundaries.at[0].ns);
        widen(importer, importer->boundaries.at[importer->boundaries.count - 1].ns);
    }
    for (int i = 0; kineto->has_window && i < 2; i++)
        widen(importer, kineto->window_ns[i]);
}

static void put_event(struct importer *i, int64_t ns, struct mp_event event)
{
    event.time_ns = (uint64_t)ns - (uint64_t)i->start_ns;
    mp_import_event(&i->events, &event);
}

static uint8_t kind_of(const struct mp_kineto_device *device)
{
    return device->type ? MP_KIND_DEVICE : MP_KIND_HOST;
}

/* Writes the free of the block that alloc number `alloc` made. */
static void put_free(struct importer *i, const struct mp_kineto_memory *at, uint32_t alloc)
{
    const struct mp_kineto_memory *made = alloc == MP_NONE ? at : &i->kineto->memory.at[alloc];
    struct mp_event event = {.type = MP_EVENT_FREE,
                             .address = made->address,
                             .bytes = made->bytes,
                             .block = made->block,
                             .thread = at->thread,
                             .track = at->device};
    put_event(i, at->ns, event);
}

/* Writes the reserved total. Skips a total of 0, or below the allocated bytes: the CPU's totals are meaningless. */
static void put_reserved(struct importer *i, const struct mp_kineto_memory *memory)
{
    uint64_t *last = &i->reserved[memory->device];
    if (memory->reserved == MP_BYTES_UNKNOWN || !memory->reserved || memory->reserved == *last) return;
    *last = memory->reserved;
    struct mp_event event = {
        .type = MP_EVENT_RESERVED, .bytes = memory->reserved, .thread = memory->thread, .track = memory->device};
    put_event(i, memory->ns, event);
}

static void put_memory(struct importer *i, const struct mp_kineto_memory *memory)
{
    const struct mp_kineto_device *device = &i->kineto->devices.at[memory->device];
    struct mp_event event = {.type = memory->type,
                             .address = memory->address,
                             .bytes = memory->bytes,
                             .block = memory->block,
                             .stack = memory->stack,
                             .thread = memory->thread,
                             .track = memory->device,
                             .kind = kind_of(device)};
    struct mp_event rest = {.type = MP_EVENT_RESIZE,
                            .bytes = memory->rest,
                            .block = device->rest_block,
                            .thread = memory->thread,
                            .track = memory->device};
    put_reserved(i, memory);
    if (memory->type == MP_EVENT_ALLOC && memory->alloc != MP_NONE) put_free(i, memory, memory->alloc);
    if (memory->rest != MP_BYTES_UNKNOWN) put_event(i, memory->ns, rest);
    if (memory->type == MP_EVENT_FREE)
        put_free(i, memory, memory->alloc);
    else
        put_event(i, memory->ns, event);
}

static void put_boundary(struct importer *i, const struct boundary *boundary)
{
    const struct mp_kineto_region *region = &i->kineto->regions.at[boundary->region];
    struct mp_event event = {.type = boundary->type, .name = region->name, .thread = region->thread};
    put_event(i, boundary->ns, event);
}

static bool comes_first(const struct boundary *boundary, const struct mp_kineto_memory *memory)
{
    return boundary->ns < memory->ns || (boundary->ns == memory->ns && boundary->turn < ENDS_AT_ONCE);
}

static enum mp_status put_events(struct importer *importer)
{
    const struct mp_kineto *kineto = importer->kineto;
    size_t next = 0;
    mp_vec_each (const struct mp_kineto_memory, memory, &kineto->memory) {
        while (next < importer->boundaries.count && comes_first(&importer->boundaries.at[next], memory))
            put_boundary(importer, &importer->boundaries.at[next++]);
        put_memory(importer, memory);
    }
    while (next < importer->boundaries.count)
        put_boundary(importer, &importer->boundaries.at[next++]);
    return mp_import_events_flush(&importer->events);
}

static bool make_base(const struct importer *importer, struct mp_base_block *blocks)
{
    const struct mp_kineto *kineto = importer->kineto;
    size_t count = 0;
    for (size_t i = 0; i < kineto->devices.count; i++) {
        const struct mp_kineto_device *device = &kineto->devices.at[i];
        struct mp_base_block rest = {
            .block = device->rest_block, .bytes = device->rest_bytes, .track = (uint16_t)i, .kind = kind_of(device)};
        if (device->has_rest) blocks[count++] = rest;
    }
    mp_vec_each (const struct mp_kineto_memory, memory, &kineto->memory) {
        struct mp_base_block block = {.block = memory->block,
                                      .address = memory->address,
                                      .bytes = memory->bytes,
                                      .track = memory->device,
                                      .kind = kind_of(&kineto->devices.at[memory->device])};
        if (memory->type == MP_EVENT_FREE && memory->alloc == MP_NONE) blocks[count++] = block;
    }
    return count == kineto->base_blocks;
}

static enum mp_status put_base(struct importer *importer)
{
    size_t count = importer->kineto->base_blocks;
    struct mp_base_block *blocks = mp_alloc_zeroed(count + 1, sizeof *blocks);
    struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .count = count, .base_total = count};
    chunk.base = blocks;
    enum mp_status status = MP_OK;
    if (make_base(importer, blocks) && count)
        status = mp_builder_add(importer->events.builder, &chunk, importer->error);
    free(blocks);
    return status;
}

static const struct mp_kineto_property *property_of(const struct mp_kineto *kineto,
                                                    const struct mp_kineto_device *device)
{
    for (size_t i = 0; device->type && i < kineto->properties.count; i++)
        if (kineto->properties.at[i].id == device->id) return &kineto->properties.at[i];
    return NULL;
}

static void make_tracks(struct mp_kineto *kineto)
{
    for (size_t i = 0; i < kineto->devices.count; i++) {
        const struct mp_kineto_device *device = &kineto->devices.at[i];
        const struct mp_kineto_property *property = property_of(kineto, device);
        char name[64];
        mp_format_device_id(name, sizeof name, (unsigned)device->type, (int)device->id);
        struct mp_device row = {.name = mp_import_text(&kineto->tables, name, strlen(name)),
                                .model = property ? property->name : 0,
                                .total_bytes = property ? property->total_bytes : MP_BYTES_UNKNOWN};
        struct mp_track track = {.device = (uint32_t)i, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK};
        mp_vec_add(&kineto->tables.devices, row);
        mp_vec_add(&kineto->tables.tracks, track);
    }
}

static enum mp_status put_coverage(struct importer *importer, struct mp_kineto_notes *notes, uint32_t source)
{
    struct mp_kineto *kineto = importer->kineto;
    struct mp_coverage coverage = {.events = kineto->memory.count,
                                   .totals_checked = kineto->checked,
                                   .totals_wrong = kineto->corrections,
                                   .sources = &source,
                                   .source_count = 1,
                                   .notes = notes->ids.at,
                                   .note_count = (uint32_t)notes->ids.count};
    struct mp_exit how = {.time_ns = (uint64_t)importer->end_ns - (uint64_t)importer->start_ns};
    return mp_import_end(importer->events.builder, &coverage, &how, importer->error);
}

static enum mp_status fill_builder(struct importer *importer)
{
    struct mp_kineto *kineto = importer->kineto;
    struct mp_kineto_notes notes = {0};
    mp_kineto_note(kineto, importer->start_ns, &notes);
    uint32_t source = mp_import_text(&kineto->tables, "kineto", strlen("kineto"));
    make_tracks(kineto);
    enum mp_status status = mp_import_tables_put(&kineto->tables, importer->events.builder, importer->error);
    if (!status) status = put_base(importer);
    if (!status) status = put_events(importer);
    if (!status) status = put_coverage(importer, &notes, source);
    mp_vec_free(&notes.ids);
    return status;
}

static enum mp_status build_trace(struct importer *importer, const char *path, struct mp_model **model)
{
    const struct mp_kineto *kineto = importer->kineto;
    const char *command[] = {mp_intern_get(&kineto->tables.strings, kineto->process_name, NULL), NULL};
    if (!kineto->process_name) command[0] = NULL;
    struct mp_recording_start start = {.pid = (uint32_t)kineto->owners.at[kineto->memory.at[0].thread].pid,
                                       .host = "",
                                       .command = command,
                                       .configuration = "",
                                       .spool = ""};
    if (kineto->has_base || importer->start_ns >= MP_KINETO_UNIX_MIN)
        start.realtime_ns = (uint64_t)kineto->base_ns + (uint64_t)importer->start_ns;
    struct stat facts;
    uint64_t file_bytes = stat(path, &facts) ? 0 : (uint64_t)facts.st_size;
    mp_builder_new(&start, &importer->events.builder);
    return mp_import_finish(importer->events.builder, fill_builder(importer), file_bytes, "kineto", model,
                            importer->error);
}

static enum mp_status to_model(struct mp_kineto *kineto, const char *path, struct mp_model **model,
                               struct mp_error *error)
{
    struct importer *importer = mp_alloc_zeroed(1, sizeof *importer);
    importer->kineto = kineto;
    importer->error = importer->events.error = error;
    make_boundaries(importer);
    find_window(importer);
    enum mp_status status = build_trace(importer, path, model);
    mp_vec_free(&importer->boundaries);
    free(importer);
    return status;
}

static void free_kineto(struct mp_kineto *kineto)
{
    mp_import_tables_free(&kineto->tables);
    struct mp_map *const maps[] = {&kineto->thread_ids, &kineto->device_ids, &kineto->thread_names,
                                   &kineto->process_names, &kineto->pids};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        mp_map_free(maps[i]);
    mp_vec_free(&kineto->memory);
    mp_vec_free(&kineto->regions);
    mp_vec_free(&kineto->devices);
    mp_vec_free(&kineto->properties);
    mp_vec_free(&kineto->owners);
}

enum mp_status mp_kineto_load(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct mp_kineto kineto = {0};
    mp_import_text(&kineto.tables, "", 0);
    enum mp_status status = mp_kineto_collect(&kineto, path, error);
    if (!status) mp_kineto_pair(&kineto);
    if (!status) status = mp_kineto_attribute(&kineto, path, error);
    if (!status) status = to_model(&kineto, path, model, error);
    free_kineto(&kineto);
    return status;
}
