#include "output/page_track.h"

#include <string.h>

#include "base/varint.h"

#define ADDRESS_LIMIT (UINT64_C(1) << 53) /* what a number in the page can hold */

enum page_op { OP_ALLOC = 0, OP_FREE = 1 };

static uint64_t known(uint64_t bytes)
{
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

/* Index of a size in the dictionary; 0 stands for a size that is not known. */
static uint64_t size_index(struct mp_page_shared *shared, uint64_t bytes)
{
    if (bytes == MP_BYTES_UNKNOWN) return 0;
    bool added;
    uint64_t *index = mp_map_insert(&shared->sizes, bytes + 1, &added);
    if (!index) {
        shared->failed = true;
        return 0;
    }
    if (added) {
        *index = shared->sizes.count;
        mp_varint_append(&shared->dictionary, bytes);
    }
    return *index;
}

static uint64_t page_address(const struct mp_model *model, size_t block)
{
    uint64_t address = model->blocks.address[block];
    return address < ADDRESS_LIMIT ? address : 0;
}

unsigned mp_page_address_shift(const struct mp_model *model)
{
    uint64_t bits = UINT64_C(1) << 16;
    for (size_t i = 0; i < model->blocks.count; i++)
        bits |= page_address(model, i);
    return (unsigned)__builtin_ctzll(bits);
}

/* Allocators use few addresses again and again: how many blocks ago this one was in use, or 0 and the address. */
static void add_address(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint64_t address)
{
    bool added;
    uint64_t *latest = mp_map_insert(&track->latest, address + 1, &added);
    if (!latest) {
        shared->failed = true;
        return;
    }
    mp_varint_append(&track->reuse, added ? 0 : track->count.blocks - *latest);
    *latest = track->count.blocks;
    if (!added) return;
    mp_varint_append(&track->address, mp_zigzag((int64_t)(address - track->last_address)));
    track->last_address = address;
    track->addresses++;
}

/* A block's bytes go from `before` to `after`. */
static void change_bytes(struct mp_page_track *track, uint64_t before, uint64_t after, uint64_t time_ns, bool picked)
{
    uint64_t change = known(after) - known(before); /* modulo 2^64, as are the sums on their way */
    track->whole_bytes += change;
    if (track->whole_bytes > track->whole_peak_bytes) track->whole_peak_bytes = track->whole_bytes;
    if (!picked) return;
    track->bytes += change;
    if (track->bytes <= track->peak_bytes) return;
    track->peak_bytes = track->bytes;
    track->peak_ns = time_ns;
}

/* What the allocator gave more than it was asked for, + 1; 0: not known. */
static uint64_t rounding_of(const struct mp_model *model, uint32_t block, uint64_t bytes)
{
    const struct mp_request *told = mp_model_request_of(model, block);
    bool sane = told && bytes != MP_BYTES_UNKNOWN && told->bytes <= bytes && bytes - told->bytes < UINT32_MAX;
    return sane ? bytes - told->bytes + 1 : 0;
}

/* Gives `block` (again, after a resize) a number on its track and writes what is known of it. */
static void add_block(struct mp_page_track_columns *track, struct mp_page_shared *shared, size_t block, uint64_t bytes,
                      uint32_t thread)
{
    const struct mp_model_blocks *blocks = &shared->model->blocks;
    mp_varint_append(&track->size, size_index(shared, bytes));
    mp_varint_append(&track->site, mp_page_stacks_site(shared->stacks, blocks->stack[block]));
    add_address(track, shared, page_address(shared->model, block) >> shared->address_shift);
    mp_page_runs_add(&track->thread, thread);
    mp_page_runs_add(&track->kind, blocks->kind[block]);
    mp_page_runs_add(&track->lane, shared->lane[block]);
    mp_page_runs_add(&track->rounding, rounding_of(shared->model, (uint32_t)block, bytes));
    mp_page_runs_add(&track->module, mp_page_modules_of(shared->modules, (uint32_t)block));
    mp_page_runs_add(&track->category, shared->category[block]);
    shared->local[block] = (uint32_t)track->count.blocks++;
    track->count.live_blocks++;
    if (bytes == MP_BYTES_UNKNOWN) track->count.unknown_blocks++;
}

static void add_op(struct mp_page_track_columns *track, const struct mp_page_shared *shared, enum page_op op,
                   uint64_t time_ns)
{
    unsigned char byte = (unsigned char)op;
    mp_buffer_append(&track->op, &byte, 1);
    mp_page_add_time(&track->time, &track->last_time, time_ns / shared->time_unit_ns);
    track->count.events++;
}

static void add_free(struct mp_page_track_columns *track, const struct mp_page_shared *shared, size_t block,
                     uint64_t time_ns)
{
    add_op(track, shared, OP_FREE, time_ns);
    mp_varint_append(&track->free, track->count.blocks - 1 - shared->local[block]);
    track->frees++;
    track->count.live_blocks--;
}

/* The page draws a block as a band of one height, so each size of a block is a block there; `resized` joins them. */
static void add_resize(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint32_t event,
                       uint32_t block, uint64_t bytes)
{
    const struct mp_model_events *events = &shared->model->events;
    uint32_t before = shared->local[block];
    add_free(track, shared, block, events->time_ns[event]);
    add_op(track, shared, OP_ALLOC, events->time_ns[event]);
    add_block(track, shared, block, bytes, events->thread[event]);
    mp_varint_append(&track->resized, shared->local[block] - track->last_resized);
    mp_varint_append(&track->resized, shared->local[block] - before);
    track->last_resized = shared->local[block];
    track->resizes++;
}

void mp_page_track_base(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint32_t block,
                        uint64_t bytes, bool picked)
{
    change_bytes(&track->count, 0, bytes, shared->from_ns, picked);
    if (!picked) return;
    add_block(track, shared, block, bytes, 0);
    track->count.base_blocks++;
}

void mp_page_track_event(struct mp_page_track_columns *track, struct mp_page_shared *shared, uint32_t event,
                         bool picked)
{
    const struct mp_model *model = shared->model;
    uint64_t time_ns = model->events.time_ns[event];
    uint32_t block = model->events.subject[event];
    uint8_t type = model->events.type[event];
    uint64_t after = type == MP_EVENT_FREE ? 0 : mp_model_bytes_at(model, block, event);
    uint64_t before = type == MP_EVENT_ALLOC ? 0 : mp_model_bytes_at(model, block, event ? event - 1 : 0);
    change_bytes(&track->count, before, after, time_ns, picked);
    if (!picked) return;
    if (type == MP_EVENT_FREE) {
        add_free(track, shared, block, time_ns);
    } else if (type == MP_EVENT_RESIZE) {
        add_resize(track, shared, event, block, after);
    } else {
        add_op(track, shared, OP_ALLOC, time_ns);
        add_block(track, shared, block, after, model->events.thread[event]);
    }
}

void mp_page_track_step(struct mp_page_track_columns *track)
{
    mp_varint_append(&track->step, track->count.events - track->last_step);
    track->last_step = track->count.events;
}

void mp_page_track_rows(struct mp_page_track_columns *track, uint64_t steps,
                        struct mp_page_row rows[MP_PAGE_TRACK_ROWS])
{
    uint64_t events = track->count.events, blocks = track->count.blocks;
    const struct mp_page_row made[MP_PAGE_TRACK_ROWS] = {
        {"op", &track->op, events},
        {"free", &track->free, track->frees},
        {"time", &track->time, events},
        {"size", &track->size, blocks},
        {"site", &track->site, blocks},
        {"reuse", &track->reuse, blocks},
        {"address", &track->address, track->addresses},
        {"thread", &track->thread.to, track->thread.count},
        {"kind", &track->kind.to, track->kind.count},
        {"lane", &track->lane.to, track->lane.count},
        {"rounding", &track->rounding.to, track->rounding.count},
        {"module", &track->module.to, track->module.count},
        {"category", &track->category.to, track->category.count},
        {"resized", &track->resized, track->resizes},
        {"step", &track->step, steps},
    };
    memcpy(rows, made, sizeof made);
}

void mp_page_track_free(struct mp_page_track_columns *track)
{
    struct mp_page_row rows[MP_PAGE_TRACK_ROWS];
    mp_page_track_rows(track, 0, rows);
    for (size_t i = 0; i < MP_PAGE_TRACK_ROWS; i++)
        mp_buffer_free(rows[i].raw);
    mp_map_free(&track->latest);
}
