#include "exchange/common/import_tables.h"

#include <stdlib.h>

#include "base/memory.h"

enum mp_status mp_import_event(struct mp_import_events *e, const struct mp_event *event)
{
    if (e->waiting.count == MP_CHUNK_EVENTS) mp_import_events_flush(e);
    mp_event_room_put(&e->waiting, event);
    return e->status;
}

enum mp_status mp_import_events_flush(struct mp_import_events *e)
{
    struct mp_chunk chunk = {.kind = MP_CHUNK_EVENTS_KIND, .count = e->waiting.count};
    chunk.as.events = mp_event_room_columns(&e->waiting);
    if (chunk.count && !e->status) e->status = mp_builder_add(e->builder, &chunk, e->error);
    e->passed += chunk.count;
    e->waiting.count = 0;
    return e->status;
}

uint32_t mp_import_text(struct mp_import_tables *tables, const char *text, size_t length)
{
    return mp_intern_add(&tables->strings, text, length);
}

uint32_t mp_import_frame(struct mp_import_tables *tables, enum mp_language language, uint32_t function, uint32_t file,
                         uint32_t line)
{
    const uint32_t key[] = {language, function, file, line};
    uint32_t id = mp_intern_add(&tables->frame_keys, (const char *)key, sizeof key);
    struct mp_frame frame = {.language = (uint8_t)language, .function = function, .file = file, .line = line};
    /* Id 0 is the empty key, so that the first frame has 1. */
    bool known = id - 1 < tables->frames.count;
    if (known) return id - 1;
    mp_vec_add(&tables->frames, frame);
    return id - 1;
}

static void need_root(struct mp_import_tables *tables)
{
    const struct mp_stack_node root = {0, MP_FRAME_CUT};
    if (!tables->nodes.count) mp_vec_add(&tables->nodes, root);
}

uint32_t mp_import_stack(struct mp_import_tables *tables, uint32_t parent, uint32_t frame)
{
    const struct mp_stack_node node = {parent, frame};
    bool added = false;
    /* The key + 1 cannot wrap to 0: this would need the parent 2^32 - 1, and there are fewer nodes. */
    uint64_t *id = mp_map_at(&tables->node_ids, ((uint64_t)parent << 32 | frame) + 1, &added);
    if (!added) return (uint32_t)*id;
    need_root(tables);
    if (tables->nodes.count >= MP_NONE) mp_memory_lacks(0); /* stacks are numbered in four bytes */
    mp_vec_add(&tables->nodes, node);
    *id = tables->nodes.count - 1;
    return (uint32_t)*id;
}

static enum mp_status put_strings(const struct mp_import_tables *tables, struct mp_builder *builder,
                                  struct mp_error *error)
{
    struct mp_string_entry *entries = mp_alloc_zeroed(tables->strings.count + 1, sizeof *entries);
    for (uint32_t i = 0; i < tables->strings.count; i++)
        entries[i].text = mp_intern_get(&tables->strings, i, &entries[i].length);
    struct mp_chunk chunk = {.kind = MP_CHUNK_STRINGS, .count = tables->strings.count};
    chunk.as.strings = entries;
    enum mp_status status = mp_builder_add(builder, &chunk, error);
    free(entries);
    return status;
}

/* In a recording the lines of native frames are stored in symbols, not in the frames. */
static enum mp_status put_symbols(const struct mp_import_tables *tables, struct mp_builder *builder,
                                  struct mp_error *error)
{
    MP_VEC(struct mp_symbol) symbols = {0};
    for (uint32_t i = 0; i < tables->frames.count; i++) {
        const struct mp_frame *frame = &tables->frames.at[i];
        struct mp_symbol symbol = {i, frame->function, frame->file, frame->line};
        if (frame->language == MP_NATIVE) mp_vec_add(&symbols, symbol);
    }
    struct mp_chunk chunk = {.kind = MP_CHUNK_SYMBOLS, .count = symbols.count};
    chunk.as.symbols = symbols.at;
    enum mp_status status = mp_builder_add(builder, &chunk, error);
    mp_vec_free(&symbols);
    return status;
}

static enum mp_status put_rows(const struct mp_import_tables *tables, struct mp_builder *builder,
                               struct mp_error *error)
{
    struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_DEVICES, .count = tables->devices.count, .as.devices = tables->devices.at},
        {.kind = MP_CHUNK_TRACKS, .count = tables->tracks.count, .as.tracks = tables->tracks.at},
        {.kind = MP_CHUNK_THREADS, .count = tables->threads.count, .as.threads = tables->threads.at},
        {.kind = MP_CHUNK_FRAMES, .count = tables->frames.count, .as.frames = tables->frames.at},
        {.kind = MP_CHUNK_STACKS, .count = tables->nodes.count, .as.stacks = tables->nodes.at},
    };
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < sizeof chunks / sizeof *chunks; i++)
        if (chunks[i].count) status = mp_builder_add(builder, &chunks[i], error);
    return status;
}

enum mp_status mp_import_tables_put(struct mp_import_tables *tables, struct mp_builder *builder, struct mp_error *error)
{
    mp_import_text(tables, "", 0);
    enum mp_status status = put_strings(tables, builder, error);
    if (!status) status = put_rows(tables, builder, error);
    return status ? status : put_symbols(tables, builder, error);
}

void mp_import_tables_free(struct mp_import_tables *tables)
{
    mp_intern_free(&tables->strings);
    mp_intern_free(&tables->frame_keys);
    mp_map_free(&tables->node_ids);
    mp_vec_free(&tables->frames);
    mp_vec_free(&tables->nodes);
    mp_vec_free(&tables->devices);
    mp_vec_free(&tables->tracks);
    mp_vec_free(&tables->threads);
}

enum mp_status mp_import_end(struct mp_builder *builder, const struct mp_coverage *coverage, const struct mp_exit *how,
                             struct mp_error *error)
{
    struct mp_chunk chunks[] = {{.kind = MP_CHUNK_COVERAGE, .count = 1, .as.coverage = coverage},
                                {.kind = MP_CHUNK_EXIT, .count = 1, .as.how = how}};
    enum mp_status status = mp_builder_add(builder, &chunks[0], error);
    return status ? status : mp_builder_add(builder, &chunks[1], error);
}

enum mp_status mp_import_finish(struct mp_builder *builder, enum mp_status filled, uint64_t file_bytes,
                                const char *format, struct mp_model **model, struct mp_error *error)
{
    static const struct mp_damage whole;
    if (filled) {
        mp_builder_free(builder);
        return filled;
    }
    mp_builder_finish(builder, &whole, file_bytes, model);
    (*model)->file.format = format;
    return MP_OK;
}
