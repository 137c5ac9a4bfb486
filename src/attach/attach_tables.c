#include "attach/attach_tables.h"
#include "attach/attach_libunwind.h"
#include "attach/attach_unwind.h"

#include <string.h>

#include "base/hash.h"

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* True if `more` entries fit after the last one. *at then points there. */
static bool have_room(struct mp_attach_tables *tables, enum mp_spool_table_id id, uint64_t more, uint64_t *count)
{
    struct mp_spool_table *table = &tables->spool->header->tables[id];
    *count = atomic_load(&table->count);
    if (*count + more > atomic_load(&table->committed)) (void)mp_spool_file_grow(tables->spool);
    if (*count + more <= atomic_load(&table->committed)) return true;
    _Atomic uint64_t *lost = id == MP_TABLE_STRINGS ? &tables->spool->header->losses.lost_strings
                                                    : &tables->spool->header->losses.lost_stacks;
    atomic_fetch_add(lost, 1);
    return false;
}

/* UINT32_MAX: no room. */
static uint32_t add_entry(struct mp_attach_tables *tables, enum mp_spool_table_id id, const void *entry)
{
    uint64_t count;
    size_t bytes = mp_spool_entry_bytes(id);
    if (!have_room(tables, id, 1, &count)) return UINT32_MAX;
    memcpy((char *)mp_spool_entries(tables->spool->header, id) + count * bytes, entry, bytes);
    atomic_store(&tables->spool->header->tables[id].count, count + 1);
    return (uint32_t)count;
}

uint32_t mp_attach_text(struct mp_attach_tables *tables, const char *text)
{
    size_t length = strlen(text);
    uint64_t end;
    if (!length) return 0;
    uint32_t number = mp_intern_add(&tables->strings, text, length);
    while (tables->string_ids.count <= number)
        mp_vec_add(&tables->string_ids, 0);
    uint32_t *id = &tables->string_ids.at[number], stored = (uint32_t)length;
    uint64_t bytes = (sizeof stored + length + 3) & ~UINT64_C(3);
    if (*id || !have_room(tables, MP_TABLE_STRINGS, bytes, &end)) return *id;
    char *at = (char *)mp_spool_entries(tables->spool->header, MP_TABLE_STRINGS) + end;
    memcpy(at, &stored, sizeof stored);
    memcpy(at + sizeof stored, text, length);
    atomic_store(&tables->spool->header->tables[MP_TABLE_STRINGS].count, end + bytes);
    return *id = (uint32_t)(end / 4);
}

uint16_t mp_attach_track(struct mp_attach_tables *tables, const struct mp_wire_track *track)
{
    const struct mp_wire_track *known = mp_spool_entries(tables->spool->header, MP_TABLE_TRACKS);
    uint64_t count = atomic_load(&tables->spool->header->tables[MP_TABLE_TRACKS].count);
    for (uint64_t i = 0; i < count; i++)
        if (!memcmp(&known[i], track, sizeof *track)) return (uint16_t)i;
    return (uint16_t)add_entry(tables, MP_TABLE_TRACKS, track);
}

static uint32_t module_id(struct mp_attach_tables *tables, struct mp_attach_module *module)
{
    if (module->spool_id) return module->spool_id;
    struct mp_wire_module entry;
    memset(&entry, 0, sizeof entry);
    entry.start = module->start;
    entry.end = module->end;
    entry.bias = module->bias;
    entry.file = module->id;
    entry.path = mp_attach_text(tables, module->path);
    entry.generation = (uint32_t)tables->generation;
    uint32_t id = add_entry(tables, MP_TABLE_MODULES, &entry);
    return id == UINT32_MAX ? 0 : (module->spool_id = id);
}

/* The frame with this content; added once. */
static uint32_t frame_id(struct mp_attach_tables *tables, const struct mp_wire_frame *frame)
{
    uint64_t *known = mp_map_at(&tables->frames, mp_hash_bytes(frame, sizeof *frame) | 1, NULL);
    if (!*known) *known = (uint64_t)add_entry(tables, MP_TABLE_FRAMES, frame) + 1;
    return (uint32_t)(*known - 1);
}

static uint32_t native_frame(struct mp_attach_tables *tables, uint64_t address)
{
    if (tables->generation != tables->target->generation) mp_map_clear(&tables->natives);
    tables->generation = tables->target->generation;
    uint64_t *known = mp_map_at(&tables->natives, address, NULL);
    if (*known) return (uint32_t)(*known - 1);
    struct mp_attach_module *module = mp_attach_target_module(tables->target, address - 1);
    struct mp_wire_frame frame = {.language = MP_NATIVE, .address = address};
    if (module) {
        frame.module = module_id(tables, module);
        frame.address = address - module->bias;
    }
    return (uint32_t)((*known = (uint64_t)frame_id(tables, &frame) + 1) - 1);
}

static uint32_t python_frame(struct mp_attach_tables *tables, const struct mp_attach_frame *python)
{
    uint64_t key = mp_hash_mix(mp_hash_step(mp_hash_step(python->code, python->tag), python->position)) | 1;
    uint64_t *known = mp_map_at(&tables->codes, key, NULL);
    if (*known) return (uint32_t)(*known - 1);
    struct mp_attach_code code;
    struct mp_wire_frame frame = {.language = MP_PYTHON};
    bool here = mp_attach_describe(tables->target, tables->python, python, &code);
    if (here) {
        frame.function = mp_attach_text(tables, code.function);
        frame.file = mp_attach_text(tables, code.file);
        frame.line = code.line;
    }
    uint32_t id = frame_id(tables, &frame);
    if (here) *known = (uint64_t)id + 1;
    return id;
}

static uint32_t node_id(struct mp_attach_tables *tables, uint32_t parent, uint32_t frame)
{
    const struct mp_wire_node node = {.parent = parent, .frame = frame};
    uint64_t *known = mp_map_at(&tables->nodes, ((uint64_t)parent << 32 | frame) + 1, NULL);
    if (*known) return (uint32_t)(*known - 1);
    uint32_t id = add_entry(tables, MP_TABLE_NODES, &node);
    if (id == UINT32_MAX) return parent;
    *known = (uint64_t)id + 1;
    return id;
}

/* ---- a stack ----------------------------------------------------------------------------------------------------- */

/* A frame of the merged path: native, or `python` if that is not NULL. */
struct merged {
    uint64_t address;
    const struct mp_attach_frame *python;
};

/* True if this C frame runs the group of frames that ends at `marker`. Python 3.9 and 3.10 have no marker: there the
 * first group belongs to the first call of the loop, the second to the second, and so on. */
static bool runs(const struct mp_attach_interpreter *python, const struct mp_attach_native *native, uint64_t marker)
{
    if (marker == 1) return native->address - python->loop_start < python->loop_end - python->loop_start;
    return marker >= native->from && marker < native->to;
}

/* Replaces each C frame that runs Python by its group of Python frames. */
static size_t merge(const struct mp_attach_interpreter *python, const struct mp_attach_native *native, size_t natives,
                    const struct mp_attach_frame *frames, uint32_t count, struct merged *to)
{
    size_t merged = 0;
    uint32_t next = 0;
    for (size_t i = 0; i < natives; i++) {
        uint32_t end = next;
        while (end < count && !frames[end].marker)
            end++;
        if (end >= count || !runs(python, &native[i], frames[end].marker)) {
            to[merged++] = (struct merged){.address = native[i].address};
            continue;
        }
        for (; next <= end; next++)
            if (frames[next].code) to[merged++] = (struct merged){.python = &frames[next]};
    }
    for (; next < count; next++)
        if (frames[next].code) to[merged++] = (struct merged){.python = &frames[next]};
    return merged;
}

static uint32_t enter(struct mp_attach_tables *tables, const struct merged *frame, uint32_t parent)
{
    uint32_t id = frame->python ? python_frame(tables, frame->python) : native_frame(tables, frame->address);
    return id == UINT32_MAX ? parent : node_id(tables, parent, id);
}

uint32_t mp_attach_node(struct mp_attach_tables *tables, const struct mp_attach_event *event,
                        const struct mp_attach_frame *frames, const void *stack)
{
    static struct mp_attach_native native[MP_ATTACH_NATIVE_MOST];
    static struct merged merged[MP_ATTACH_NATIVE_MOST + MP_ATTACH_PYTHON_MOST];
    bool cut = false;
    size_t natives = 0;
    if (tables->native && event->stack_bytes)
        natives = (tables->libunwind ? mp_attach_unwind_by_libunwind : mp_attach_unwind)(
            tables->target, event, stack, native, MP_ATTACH_NATIVE_MOST, &cut);
    uint32_t count = tables->python_frames ? event->python_count : 0;
    size_t all = merge(tables->python, native, natives, frames, count, merged), inner = all, outer_from = all;
    cut |= event->python_cut && count;
    if (all > tables->depth) {
        inner = tables->depth - tables->depth / 4;
        outer_from = all - tables->depth / 4;
        cut = true;
    }
    if (cut) atomic_fetch_add(&tables->spool->header->losses.truncated_stacks, 1);
    uint32_t node = 0;
    for (size_t i = all; i-- > outer_from;)
        node = enter(tables, &merged[i], node);
    if (cut) node = node_id(tables, node, MP_WIRE_FRAME_CUT);
    for (size_t i = inner; i-- > 0;)
        node = enter(tables, &merged[i], node);
    return node;
}

void mp_attach_tables_free(struct mp_attach_tables *tables)
{
    mp_map_free(&tables->natives);
    mp_map_free(&tables->codes);
    mp_map_free(&tables->nodes);
    mp_map_free(&tables->frames);
    mp_intern_free(&tables->strings);
    mp_vec_free(&tables->string_ids);
}
