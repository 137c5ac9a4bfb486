#include "analysis/allocator/torch_history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sites/placement.h"
#include "base/map.h"
#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"
#include "base/words.h"
#include "model/track.h"

/* ---- marks of calls that allocate nothing */

struct torch_mark {
    enum mp_torch_call call;
    uint64_t pool;             /* as in struct mp_segment */
    bool use_on_oom, no_split; /* for MP_TORCH_CALL_POOL_MADE */
    double fraction;           /* for MP_TORCH_CALL_LIMIT */
    const char *settings;      /* for MP_TORCH_CALL_SETTINGS and _BEGAN: the end of the mark's name */
};

static const struct {
    const char *word;
    enum mp_torch_call call;
} of_pools[] = {
    {"made", MP_TORCH_CALL_POOL_MADE},       {"begins", MP_TORCH_CALL_POOL_BEGINS},
    {"ends", MP_TORCH_CALL_POOL_ENDS},       {"released", MP_TORCH_CALL_POOL_RELEASED},
    {"deleted", MP_TORCH_CALL_POOL_DELETED}, {"captured", MP_TORCH_CALL_CAPTURED},
};

static bool read_pool(const char *text, struct torch_mark *mark, char *device)
{
    uint64_t first, second;
    char word[16];
    if (sscanf(text, "pool %" SCNu64 ":%" SCNu64 " %15s on %31s", &first, &second, word, device) != 4) return false;
    mark->pool = first << 32 | second;
    for (size_t i = 0; i < sizeof of_pools / sizeof *of_pools; i++)
        if (!strcmp(word, of_pools[i].word)) {
            mark->call = of_pools[i].call;
            mark->use_on_oom = strstr(text, " use_on_oom") != NULL;
            mark->no_split = strstr(text, " no_split") != NULL;
            return true;
        }
    return false;
}

static bool read_capture(const char *text, struct torch_mark *mark, char *device)
{
    char word[16];
    if (sscanf(text, "capture %15s on %31s", word, device) != 2) return false;
    mark->call = strcmp(word, "begins") ? MP_TORCH_CALL_CAPTURE_FAILS : MP_TORCH_CALL_CAPTURE;
    return true;
}

/* True if a mark of that name is one of these calls, on the device ("cuda:0"). */
static bool read_mark(const char *name, const char *device, struct torch_mark *mark)
{
    static const char began[] = "began with settings:", settings[] = "settings:";
    char of[32];
    *mark = (struct torch_mark){0};
    if (strncmp(name, MP_TORCH_MARK, strlen(MP_TORCH_MARK)) != 0) return false;
    const char *text = name + strlen(MP_TORCH_MARK);
    if (!strcmp(text, "empty_cache")) {
        mark->call = MP_TORCH_CALL_EMPTY;
        return true;
    }
    if (!strncmp(text, began, strlen(began)) || !strncmp(text, settings, strlen(settings))) {
        mark->call = *text == *began ? MP_TORCH_CALL_BEGAN : MP_TORCH_CALL_SETTINGS;
        mark->settings = strchr(text, ':') ? strchr(text, ':') + 1 : "";
        return true;
    }
    if (sscanf(text, "memory fraction %lf on %31s", &mark->fraction, of) == 2) {
        mark->call = MP_TORCH_CALL_LIMIT;
        return !strcmp(of, device) && isfinite(mark->fraction) && mark->fraction >= 0 && mark->fraction <= 1;
    }
    return (read_pool(text, mark, of) || read_capture(text, mark, of)) && !strcmp(of, device);
}

/* ---- private pools */

/*
 * A private pool of PyTorch allocates only while the program uses it, in a capture or on request. If it allocates at
 * another time, PyTorch is restoring the pool's former state.
 */

/* A pool serves requests between two events of the model. */
struct torch_use {
    uint32_t pool; /* index into the history's pools */
    uint32_t begin, end;
};
struct torch_uses {
    struct torch_use *at;
    size_t count, room;
};

/* A segment of the allocator. */
struct held {
    uint64_t address, bytes;
    uint32_t event; /* event that got it from the driver */
    uint32_t pool;  /* NO_POOL: no block has shown its pool yet */
};
#define NO_POOL UINT32_MAX

struct holder {
    const struct mp_model *model;
    const struct torch_uses *uses; /* in order */
    uint16_t driver;
    uint32_t event;           /* earlier events have been followed */
    MP_VEC(struct held) held; /* by address */
};

static size_t place_of(const struct holder *h, uint64_t address)
{
    return MP_COUNT_BEFORE(h->held.count, i, h->held.at[i].address < address);
}

static void hold(struct holder *h, uint32_t block)
{
    const struct mp_model_blocks *blocks = &h->model->blocks;
    const struct held held = {blocks->address[block], blocks->bytes[block], blocks->alloc_event[block], NO_POOL};
    if (held.bytes == MP_BYTES_UNKNOWN) return;
    size_t place = place_of(h, held.address);
    mp_vec_add(&h->held, held);
    memmove(&h->held.at[place + 1], &h->held.at[place], (h->held.count - 1 - place) * sizeof held);
    h->held.at[place] = held;
}

static void let_go(struct holder *h, uint64_t address)
{
    size_t place = place_of(h, address);
    if (place == h->held.count || h->held.at[place].address != address) return;
    h->held.count--;
    memmove(&h->held.at[place], &h->held.at[place + 1], (h->held.count - place) * sizeof *h->held.at);
}

static void follow_driver(struct holder *h, uint32_t to)
{
    const struct mp_model_events *events = &h->model->events;
    for (; h->event < to && h->driver != MP_TRACK_NONE; h->event++) {
        if (events->track[h->event] != h->driver) continue;
        uint32_t block = events->subject[h->event];
        if (events->type[h->event] == MP_EVENT_ALLOC) hold(h, block);
        if (events->type[h->event] == MP_EVENT_FREE) let_go(h, h->model->blocks.address[block]);
    }
}

/* The segment with the address; NULL if the allocator got it before the recording began. */
static struct held *segment_of(const struct holder *h, uint64_t address)
{
    size_t after = MP_COUNT_BEFORE(h->held.count, i, h->held.at[i].address <= address);
    struct held *found = after ? &h->held.at[after - 1] : NULL;
    return found && address - found->address < found->bytes ? found : NULL;
}

MP_ORDER(by_pool, struct torch_use, MP_RISING(pool) ?: MP_RISING(begin))

static void put_in_order(struct torch_uses *uses)
{
    size_t kept = 0;
    if (uses->count) qsort(uses->at, uses->count, sizeof *uses->at, by_pool);
    for (size_t i = 0; i < uses->count; i++) {
        struct torch_use *last = kept ? &uses->at[kept - 1] : NULL;
        const struct torch_use use = uses->at[i];
        if (last && last->pool == use.pool && use.begin <= last->end)
            last->end = last->end > use.end ? last->end : use.end;
        else
            uses->at[kept++] = use;
    }
    uses->count = kept;
}

/* The number of uses before the pool's first use that begins after the event. */
static size_t uses_before(const struct torch_uses *uses, uint32_t pool, uint32_t event)
{
    return MP_COUNT_BEFORE(uses->count, i,
                           uses->at[i].pool < pool || (uses->at[i].pool == pool && uses->at[i].begin <= event));
}

static bool is_known(const struct torch_uses *uses, uint32_t pool)
{
    size_t end = uses_before(uses, pool, MP_NONE);
    return end && uses->at[end - 1].pool == pool;
}

static bool is_used(const struct torch_uses *uses, uint32_t pool, uint32_t event)
{
    size_t end = uses_before(uses, pool, event);
    return end && uses->at[end - 1].pool == pool && event < uses->at[end - 1].end;
}

/* Before 2.10, PyTorch's history names no pools. Its pools come from the segment that has the block's address when the
 * recorder reads the history. By then the default pool may have returned the segment, and a private pool may have got
 * that memory. Without history, a block belongs to the pool of the segment's first block. */
static void correct_pool(const struct holder *h, bool has_history, struct mp_torch_step *step)
{
    struct held *segment = segment_of(h, step->address);
    if (!segment) return;
    if (!has_history && segment->pool != NO_POOL)
        step->pool = segment->pool;
    else if (step->pool && is_known(h->uses, step->pool) && !is_used(h->uses, step->pool, segment->event))
        step->pool = 0;
    if (segment->pool == NO_POOL) segment->pool = step->pool;
}

/* PyTorch restores a pool segment by segment: it allocates every block in it, then frees those that were free. Marks
 * such blocks from step `first` on. Returns the step after all these allocations and frees. */
static size_t mark_free_ones(struct mp_torch_history *history, size_t first)
{
    const struct mp_torch_step *steps = history->steps.at;
    size_t count = history->steps.count, end = first, back;
    while (end < count && steps[end].action == MP_TORCH_ALLOC && steps[end].put_back)
        end++;
    for (back = end; back < count && steps[back].action == MP_TORCH_FREE_COMPLETED; back++) {
        /* Blocks are numbered in the order of their allocation. */
        size_t at = first + MP_COUNT_BEFORE(end - first, i, steps[first + i].block < steps[back].block);
        if (at < end && steps[at].block == steps[back].block) history->steps.at[at].was_free = true;
    }
    return back;
}

/* Corrects the pools in a history's steps, and marks the steps that restore a pool. `driver`: the track of the
 * segments, or MP_TRACK_NONE; `known`: uses from PyTorch's history. Pools without a known use are not changed. Sorts
 * the uses, and joins those that overlap. */
static void follow_uses(const struct mp_model *model, uint16_t driver, struct torch_uses *uses,
                        const struct mp_placements *known, struct mp_torch_history *history)
{
    struct holder h = {.model = model, .uses = uses, .driver = driver};
    put_in_order(uses);
    for (size_t i = 0; i < history->steps.count && uses->count; i++) {
        struct mp_torch_step *step = &history->steps.at[i];
        if (step->action != MP_TORCH_ALLOC) continue;
        follow_driver(&h, step->event);
        correct_pool(&h, mp_placed(known->pool, step->block) != MP_PLACE_UNKNOWN, step);
        step->put_back = step->pool && is_known(uses, step->pool) && !is_used(uses, step->pool, step->event);
    }
    for (size_t i = 0; i < history->steps.count;)
        i = history->steps.at[i].put_back ? mark_free_ones(history, i) : i + 1;
    mp_vec_free(&h.held);
}

/* The initial state of an allocator's history: its segments and the blocks in them. One thread at a time. */

/*
 * A trace rarely reaches back to the first allocation. The state before it follows from the end: the segments give the
 * sizes of blocks that still live. For a freed block, the trace gives only the requested size. The block may also
 * include a remainder too small to split (at most 1 MiB), which only its neighbours show.
 */
#define SEGMENTS_UNIT (2u << 20)          /* the allocator asks the driver for multiples of 2 MiB */
#define ROOM          ((uint64_t)1 << 40) /* size of an expandable segment's address space: more than any device has */
#define RESERVATIONS  1024                /* expandable segments at the beginning: two for each stream and pool */

/* When and where the trace allocates. */
struct birth {
    uint64_t address;
    uint32_t event;
};

struct finder {
    const struct mp_model *model;
    struct mp_torch_history *history;
    uint16_t driver;
    struct mp_map held; /* address + 1 of a live part at the end, to its index in model->parts */
    MP_VEC(struct birth) births;
    MP_VEC(struct mp_torch_segment) ends;       /* segments that are live at the end */
    MP_VEC(struct mp_torch_segment) given_back; /* by steps */
    size_t reservations;
};

static int by_address(const void *a, const void *b)
{
    /* Every struct that is sorted here begins with its address. */
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The last of the sorted segments that begins at or below the address; NULL: none. */
static const struct mp_torch_segment *last_below(const struct mp_torch_segment *at, size_t count, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(count, i, at[i].address <= address);
    return before ? &at[before - 1] : NULL;
}

/* The segment that contains the address. */
static const struct mp_torch_segment *segment_at(const struct mp_torch_segment *at, size_t count, uint64_t address)
{
    const struct mp_torch_segment *found = last_below(at, count, address);
    return found && address - found->address < found->bytes ? found : NULL;
}

/* Finds the owner of the memory from the segments at the end, else from the step that frees it. `ended`: the trace
 * frees the memory. At the end, its address may then belong to another segment, with another size and other blocks. */
static void find_owner(const struct finder *f, struct mp_torch_segment *segment, bool ended)
{
    const struct mp_torch_segment *found = last_below(f->ends.at, f->ends.count, segment->address + segment->bytes - 1);
    bool is_held = found && found->address + found->bytes > segment->address &&
                   (segment->expandable || (found->address == segment->address && !ended));
    if (!is_held) found = segment_at(f->given_back.at, f->given_back.count, segment->address);
    segment->small = segment->expandable ? segment->bytes % f->history->settings.large_segment != 0
                                         : segment->bytes <= MP_TORCH_PAGE;
    if (!found) return;
    segment->stream = found->stream;
    segment->pool = found->pool;
    if (is_held) segment->small = found->small;
}

static bool same_owner(const struct mp_torch_segment *a, const struct mp_torch_segment *b)
{
    return a->stream == b->stream && a->pool == b->pool && a->small == b->small;
}

/* Finds the expandable segment of a run of pages. The segment begins at its lowest run; runs that the trace maps count,
 * too. */
static void put_in_reservation(struct finder *f, const struct mp_torch_segment *run)
{
    struct mp_torch_history *history = f->history;
    uint64_t page = run->small ? MP_TORCH_PAGE : history->settings.large_segment;
    mp_vec_each (struct mp_torch_segment, at, &history->segments) {
        if (!at->expandable || !same_owner(at, run)) continue;
        if (run->address < at->address) at->address = run->address;
        return;
    }
    if (++f->reservations > RESERVATIONS) return;
    struct mp_torch_segment made = *run;
    mp_vec_each (const struct mp_torch_step, step, &history->steps) {
        if (step->action == MP_TORCH_SEGMENT_MAP && step->stream == run->stream && step->pool == run->pool &&
            (step->bytes % history->settings.large_segment != 0) == run->small && step->address < made.address &&
            made.address - step->address < ROOM && (made.address - step->address) % page == 0)
            made.address = step->address;
    }
    made.bytes = ROOM / page * page;
    mp_vec_add(&history->segments, made);
}

static void find_segments(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; i < blocks->count && f->driver != MP_TRACK_NONE; i++) {
        if (blocks->track[i] != f->driver || blocks->alloc_event[i] != MP_NONE) continue;
        if (blocks->bytes[i] == MP_BYTES_UNKNOWN || blocks->bytes[i] >= ROOM) continue;
        struct mp_torch_segment segment = {
            .address = blocks->address[i], .bytes = blocks->bytes[i], .expandable = blocks->kind[i] == MP_KIND_VMM};
        find_owner(f, &segment, blocks->free_event[i] != MP_NONE);
        if (segment.expandable) {
            mp_vec_add(&f->history->mapped, segment);
            put_in_reservation(f, &segment);
        } else
            mp_vec_add(&f->history->segments, segment);
    }
    if (f->history->segments.count)
        qsort(f->history->segments.at, f->history->segments.count, sizeof *f->history->segments.at, by_address);
    if (f->history->mapped.count)
        qsort(f->history->mapped.at, f->history->mapped.count, sizeof *f->history->mapped.at, by_address);
}

/* Collects the addresses of the parts live at the end, and of the trace's allocations. */
static void gather_parts(struct finder *f)
{
    const struct mp_model *model = f->model;
    uint64_t offset = 0;
    for (size_t i = 0; i < model->parts.count; i++) {
        const struct mp_segment_part *part = &model->parts.at[i];
        const struct mp_segment *segment = &model->segments.at[part->segment];
        if (i && model->parts.at[i - 1].segment == part->segment)
            offset += model->parts.at[i - 1].bytes;
        else
            offset = 0;
        if (segment->track != f->history->track || (segment->keys & MP_ROW_OVERLAPS)) continue;
        if (part->state == MP_TORCH_FREE) continue;
        uint64_t *slot = mp_map_at(&f->held, segment->address + offset + 1, NULL);
        *slot = i;
    }
    for (size_t i = 0; i < f->history->steps.count; i++) {
        const struct birth birth = {f->history->steps.at[i].address, f->history->steps.at[i].event};
        if (f->history->steps.at[i].action == MP_TORCH_ALLOC) mp_vec_add(&f->births, birth);
    }
    if (f->births.count) qsort(f->births.at, f->births.count, sizeof *f->births.at, by_address);
}

static void gather_owners(struct finder *f)
{
    const struct mp_model *model = f->model;
    mp_vec_each (const struct mp_segment, from, &model->segments) {
        const struct mp_torch_segment segment = {.address = from->address,
                                                 .bytes = from->bytes,
                                                 .stream = from->stream,
                                                 .pool = mp_torch_pool_index(f->history, from->pool),
                                                 .small = from->small,
                                                 .expandable = from->expandable};
        if (from->track != f->history->track || (from->keys & MP_ROW_OVERLAPS)) continue;
        mp_vec_add(&f->ends, segment);
    }
    mp_vec_each (const struct mp_torch_step, step, &f->history->steps) {
        const struct mp_torch_segment segment = {
            .address = step->address, .bytes = step->bytes, .stream = step->stream, .pool = step->pool};
        if (step->action == MP_TORCH_SEGMENT_FREE || step->action == MP_TORCH_SEGMENT_UNMAP)
            mp_vec_add(&f->given_back, segment);
    }
    if (f->ends.count) qsort(f->ends.at, f->ends.count, sizeof *f->ends.at, by_address);
    if (f->given_back.count) qsort(f->given_back.at, f->given_back.count, sizeof *f->given_back.at, by_address);
}

/* The lowest address in [from, limit) that the trace allocates before the event; limit: none. */
static uint64_t first_birth(const struct finder *f, uint64_t from, uint64_t limit, uint32_t before)
{
    size_t first = MP_COUNT_BEFORE(f->births.count, i, f->births.at[i].address < from);
    for (; first < f->births.count && f->births.at[first].address < limit; first++)
        if (f->births.at[first].event < before) return f->births.at[first].address;
    return limit;
}

/* The bytes that a block of the base takes: up to the next block of its segment, or to the segment's end at `limit`. */
static uint64_t taken(const struct finder *f, const struct mp_torch_base *block, const struct mp_torch_segment *segment,
                      uint64_t limit)
{
    uint32_t freed = f->model->blocks.free_event[block->block];
    const uint64_t *part = freed == MP_NONE ? mp_map_find(&f->held, block->address + 1) : NULL;
    if (part && f->model->parts.at[*part].bytes <= limit - block->address) return f->model->parts.at[*part].bytes;
    uint64_t bytes = mp_torch_round(&f->history->settings, block->requested), room = limit - block->address;
    if (bytes >= room || (!segment->small && bytes >= f->history->settings.max_split)) return room; /* never cut */
    if (segment->small || f->history->settings.expandable) return bytes;
    uint64_t end = block->address + bytes, rest = room - bytes;
    if (rest <= MP_TORCH_SMALL) return room;
    uint64_t next = first_birth(f, end, end + MP_TORCH_SMALL + 1, freed);
    return next <= end + MP_TORCH_SMALL ? next - block->address : bytes;
}

/* True if no step requests the block's free, but the block is freed at the end. */
static bool is_pending_at_end(const struct finder *f, const struct mp_torch_base *block)
{
    const uint64_t *part = mp_map_find(&f->held, block->address + 1);
    if (f->model->blocks.free_event[block->block] != MP_NONE || !part ||
        f->model->parts.at[*part].state != MP_TORCH_PENDING)
        return false;
    for (size_t i = 0; i < f->history->steps.count; i++)
        if (f->history->steps.at[i].action == MP_TORCH_FREE_REQUESTED && f->history->steps.at[i].block == block->block)
            return false;
    return true;
}

static void find_blocks(struct finder *f)
{
    struct mp_torch_history *history = f->history;
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->track[i] != history->track || blocks->alloc_event[i] != MP_NONE) continue;
        if (blocks->bytes[i] == MP_BYTES_UNKNOWN || blocks->bytes[i] > INT64_MAX) continue;
        const struct mp_torch_base base = {
            .address = blocks->address[i], .requested = blocks->bytes[i], .block = (uint32_t)i};
        mp_vec_add(&history->base, base);
    }
    if (history->base.count) qsort(history->base.at, history->base.count, sizeof *history->base.at, by_address);
    uint64_t end = 0; /* end of the previous block */
    for (size_t i = 0; i < history->base.count; i++) {
        struct mp_torch_base *base = &history->base.at[i];
        const struct mp_torch_segment *segment =
            segment_at(history->segments.at, history->segments.count, base->address);
        const struct mp_torch_segment *memory =
            segment && segment->expandable ? segment_at(history->mapped.at, history->mapped.count, base->address)
                                           : segment;
        if (!memory || base->address < end) continue;
        uint64_t limit = memory->address + memory->bytes;
        while (segment->expandable && ++memory < history->mapped.at + history->mapped.count && memory->address == limit)
            limit += memory->bytes; /* joins runs that were mapped one after the other */
        if (i + 1 < history->base.count && history->base.at[i + 1].address < limit)
            limit = history->base.at[i + 1].address;
        base->stream = segment->stream;
        base->pool = segment->pool;
        base->bytes = taken(f, base, segment, limit);
        base->pending = is_pending_at_end(f, base);
        end = base->address + base->bytes;
    }
}

/* Before PyTorch 2.10, only segments live at the end name their pools. Everything in such a segment belongs to its
 * pool. */
static void find_pools(struct finder *f)
{
    struct mp_torch_history *history = f->history;
    for (size_t i = 0; i < history->steps.count; i++)
        if (history->steps.at[i].pool) return;
    for (size_t i = 0; history->pools.count > 1 && i < history->steps.count; i++) {
        const struct mp_torch_segment *segment = segment_at(f->ends.at, f->ends.count, history->steps.at[i].address);
        if (segment && history->steps.at[i].action != MP_TORCH_OUT_OF_MEMORY) history->steps.at[i].pool = segment->pool;
    }
}

/* Fills base, segments and mapped of a history that already has its steps. */
static void torch_find_base(const struct mp_model *model, struct mp_torch_history *history)
{
    struct finder f = {.model = model, .history = history, .driver = mp_track_below(model, history->track)};
    if (history->traced) gather_owners(&f);
    find_pools(&f);
    if (history->traced) find_segments(&f);
    gather_parts(&f);
    find_blocks(&f);
    mp_map_free(&f.held);
    mp_vec_free(&f.births);
    mp_vec_free(&f.ends);
    mp_vec_free(&f.given_back);
}

/* The value of a key in key=value,key=value, up to the next comma outside brackets; NULL: none. */
static const char *find_value(const char *configuration, const char *key, size_t *length)
{
    size_t key_length = strlen(key);
    for (const char *at = configuration; *at; at++) {
        if ((at == configuration || at[-1] == ',') && !strncmp(at, key, key_length) && at[key_length] == '=') {
            const char *value = at + key_length + 1;
            *length = *value == '[' ? strcspn(value, "]") + 1 : strcspn(value, ",");
            return value;
        }
    }
    return NULL;
}

/* The settings in a recording's configuration (key=value,..., as importers of PyTorch's snapshots keep it). */
static void read_configured(const char *configuration, struct mp_torch_settings *settings)
{
    mp_torch_settings_default(settings);
    static const char *const only_in_text[] = {"large_segment_size_mb:", "max_non_split_rounding_mb:",
                                               "per_process_memory_fraction:", "expandable_segments_reserve:"};
    const char *value;
    size_t length;
    for (size_t i = 0; i < sizeof only_in_text / sizeof *only_in_text; i++) {
        char one[64];
        if (!(value = strstr(configuration, only_in_text[i])) || (length = strcspn(value, ",")) >= sizeof one) continue;
        memcpy(one, value, length);
        one[length] = 0;
        mp_torch_settings_read(settings, one);
    }
    if ((value = find_value(configuration, "max_split_size", &length)))
        settings->max_split = *value == '-' ? MP_TORCH_UNLIMITED : strtoull(value, NULL, 10);
    if ((value = find_value(configuration, "garbage_collection_threshold", &length)))
        settings->gc_threshold = strtod(value, NULL);
    if ((value = find_value(configuration, "expandable_segments", &length)))
        settings->expandable = !strncmp(value, "true", 4);
    if ((value = find_value(configuration, "roundup_power2_divisions", &length)) && length < 400) {
        char text[480] = "roundup_power2_divisions:";
        strncat(text, value, length);
        mp_torch_settings_read(settings, text);
    }
}

#define POOLS_MAX 65536

static void pool_index(struct mp_torch_history *history, uint64_t pool, uint32_t *index)
{
    if (!history->pools.count) mp_vec_add(&history->pools, (uint64_t)0);
    if (pool && !mp_map_find(&history->pool_index, pool) && history->pools.count < POOLS_MAX) { /* beyond: hostile */
        *mp_map_at(&history->pool_index, pool, NULL) = history->pools.count;
        mp_vec_add(&history->pools, pool);
    }
    *index = mp_torch_pool_index(history, pool);
}

/* The track's next event of that type from *at on, or past the end. */
static uint32_t next_event(const struct mp_model *model, uint16_t track, uint32_t at)
{
    const struct mp_model_events *events = &model->events;
    for (; at < events->count; at++) {
        unsigned type = events->type[at];
        if (events->track[at] == track &&
            (type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE || type == MP_EVENT_OOM))
            break;
    }
    return at;
}

static bool add_event_step(const struct mp_model *model, uint32_t event, struct mp_torch_step *step)
{
    uint32_t subject = model->events.subject[event];
    step->event = event;
    if (model->events.type[event] == MP_EVENT_OOM) {
        step->action = MP_TORCH_OUT_OF_MEMORY;
        step->bytes = model->notes.at[subject].bytes;
        return true;
    }
    step->action = model->events.type[event] == MP_EVENT_ALLOC ? MP_TORCH_ALLOC : MP_TORCH_FREE_COMPLETED;
    step->block = subject;
    step->address = model->blocks.address[subject];
    step->bytes = model->blocks.bytes[subject];
    return model->events.type[event] != MP_EVENT_RESIZE;
}

/* The state of reading a recording without the allocator's own trace. */
struct follower {
    const struct mp_model *model;
    struct mp_torch_history *history;
    struct mp_placements known;
    const char *device;
    uint16_t driver;
    size_t noted;              /* index into model->noted: earlier ones have been handled */
    uint32_t capture;          /* step where the current capture of a graph began; its pool is not known yet. MP_NONE:
                                * no capture */
    struct torch_uses uses;    /* of pools */
    MP_VEC(uint32_t) contexts; /* contexts of pools that have not ended, the innermost last */
    bool collects;             /* requests return segments to the driver, although it refused none */
};
#define POOL_TO_COME UINT32_MAX /* stands for the pool of a capture that has not ended */

static void add_call(struct follower *f, enum mp_torch_call call, uint32_t pool, uint64_t bytes)
{
    const struct mp_torch_step step = {.address = MP_BYTES_UNKNOWN,
                                       .bytes = bytes,
                                       .pool = pool,
                                       .block = MP_NONE,
                                       .event = MP_NONE,
                                       .action = (uint8_t)(MP_TORCH_CALL + call)};
    mp_vec_add(&f->history->steps, step);
}

static void enter_context(struct follower *f, uint32_t pool, uint32_t event)
{
    const struct torch_use use = {pool, event, MP_NONE};
    mp_vec_add(&f->contexts, (uint32_t)f->uses.count);
    mp_vec_add(&f->uses, use);
}

/* `known`: the pool, if its number is known. */
static void leave_context(struct follower *f, uint32_t pool, uint32_t known, uint32_t event)
{
    const struct torch_use from_before = {known, 0, event};
    for (size_t i = f->contexts.count; i--;) {
        struct torch_use *use = &f->uses.at[f->contexts.at[i]];
        if (use->pool != pool) continue;
        use->pool = known;
        use->end = event;
        f->contexts.count--;
        for (; i < f->contexts.count; i++)
            f->contexts.at[i] = f->contexts.at[i + 1];
        return;
    }
    mp_vec_add(&f->uses, from_before);
}

/* The current capture's pool became known. */
static void end_capture(struct follower *f, uint32_t pool, uint32_t event)
{
    for (uint32_t i = f->capture; i < f->history->steps.count; i++)
        if (f->history->steps.at[i].pool == POOL_TO_COME) f->history->steps.at[i].pool = pool;
    f->capture = MP_NONE;
    leave_context(f, POOL_TO_COME, pool, event);
    add_call(f, MP_TORCH_CALL_POOL_ENDS, pool, 0);
}

/* The pool of a capture stays unknown: it gets a number of its own. */
static void lose_capture(struct follower *f, uint32_t event)
{
    uint32_t pool;
    if (f->capture == MP_NONE) return;
    pool_index(f->history, MP_PLACE_UNKNOWN, &pool);
    end_capture(f, pool, event);
}

static void follow_mark(struct follower *f, const struct torch_mark *mark, uint32_t event)
{
    uint32_t pool = 0;
    if (mark->pool) pool_index(f->history, mark->pool, &pool);
    switch (mark->call) {
    case MP_TORCH_CALL_LIMIT:
        f->collects = true;
        add_call(f, mark->call, 0, f->history->limits.count);
        mp_vec_add(&f->history->limits, mark->fraction);
        break;
    case MP_TORCH_CALL_SETTINGS:
        add_call(f, mark->call, 0, f->history->changes.count);
        mp_vec_add(&f->history->changes, mark->settings);
        break;
    case MP_TORCH_CALL_BEGAN:
        break;
    case MP_TORCH_CALL_CAPTURE:
        lose_capture(f, event);
        f->capture = (uint32_t)f->history->steps.count;
        enter_context(f, POOL_TO_COME, event);
        add_call(f, MP_TORCH_CALL_POOL_BEGINS, POOL_TO_COME, 0);
        break;
    case MP_TORCH_CALL_CAPTURED:
        if (f->capture != MP_NONE) end_capture(f, pool, event);
        break;
    case MP_TORCH_CALL_CAPTURE_FAILS:
        lose_capture(f, event);
        break;
    case MP_TORCH_CALL_POOL_MADE:
        add_call(f, mark->call, pool,
                 (mark->use_on_oom ? MP_TORCH_USE_ON_OOM : 0) | (mark->no_split ? MP_TORCH_NO_SPLIT : 0));
        break;
    case MP_TORCH_CALL_POOL_BEGINS:
        enter_context(f, pool, event);
        add_call(f, mark->call, pool, 0);
        break;
    case MP_TORCH_CALL_POOL_ENDS:
        leave_context(f, pool, pool, event);
        add_call(f, mark->call, pool, 0);
        break;
    default:
        add_call(f, mark->call, pool, 0);
    }
}

/* Follows the PyTorch shim's marks up to an event. *gives_back: true if a mark returns segments to the driver. */
static void follow_marks(struct follower *f, uint32_t to, bool *gives_back)
{
    const struct mp_model *model = f->model;
    *gives_back = false;
    for (; f->noted < model->noted.count && model->noted.at[f->noted] < to; f->noted++) {
        uint32_t event = model->noted.at[f->noted];
        struct torch_mark mark;
        if (model->events.type[event] != MP_EVENT_MARK ||
            !read_mark(mp_model_text(model, model->notes.at[model->events.subject[event]].name), f->device, &mark))
            continue;
        *gives_back |= mark.call == MP_TORCH_CALL_EMPTY || mark.call == MP_TORCH_CALL_POOL_DELETED;
        follow_mark(f, &mark, event);
    }
}

static void count_asked(struct follower *f, const struct mp_torch_step *step, uint64_t requested)
{
    struct mp_torch_asked *asked = &f->history->asked;
    bool rounded = f->model->tracks.at[f->history->track].size_basis == MP_BASIS_BLOCK;
    if (step->action != MP_TORCH_ALLOC) return;
    asked->all++;
    if (!rounded || (requested != MP_PLACE_UNKNOWN && !mp_placed_as_usual(&f->known, step->block)))
        asked->known++;
    else if (requested != MP_PLACE_UNKNOWN)
        asked->as_site++;
}

/* Adds a request, with the size, stream and pool from PyTorch's own history of the block, or of other blocks of its
 * site. Without history, its pool is the one that the program uses at that time. */
static void add_request(struct follower *f, struct mp_torch_step *step)
{
    if (step->block == MP_NONE) return;
    uint64_t requested = mp_placed(f->known.requested, step->block), stream = mp_placed(f->known.stream, step->block);
    uint64_t pool = mp_placed(f->known.pool, step->block);
    count_asked(f, step, requested);
    if (requested != MP_PLACE_UNKNOWN) step->bytes = requested;
    if (stream != MP_PLACE_UNKNOWN) step->stream = stream;
    if (pool != MP_PLACE_UNKNOWN)
        pool_index(f->history, pool, &step->pool);
    else if (f->contexts.count && step->action == MP_TORCH_ALLOC)
        step->pool = f->uses.at[f->contexts.at[f->contexts.count - 1]].pool;
}

/* True if the program emptied the cache: segments went back to the driver between two events of the allocator, and no
 * refused request needed the room. */
static bool was_emptied(const struct follower *f, uint32_t from, uint32_t to)
{
    const struct mp_model_events *events = &f->model->events;
    for (uint32_t at = from; at < to && f->driver != MP_TRACK_NONE; at++) {
        if (events->track[at] != f->driver) continue;
        if (events->type[at] == MP_EVENT_OOM) return false;
        if (events->type[at] == MP_EVENT_FREE && f->model->blocks.bytes[events->subject[at]] % SEGMENTS_UNIT == 0)
            return !f->collects;
    }
    return false;
}

/* Makes the steps from the events alone, without the allocator's trace. */
static void follow_events(const struct mp_model *model, struct mp_torch_history *history)
{
    struct follower f = {.model = model,
                         .history = history,
                         .device =
                             mp_model_text(model, model->devices.at[model->tracks.at[history->track].device].name),
                         .driver = mp_track_below(model, history->track),
                         .capture = MP_NONE,
                         .collects = history->settings.gc_threshold > 0};
    uint32_t seen = 0;
    bool gives_back;
    if (model->requests.count) mp_placements_find(model, &f.known);
    for (uint32_t at = next_event(model, history->track, 0); at < model->events.count;
         at = next_event(model, history->track, at + 1)) {
        struct mp_torch_step step = {.block = MP_NONE, .address = MP_BYTES_UNKNOWN};
        follow_marks(&f, at, &gives_back);
        if (!gives_back && was_emptied(&f, seen, at)) mp_vec_add(&history->emptied, (uint32_t)history->steps.count);
        seen = at;
        if (!add_event_step(model, at, &step)) continue;
        if (step.bytes == MP_BYTES_UNKNOWN) continue;
        add_request(&f, &step);
        mp_vec_add(&history->steps, step);
    }
    follow_marks(&f, MP_NONE, &gives_back);
    lose_capture(&f, MP_NONE);
    follow_uses(model, f.driver, &f.uses, &f.known, history);
    mp_vec_free(&f.contexts);
    mp_vec_free(&f.uses);
    mp_placements_free(&f.known);
}

/* True if the next entry completes the free that this entry requests. */
static bool is_completed_by_next(const struct mp_model *model, size_t at)
{
    const struct mp_allocator_call *call = &model->calls.at[at], *next = call + 1;
    return call->action == MP_TORCH_FREE_REQUESTED && at + 1 < model->calls.count && next->track == call->track &&
           next->action == MP_TORCH_FREE_COMPLETED && next->address == call->address;
}

/* Follows the allocator's trace and the events that belong to it. *fit: true if trace and events agree. */
static void follow_calls(const struct mp_model *model, struct mp_torch_history *history, bool *fit)
{
    uint32_t at = next_event(model, history->track, 0);
    *fit = true;
    for (size_t i = 0; i < model->calls.count && *fit; i++) {
        const struct mp_allocator_call *call = &model->calls.at[i];
        if (call->track != history->track || call->action >= MP_TORCH_SNAPSHOT) continue;
        if (is_completed_by_next(model, i)) continue;
        struct mp_torch_step step = {.address = call->address,
                                     .bytes = call->bytes,
                                     .stream = call->stream,
                                     .block = MP_NONE,
                                     .event = MP_NONE,
                                     .action = call->action};
        if (call->action == MP_TORCH_ALLOC || call->action == MP_TORCH_FREE_COMPLETED ||
            call->action == MP_TORCH_OUT_OF_MEMORY) {
            *fit = at < model->events.count && add_event_step(model, at, &step) && step.action == call->action;
            at = next_event(model, history->track, at + 1);
        }
        pool_index(history, call->pool, &step.pool);
        mp_vec_add(&history->steps, step);
    }
    *fit = *fit && at >= model->events.count;
}

/* Finds the blocks of requested frees, which have only an address. */
static void resolve_requests(const struct mp_model *model, struct mp_torch_history *history)
{
    size_t last = history->steps.count;
    while (last && history->steps.at[last - 1].action != MP_TORCH_FREE_REQUESTED)
        last--;
    if (!last) return;
    struct mp_map live = {0};
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.track[i] == history->track && model->blocks.alloc_event[i] == MP_NONE) {
            uint64_t *slot = mp_map_at(&live, model->blocks.address[i] + 1, NULL);
            *slot = i;
        }
    for (size_t i = 0; i < last; i++) {
        struct mp_torch_step *step = &history->steps.at[i];
        if (step->action == MP_TORCH_ALLOC) {
            uint64_t *slot = mp_map_at(&live, step->address + 1, NULL);
            *slot = step->block;
        } else if (step->action == MP_TORCH_FREE_REQUESTED) {
            const uint64_t *found = mp_map_find(&live, step->address + 1);
            if (found) step->block = (uint32_t)*found;
        }
    }
    mp_map_free(&live);
}

/* True if the file has the allocator's own calls. Calls for pinned memory are another allocator's. */
static bool has_calls(const struct mp_model *model, uint16_t track)
{
    if (!strncmp(mp_model_text(model, model->devices.at[model->tracks.at[track].device].name), "cpu", 3)) return false;
    for (size_t i = 0; i < model->calls.count; i++)
        if (model->calls.at[i].track == track && model->calls.at[i].action < MP_TORCH_SNAPSHOT) return true;
    return false;
}

/* The program's first settings. They are the last recorded settings, unless a mark says that the program changed
 * them. */
static void read_settings(const struct mp_model *model, struct mp_torch_settings *settings)
{
    const char *configured = model->start.configuration;
    struct torch_mark mark;
    for (size_t i = 0; i < model->asides.count; i++)
        if (model->asides.at[i].kind == MP_ASIDE_SETTINGS) configured = mp_model_text(model, model->asides.at[i].text);
    read_configured(configured, settings);
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] != MP_EVENT_MARK ||
            !read_mark(mp_model_text(model, model->notes.at[model->events.subject[event]].name), "", &mark) ||
            mark.call != MP_TORCH_CALL_BEGAN)
            continue;
        mp_torch_settings_default(settings);
        mp_torch_settings_read(settings, mark.settings);
        return;
    }
}

void mp_torch_history_make(const struct mp_model *model, uint16_t track, bool untraced,
                           struct mp_torch_history *history)
{
    history->track = track;
    read_settings(model, &history->settings);
    uint32_t ignored;
    pool_index(history, 0, &ignored);
    if (has_calls(model, track)) follow_calls(model, history, &history->traced);
    for (size_t i = 0; i < model->segments.count; i++)
        if (model->segments.at[i].track == track) pool_index(history, model->segments.at[i].pool, &ignored);
    if (!history->traced) {
        history->steps.count = 0;
        if (untraced) follow_events(model, history);
    }
    if (history->traced || untraced) {
        resolve_requests(model, history);
        torch_find_base(model, history);
    }
}

uint32_t mp_torch_step_of(const struct mp_torch_history *history, uint32_t event)
{
    uint32_t step = 0;
    for (uint32_t i = 0; i < history->steps.count; i++)
        if (history->steps.at[i].event != MP_NONE && history->steps.at[i].event < event) step = i + 1;
    return step;
}

uint32_t mp_torch_pool_index(const struct mp_torch_history *history, uint64_t pool)
{
    const uint64_t *index = pool ? mp_map_find(&history->pool_index, pool) : NULL;
    return index ? (uint32_t)*index : 0;
}

void mp_torch_history_free(struct mp_torch_history *history)
{
    mp_vec_free(&history->steps);
    mp_vec_free(&history->base);
    mp_vec_free(&history->segments);
    mp_vec_free(&history->mapped);
    mp_vec_free(&history->pools);
    mp_map_free(&history->pool_index);
    mp_vec_free(&history->limits);
    mp_vec_free(&history->changes);
    mp_vec_free(&history->emptied);
}
