/*
 * A Kineto trace becomes a model in four stages. The first reading collects memory events, regions and names. Then
 * frees are paired with allocs. The second reading finds the operators that enclose each memory event. Notes and tables
 * last.
 */
#include "exchange/kineto/kineto.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/units.h"
#include "base/words.h"
#include "exchange/common/import_tables.h"
#include "exchange/kineto/kineto_events.h"

struct mp_kineto_memory {
    int64_t ns;
    uint64_t address, bytes;      /* bytes: of an alloc, a free, or a failed request */
    uint64_t allocated, reserved; /* the allocator's totals after the event; MP_BYTES_UNKNOWN: not in the trace */
    uint64_t block;               /* its number */
    uint64_t rest;                /* new size of the block that stands for the rest of the base; MP_BYTES_UNKNOWN:
                                   * unchanged */
    uint32_t order;               /* position in the file; orders events of equal times */
    uint32_t thread, stack;
    uint32_t alloc; /* of a free: the event that made the block; of an alloc: the event whose block it replaces, as the
                     * trace lacks that block's free; MP_NONE: none */
    uint16_t device;
    uint8_t type; /* MP_EVENT_ALLOC, _FREE, _OOM */
    bool has_address;
};

/* A step, or a named region of a thread. */
struct mp_kineto_region {
    int64_t start_ns, end_ns;
    uint32_t thread, name, order;
    bool step;
};

struct mp_kineto_device {
    int64_t type, id;
    /* Bytes live before the trace, and the part of them that the trace does not free; MP_BYTES_UNKNOWN without
     * totals. */
    uint64_t base_bytes, rest_bytes;
    bool has_rest;
    uint64_t rest_block; /* its number */
    uint64_t level, now; /* while totals are followed: live bytes, and the present size of the rest */
};

struct mp_kineto_property {
    int64_t id;
    uint64_t total_bytes;
    uint32_t name;
};

struct mp_kineto_owner {
    int64_t pid, tid;
};

struct mp_kineto {
    struct mp_import_tables tables;
    struct mp_map thread_ids, device_ids;      /* by (pid, tid), by (type, id) */
    struct mp_map thread_names, process_names; /* string ids by (pid, tid), by pid */
    struct mp_map pids;                        /* processes with memory events */
    MP_VEC(struct mp_kineto_memory) memory;    /* in order of time once collected */
    MP_VEC(struct mp_kineto_region) regions;
    MP_VEC(struct mp_kineto_device) devices;
    MP_VEC(struct mp_kineto_property) properties;
    MP_VEC(struct mp_kineto_owner) owners; /* per thread of the tables */
    int64_t base_ns;                       /* UNIX time of the trace's time 0; 0: the trace's times are UNIX times, or
                                            * it is unknown */
    bool has_base, has_window;
    int64_t window_ns[2];  /* when the profiler ran, in the trace's times */
    uint32_t process_name; /* string id */
    uint64_t base_blocks;
    uint64_t spans_left;                 /* number of enclosing operators that were left out */
    uint64_t without_address, ambiguous; /* number of memory events without an address, and of frees to which several
                                          * allocs would fit */
    uint64_t checked, corrections;       /* checked totals; totals that differ from the sum of the events before */
    bool overlong;                       /* too many devices */
};

/* Makes notes about the trace: sentences, as string ids of the tables. start_ns is the recording's start in the trace's
 * times. */
struct mp_kineto_notes {
    MP_VEC(uint32_t) ids;
};
/* Times that are counted from 1970 are larger than this. Smaller times without a base do not give the day. */
#define MP_KINETO_UNIX_MIN INT64_C(1000000000000000000)

/* The live blocks of a device: by address if events have addresses, else by size, newest first. */
struct live {
    struct mp_map by_address, by_bytes; /* key() of the address or size to the index of the alloc, + 1 */
};

struct pairing {
    struct mp_kineto *kineto;
    struct live *live;      /* per device */
    MP_VEC(uint32_t) below; /* per event: index + 1 of the earlier live alloc of the same size; 0: none */
};

static uint64_t key(uint64_t value)
{
    return value + 1 ? value + 1 : UINT64_MAX;
}

static void pair_by_address(struct pairing *pairing, uint32_t index)
{
    struct mp_kineto_memory *memory = &pairing->kineto->memory.at[index];
    struct mp_map *map = &pairing->live[memory->device].by_address;
    uint64_t before;
    if (memory->type == MP_EVENT_FREE) {
        if (mp_map_remove(map, key(memory->address), &before)) memory->alloc = (uint32_t)before - 1;
        return;
    }
    uint64_t *at = mp_map_at(map, key(memory->address), NULL);
    if (*at) memory->alloc = (uint32_t)*at - 1; /* the trace lacks the free of the earlier block */
    *at = (uint64_t)index + 1;
}

static void pair_by_bytes(struct pairing *pairing, uint32_t index)
{
    struct mp_kineto_memory *memory = &pairing->kineto->memory.at[index];
    struct mp_map *map = &pairing->live[memory->device].by_bytes;
    if (memory->type == MP_EVENT_ALLOC) {
        uint64_t *at = mp_map_at(map, key(memory->bytes), NULL);
        pairing->below.at[index] = (uint32_t)*at;
        *at = (uint64_t)index + 1;
        return;
    }
    uint64_t *at = mp_map_find(map, key(memory->bytes));
    if (!at || !*at) return;
    memory->alloc = (uint32_t)*at - 1;
    *at = pairing->below.at[memory->alloc];
    pairing->kineto->ambiguous += *at != 0;
}

static void pair_all(struct pairing *pairing)
{
    struct mp_kineto *kineto = pairing->kineto;
    for (uint32_t i = 0; i < kineto->memory.count; i++) {
        const struct mp_kineto_memory *memory = &kineto->memory.at[i];
        if (memory->type == MP_EVENT_OOM) continue;
        (memory->has_address ? pair_by_address : pair_by_bytes)(pairing, i);
        kineto->without_address += !memory->has_address;
    }
}

static uint64_t signed_bytes(const struct mp_kineto_memory *memory)
{
    return memory->type == MP_EVENT_FREE ? -memory->bytes : memory->bytes;
}

/* Finds how much was live before the trace: the first total, less the changes up to that total, modulo 2^64. Blocks
 * that the trace frees are known one by one; the rest becomes one block. */
static void find_bases(struct mp_kineto *kineto)
{
    for (size_t d = 0; d < kineto->devices.count; d++) {
        struct mp_kineto_device *device = &kineto->devices.at[d];
        uint64_t sum = 0, dead = 0;
        device->base_bytes = device->rest_bytes = MP_BYTES_UNKNOWN;
        mp_vec_each (const struct mp_kineto_memory, memory, &kineto->memory) {
            if (memory->device != d || memory->type == MP_EVENT_OOM) continue;
            sum += signed_bytes(memory);
            if (memory->type == MP_EVENT_FREE && memory->alloc == MP_NONE) dead += memory->bytes;
            if (device->base_bytes == MP_BYTES_UNKNOWN && memory->allocated != MP_BYTES_UNKNOWN)
                device->base_bytes = (int64_t)(memory->allocated - sum) < 0 ? 0 : memory->allocated - sum;
        }
        if (device->base_bytes == MP_BYTES_UNKNOWN) continue;
        device->rest_bytes = device->base_bytes > dead ? device->base_bytes - dead : 0;
        device->level = device->rest_bytes + dead;
    }
}

/* The bytes that an event adds to the sum of live blocks, modulo 2^64. */
static uint64_t change(const struct mp_kineto *kineto, const struct mp_kineto_memory *memory)
{
    if (memory->type == MP_EVENT_ALLOC) return memory->bytes;
    return memory->alloc == MP_NONE ? -memory->bytes : -kineto->memory.at[memory->alloc].bytes;
}

/* If memory changed without an event, on a thread that the profiler did not follow, the rest of the base absorbs the
 * change. The level is then the allocator's own total at every event. Totals of the CPU leave some allocators out, so
 * they are not followed. */
static void follow_totals(struct mp_kineto *kineto)
{
    for (size_t i = 0; i < kineto->memory.count; i++) {
        struct mp_kineto_memory *memory = &kineto->memory.at[i];
        struct mp_kineto_device *device = &kineto->devices.at[memory->device];
        memory->rest = MP_BYTES_UNKNOWN;
        if (memory->type == MP_EVENT_OOM || device->rest_bytes == MP_BYTES_UNKNOWN) continue;
        if (memory->type == MP_EVENT_ALLOC && memory->alloc != MP_NONE)
            device->level -= kineto->memory.at[memory->alloc].bytes;
        uint64_t before = memory->allocated - signed_bytes(memory), rest = device->now + (before - device->level);
        if (memory->allocated != MP_BYTES_UNKNOWN && device->type && before != device->level) {
            memory->rest = (int64_t)rest < 0 ? 0 : rest;
            device->level += memory->rest - device->now;
            device->now = memory->rest;
            device->has_rest = true;
            kineto->corrections++;
        }
        kineto->checked += memory->allocated != MP_BYTES_UNKNOWN;
        device->level += change(kineto, memory);
    }
}

static void number_blocks(struct mp_kineto *kineto)
{
    uint64_t next = 0;
    for (size_t i = 0; i < kineto->devices.count; i++)
        if (kineto->devices.at[i].has_rest) kineto->devices.at[i].rest_block = next++;
    for (int allocs = 0; allocs < 2; allocs++) {
        mp_vec_each (struct mp_kineto_memory, memory, &kineto->memory) {
            bool base = memory->type == MP_EVENT_FREE && memory->alloc == MP_NONE;
            if (allocs ? memory->type == MP_EVENT_ALLOC : base) memory->block = next++;
        }
        if (!allocs) kineto->base_blocks = next;
    }
}

/* Pairs frees with allocs, finds the base of each device, and numbers the blocks: the rest of each device's base first,
 * then blocks of the base that end, then allocs. */
static void kineto_pair(struct mp_kineto *kineto)
{
    struct pairing pairing = {.kineto = kineto,
                              .live = mp_alloc_zeroed(kineto->devices.count + 1, sizeof *pairing.live)};
    mp_vec_grow_to(&pairing.below, kineto->memory.count);
    pair_all(&pairing);
    for (size_t i = 0; i < kineto->devices.count; i++) {
        mp_map_free(&pairing.live[i].by_address);
        mp_map_free(&pairing.live[i].by_bytes);
    }
    free(pairing.live);
    mp_vec_free(&pairing.below);
    find_bases(kineto);
    for (size_t i = 0; i < kineto->devices.count; i++) {
        kineto->devices.at[i].now = kineto->devices.at[i].rest_bytes;
        kineto->devices.at[i].has_rest = kineto->devices.at[i].rest_bytes != 0;
    }
    follow_totals(kineto);
    number_blocks(kineto);
}

static bool is_text(const struct mp_kineto_event *event, enum mp_kineto_text which, const char *text)
{
    return !strcmp(event->texts[which], text);
}

static bool has(const struct mp_kineto_event *event, enum mp_kineto_fact first, enum mp_kineto_fact second)
{
    return mp_kineto_has(event, first) && mp_kineto_has(event, second);
}

static bool is_step(const struct mp_kineto_event *event)
{
    return !strncmp(event->texts[MP_KINETO_NAME], MP_PROFILER_STEP, strlen(MP_PROFILER_STEP));
}

/* True if an event of an old trace is a region. Old traces call every span "Operator"; PyTorch's own annotations have a
 * '#' in the name. */
static bool is_old_region(const struct mp_kineto_event *event)
{
    return is_text(event, MP_KINETO_CATEGORY, "Operator") && strchr(event->texts[MP_KINETO_NAME], '#');
}

static bool is_span(const struct mp_kineto_event *event)
{
    return is_text(event, MP_KINETO_PHASE, "X") && has(event, MP_KINETO_START_NS, MP_KINETO_DURATION_NS) &&
           has(event, MP_KINETO_PID, MP_KINETO_TID) && event->facts[MP_KINETO_DURATION_NS] >= 0 &&
           event->facts[MP_KINETO_START_NS] <= INT64_MAX - event->facts[MP_KINETO_DURATION_NS];
}

/* True if the event is a span during which its thread acts: an operator, or a Python function. */
static bool kineto_is_operator(const struct mp_kineto_event *event)
{
    static const char *const categories[] = {"cpu_op", "Operator", "python_function"};
    if (!is_span(event) || is_old_region(event)) return false;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (is_text(event, MP_KINETO_CATEGORY, categories[i])) return true;
    return false;
}

static bool is_region(const struct mp_kineto_event *event)
{
    return is_span(event) && (is_text(event, MP_KINETO_CATEGORY, "user_annotation") || is_old_region(event));
}

static uint64_t key_of(int64_t first, int64_t second)
{
    const int64_t key[] = {first, second};
    uint64_t hash = mp_hash_bytes(key, sizeof key);
    return hash ? hash : 1;
}

/* The key of an event's thread in the maps. */
static uint64_t kineto_thread_key(const struct mp_kineto_event *event)
{
    return key_of(event->facts[MP_KINETO_PID], event->facts[MP_KINETO_TID]);
}

static void set_in_map(struct mp_map *map, uint64_t key, uint64_t value)
{
    uint64_t *at = mp_map_at(map, key, NULL);
    *at = value;
}

/* The number of the event's thread. */
static uint32_t thread_of(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    bool added;
    uint64_t *id = mp_map_at(&kineto->thread_ids, kineto_thread_key(event), &added);
    if (!added) return (uint32_t)*id;
    *id = kineto->owners.count;
    struct mp_kineto_owner owner = {event->facts[MP_KINETO_PID], event->facts[MP_KINETO_TID]};
    mp_vec_add(&kineto->owners, owner);
    return (uint32_t)*id;
}

/* No known trace has several processes in one file. */
static bool device_of(struct mp_kineto *kineto, const struct mp_kineto_event *event, uint16_t *device)
{
    int64_t type = mp_kineto_has(event, MP_KINETO_DEVICE_TYPE) ? event->facts[MP_KINETO_DEVICE_TYPE] : 0;
    int64_t id = mp_kineto_has(event, MP_KINETO_DEVICE_ID) ? event->facts[MP_KINETO_DEVICE_ID] : -1;
    bool added;
    uint64_t *at = mp_map_at(&kineto->device_ids, key_of(type, id), &added);
    if (added) {
        struct mp_kineto_device made = {.type = type, .id = id};
        *at = kineto->devices.count;
        if (kineto->devices.count < MP_DEVICES_MAX) mp_vec_add(&kineto->devices, made);
    }
    kineto->overlong |= *at >= MP_DEVICES_MAX;
    *device = (uint16_t)*at;
    return *at < MP_DEVICES_MAX;
}

static uint64_t total(const struct mp_kineto_event *event, enum mp_kineto_fact fact)
{
    bool known = mp_kineto_has(event, fact) && event->facts[fact] >= 0;
    return known ? (uint64_t)event->facts[fact] : MP_BYTES_UNKNOWN;
}

static void on_memory(struct mp_kineto *kineto, const struct mp_kineto_event *event, bool out_of_memory)
{
    if (!has(event, MP_KINETO_BYTES, MP_KINETO_START_NS) || !has(event, MP_KINETO_PID, MP_KINETO_TID)) return;
    int64_t bytes = event->facts[MP_KINETO_BYTES];
    if (!bytes) return;
    struct mp_kineto_memory memory = {
        .ns = event->facts[MP_KINETO_START_NS],
        .bytes = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes,
        .allocated = total(event, MP_KINETO_ALLOCATED),
        .reserved = total(event, MP_KINETO_RESERVED),
        .address = (uint64_t)event->facts[MP_KINETO_ADDRESS],
        .has_address = mp_kineto_has(event, MP_KINETO_ADDRESS) && !out_of_memory,
        .type = out_of_memory ? MP_EVENT_OOM
                : bytes < 0   ? MP_EVENT_FREE
                              : MP_EVENT_ALLOC,
        .order = (uint32_t)kineto->memory.count,
        .alloc = MP_NONE,
        .thread = thread_of(kineto, event),
    };
    /* The total does not include this alloc: PyTorch reports 0 for memory outside of its allocators. */
    if (memory.type == MP_EVENT_ALLOC && memory.allocated < memory.bytes) memory.allocated = MP_BYTES_UNKNOWN;
    if (!device_of(kineto, event, &memory.device)) return;
    if (memory.order >= MP_NONE - 1) mp_memory_lacks(0); /* events are numbered in four bytes */
    set_in_map(&kineto->pids, key_of(event->facts[MP_KINETO_PID], 0), 1);
    mp_vec_add(&kineto->memory, memory);
}

static void on_region(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    struct mp_kineto_region region = {
        .start_ns = event->facts[MP_KINETO_START_NS],
        .end_ns = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS],
        .thread = thread_of(kineto, event),
        .name = mp_import_text(&kineto->tables, event->texts[MP_KINETO_NAME], event->lengths[MP_KINETO_NAME]),
        .order = (uint32_t)kineto->regions.count,
        .step = is_step(event),
    };
    mp_vec_add(&kineto->regions, region);
}

/* Takes the name in the brackets of "thread 4711 (python)". */
static uint32_t thread_name(struct mp_kineto *kineto, const char *text)
{
    const char *open = strchr(text, '(');
    size_t length = strlen(text);
    if (!strncmp(text, "thread ", strlen("thread ")) && open && text[length - 1] == ')')
        return mp_import_text(&kineto->tables, open + 1, (size_t)(text + length - 1 - (open + 1)));
    return mp_import_text(&kineto->tables, text, length);
}

static void on_name(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    const char *name = event->texts[MP_KINETO_ARGUMENT_NAME];
    if (!*name || !mp_kineto_has(event, MP_KINETO_PID)) return;
    if (is_text(event, MP_KINETO_NAME, "process_name"))
        set_in_map(&kineto->process_names, key_of(event->facts[MP_KINETO_PID], 0),
                   mp_import_text(&kineto->tables, name, strlen(name)));
    else if (is_text(event, MP_KINETO_NAME, "thread_name") && mp_kineto_has(event, MP_KINETO_TID))
        set_in_map(&kineto->thread_names, kineto_thread_key(event), thread_name(kineto, name));
}

/* The profiler's own span shows the time in which it ran. */
static void on_profiler(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    kineto->window_ns[0] = event->facts[MP_KINETO_START_NS];
    kineto->window_ns[1] = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS];
    kineto->has_window = true;
}

static void on_event(void *context, const struct mp_kineto_event *event)
{
    struct mp_kineto *kineto = context;
    bool memory = is_text(event, MP_KINETO_NAME, "[memory]"), out = is_text(event, MP_KINETO_NAME, "[OutOfMemory]");
    if (memory || out)
        on_memory(kineto, event, out);
    else if (is_text(event, MP_KINETO_PHASE, "M"))
        on_name(kineto, event);
    else if (is_region(event))
        on_region(kineto, event);
    else if (is_text(event, MP_KINETO_PHASE, "X") && is_text(event, MP_KINETO_CATEGORY, "Trace") &&
             has(event, MP_KINETO_START_NS, MP_KINETO_DURATION_NS) && event->facts[MP_KINETO_DURATION_NS] >= 0)
        on_profiler(kineto, event);
}

static void on_device(void *context, const struct mp_kineto_event *device)
{
    struct mp_kineto *kineto = context;
    if (!mp_kineto_has(device, MP_KINETO_ID) || kineto->properties.count >= MP_DEVICES_MAX) return;
    struct mp_kineto_property property = {
        .id = device->facts[MP_KINETO_ID],
        .total_bytes = total(device, MP_KINETO_TOTAL_MEMORY),
        .name = mp_import_text(&kineto->tables, device->texts[MP_KINETO_NAME], device->lengths[MP_KINETO_NAME]),
    };
    mp_vec_add(&kineto->properties, property);
}

static void on_trace(void *context, const struct mp_kineto_event *trace)
{
    struct mp_kineto *kineto = context;
    kineto->has_base = mp_kineto_has(trace, MP_KINETO_BASE_NS);
    kineto->base_ns = kineto->has_base ? trace->facts[MP_KINETO_BASE_NS] : 0;
}

MP_ORDER(by_time, struct mp_kineto_memory, MP_RISING(ns) ?: MP_RISING(order))

/* The GPU's own events repeat the names of regions, with the device's number as their process. */
static void drop_other_processes(struct mp_kineto *kineto)
{
    size_t kept = 0;
    for (size_t i = 0; i < kineto->regions.count; i++) {
        int64_t pid = kineto->owners.at[kineto->regions.at[i].thread].pid;
        if (mp_map_find(&kineto->pids, key_of(pid, 0))) kineto->regions.at[kept++] = kineto->regions.at[i];
    }
    kineto->regions.count = kept;
}

static void name_threads(struct mp_kineto *kineto)
{
    mp_vec_each (const struct mp_kineto_owner, owner, &kineto->owners) {
        const uint64_t *name = mp_map_find(&kineto->thread_names, key_of(owner->pid, owner->tid));
        struct mp_thread_info thread = {(uint32_t)owner->tid, name ? (uint32_t)*name : 0};
        mp_vec_add(&kineto->tables.threads, thread);
    }
}

/* The first reading of the trace. */
static enum mp_status mp_kineto_collect(struct mp_kineto *kineto, const char *path, struct mp_error *error)
{
    const struct mp_kineto_sink sink = {on_event, on_device, on_trace, kineto};
    enum mp_status status = mp_kineto_read(path, &sink, error);
    if (status) return status;
    if (kineto->overlong) return mp_fail(error, MP_LIMIT, "%s has memory events of more than 1024 devices", path);
    if (!kineto->memory.count)
        return mp_fail(error, MP_NOT_A_RECORDING,
                       "%s is a Kineto trace without memory events; record it with "
                       "torch.profiler.profile(profile_memory=True)",
                       path);
    qsort(kineto->memory.at, kineto->memory.count, sizeof *kineto->memory.at, by_time);
    drop_other_processes(kineto);
    const uint64_t *name =
        mp_map_find(&kineto->process_names, key_of(kineto->owners.at[kineto->memory.at[0].thread].pid, 0));
    kineto->process_name = name ? (uint32_t)*name : 0;
    name_threads(kineto);
    return MP_OK;
}

#define OPEN_MAX        1024 /* spans that enclose one event; further ones are left out */
#define SPANS_PER_EVENT 256  /* most spans kept per memory event, on average; no program nests deeper */
#define SPANS_MIN       65536

/* A span that encloses an alloc. Texts are ids in finder.texts. */
struct span {
    int64_t start_ns, end_ns;
    uint32_t order; /* position in the file */
    uint32_t thread, name, shapes, call_stack;
    uint32_t frame; /* MP_NONE: not made yet */
    bool python;
};

struct finder {
    struct mp_kineto *kineto;
    struct mp_intern texts;
    MP_VEC(struct span) spans;
    MP_VEC(uint32_t) events; /* allocs and ooms by thread, then time */
    MP_VEC(size_t) first;    /* per thread: the beginning of its events in `events`; one more entry at the end */
    MP_VEC(uint32_t) open;   /* open spans around the present event, outermost first */
};

static bool wants_stack(const struct mp_kineto_memory *memory)
{
    return memory->type != MP_EVENT_FREE;
}

/* A counting sort by thread. `memory` is already in order of time, and the sort keeps that order. */
static void sort_events(struct finder *finder)
{
    struct mp_kineto *kineto = finder->kineto;
    size_t threads = kineto->owners.count, at = 0;
    mp_vec_grow_to(&finder->first, threads + 1);
    mp_vec_grow_to(&finder->events, kineto->memory.count);
    for (size_t i = 0; i < kineto->memory.count; i++)
        finder->first.at[kineto->memory.at[i].thread] += wants_stack(&kineto->memory.at[i]);
    for (size_t i = 0; i <= threads; i++) {
        size_t count = finder->first.at[i];
        finder->first.at[i] = at;
        at += count;
    }
    for (size_t i = 0; i < kineto->memory.count; i++)
        if (wants_stack(&kineto->memory.at[i]))
            finder->events.at[finder->first.at[kineto->memory.at[i].thread]++] = (uint32_t)i;
    memmove(finder->first.at + 1, finder->first.at, threads * sizeof *finder->first.at);
    finder->first.at[0] = 0;
}

/* True if an event of the thread lies within the times. */
static bool encloses(const struct finder *finder, uint32_t thread, int64_t start_ns, int64_t end_ns)
{
    size_t first = finder->first.at[thread], count = finder->first.at[thread + 1] - first;
    const struct mp_kineto_memory *memory = finder->kineto->memory.at;
    size_t before = MP_COUNT_BEFORE(count, i, memory[finder->events.at[first + i]].ns < start_ns);
    return before < count && memory[finder->events.at[first + before]].ns <= end_ns;
}

static void text(struct finder *finder, const struct mp_kineto_event *event, enum mp_kineto_text which, uint32_t *id)
{
    *id = mp_intern_add(&finder->texts, event->texts[which], event->lengths[which]);
}

static void on_span(void *context, const struct mp_kineto_event *event)
{
    struct finder *finder = context;
    if (!kineto_is_operator(event)) return;
    const uint64_t *thread = mp_map_find(&finder->kineto->thread_ids, kineto_thread_key(event));
    struct span span = {
        .start_ns = event->facts[MP_KINETO_START_NS],
        .end_ns = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS],
        .order = (uint32_t)finder->spans.count,
        .thread = thread ? (uint32_t)*thread : 0,
        .frame = MP_NONE,
        .python = !strcmp(event->texts[MP_KINETO_CATEGORY], "python_function"),
    };
    if (!thread || !encloses(finder, span.thread, span.start_ns, span.end_ns)) return;
    if (finder->spans.count / SPANS_PER_EVENT >= finder->events.count && finder->spans.count >= SPANS_MIN) {
        finder->kineto->spans_left++;
        return;
    }
    text(finder, event, MP_KINETO_NAME, &span.name);
    text(finder, event, MP_KINETO_SHAPES, &span.shapes);
    text(finder, event, MP_KINETO_CALL_STACK, &span.call_stack);
    mp_vec_add(&finder->spans, span);
}

MP_ORDER(by_thread_then_nesting, struct span,
         MP_RISING(thread) ?: MP_RISING(start_ns) ?: MP_FALLING(end_ns) ?: MP_RISING(order))

/* Makes a frame from "train.py(12): main": file, line, function. A text of another form is a function without file and
 * line. An object's address in the text is left out, since it differs in the next run. */
static uint32_t python_frame(struct mp_import_tables *tables, const char *entry, size_t length)
{
    const char *close = memmem(entry, length, "): ", 3), *digit = close;
    uint32_t line = 0;
    while (digit && digit > entry && digit[-1] >= '0' && digit[-1] <= '9')
        digit--;
    if (digit && digit > entry + 1 && digit < close && digit[-1] == '(' && close - digit < 10) {
        for (const char *at = digit; at < close; at++)
            line = line * 10 + (uint32_t)(*at - '0');
        uint32_t file = mp_import_text(tables, entry, (size_t)(digit - 1 - entry));
        uint32_t function = mp_import_text(tables, close + 3, length - (size_t)(close + 3 - entry));
        return mp_import_frame(tables, MP_PYTHON, function, file, line);
    }
    const char *address = memmem(entry, length, " object at 0x", 13);
    if (!address) return mp_import_frame(tables, MP_PYTHON, mp_import_text(tables, entry, length), 0, 0);
    char name[256];
    int cut = snprintf(name, sizeof name, "%.*s>", (int)(address - entry), entry);
    if (cut >= (int)sizeof name) cut = sizeof name - 1;
    return mp_import_frame(tables, MP_PYTHON, mp_import_text(tables, name, (size_t)cut), 0, 0);
}

/* True if a list of shapes has any: "[[], []]" does not. */
static bool any_shape(const char *shapes)
{
    return strpbrk(shapes, "0123456789");
}

/* Makes a frame from "aten::addmm([16, 4], [4, 8])": the operator, with its tensors' shapes if the trace has them. */
static uint32_t operator_frame(struct finder *finder, const struct span *span)
{
    struct mp_import_tables *tables = &finder->kineto->tables;
    size_t name_length, length;
    const char *name = mp_intern_get(&finder->texts, span->name, &name_length);
    const char *shapes = mp_intern_get(&finder->texts, span->shapes, &length);
    struct mp_buffer function = {0};
    mp_buffer_append(&function, name, name_length);
    if (any_shape(shapes)) {
        bool whole = length >= 2 && shapes[length - 1] == ']';
        mp_buffer_append_text(&function, "(");
        mp_buffer_append(&function, shapes + 1, length - 1 - whole);
        mp_buffer_append_text(&function, whole ? ")" : "...)");
    }
    uint32_t full = mp_import_text(tables, mp_buffer_text(&function), function.size);
    uint32_t frame = mp_import_frame(tables, MP_NATIVE, full, 0, 0);
    mp_buffer_free(&function);
    return frame;
}

static uint32_t span_frame(struct finder *finder, struct span *span)
{
    if (span->frame != MP_NONE) return span->frame;
    size_t length;
    const char *name = mp_intern_get(&finder->texts, span->name, &length);
    span->frame = span->python ? python_frame(&finder->kineto->tables, name, length) : operator_frame(finder, span);
    return span->frame;
}

/* Makes the stack of "inner;outer;outermost"; returns its id. */
static uint32_t call_stack(struct finder *finder, uint32_t entries)
{
    size_t length;
    const char *start = mp_intern_get(&finder->texts, entries, &length), *end = start + length;
    uint32_t stack = 0;
    while (end > start) {
        const char *before = memrchr(start, ';', (size_t)(end - start));
        const char *entry = before ? before + 1 : start;
        if (end > entry)
            stack = mp_import_stack(&finder->kineto->tables, stack,
                                    python_frame(&finder->kineto->tables, entry, (size_t)(end - entry)));
        end = before ? before : start;
    }
    return stack;
}

static uint32_t stack_at(struct finder *finder, int64_t ns)
{
    uint32_t stack = 0;
    for (size_t i = 0; i < finder->open.count; i++) {
        struct span *span = &finder->spans.at[finder->open.at[i]];
        if (span->end_ns < ns) continue; /* the span ended within an inner span */
        if (!stack && span->call_stack) stack = call_stack(finder, span->call_stack);
        stack = mp_import_stack(&finder->kineto->tables, stack, span_frame(finder, span));
    }
    return stack;
}

/* Opens a span, and closes those that ended before it begins. In traces with whole microseconds an inner span may end
 * in the same microsecond as the outer one. */
static void open_span(struct finder *finder, uint32_t index)
{
    const struct span *next = &finder->spans.at[index];
    while (finder->open.count) {
        const struct span *top = &finder->spans.at[finder->open.at[finder->open.count - 1]];
        if (top->end_ns > next->start_ns || (top->end_ns == next->start_ns && next->end_ns <= top->end_ns)) break;
        finder->open.count--;
    }
    if (finder->open.count >= OPEN_MAX) {
        finder->kineto->spans_left++;
        return;
    }
    mp_vec_add(&finder->open, index);
}

static void close_spans(struct finder *finder, int64_t ns)
{
    while (finder->open.count && finder->spans.at[finder->open.at[finder->open.count - 1]].end_ns < ns)
        finder->open.count--;
}

static void set_stacks(struct finder *finder)
{
    struct mp_kineto *kineto = finder->kineto;
    size_t next = 0;
    if (finder->spans.count)
        qsort(finder->spans.at, finder->spans.count, sizeof *finder->spans.at, by_thread_then_nesting);
    for (uint32_t thread = 0; thread < kineto->owners.count; thread++) {
        finder->open.count = 0;
        for (size_t i = finder->first.at[thread]; i < finder->first.at[thread + 1]; i++) {
            struct mp_kineto_memory *memory = &kineto->memory.at[finder->events.at[i]];
            for (; next < finder->spans.count && finder->spans.at[next].thread == thread &&
                   finder->spans.at[next].start_ns <= memory->ns;
                 next++)
                open_span(finder, (uint32_t)next);
            close_spans(finder, memory->ns);
            memory->stack = stack_at(finder, memory->ns);
        }
    }
}

/* The second reading: sets the stacks of allocs and ooms. */
static enum mp_status kineto_attribute(struct mp_kineto *kineto, const char *path, struct mp_error *error)
{
    struct finder finder = {.kineto = kineto};
    const struct mp_kineto_sink sink = {.event = on_span, .context = &finder};
    mp_intern_add_text(&finder.texts, "");
    sort_events(&finder);
    enum mp_status status = mp_kineto_read(path, &sink, error);
    if (!status) set_stacks(&finder);
    mp_intern_free(&finder.texts);
    mp_vec_free(&finder.spans);
    mp_vec_free(&finder.events);
    mp_vec_free(&finder.first);
    mp_vec_free(&finder.open);
    return status;
}

static void note(struct mp_kineto_notes *notes, struct mp_kineto *kineto, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(struct mp_kineto_notes *notes, struct mp_kineto *kineto, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    uint32_t id = mp_import_text(&kineto->tables, text, strlen(text));
    mp_vec_add(&notes->ids, id);
}

static void note_base(struct mp_kineto_notes *notes, struct mp_kineto *kineto)
{
    char bytes[MP_UNIT_TEXT];
    for (size_t i = 0; i < kineto->devices.count; i++) {
        const struct mp_kineto_device *device = &kineto->devices.at[i];
        char name[64];
        mp_format_device_id(name, sizeof name, (unsigned)device->type, (int)device->id);
        if (device->rest_bytes == MP_BYTES_UNKNOWN)
            note(notes, kineto, "%s: the trace has no totals, so what was live before it began is not known", name);
        else if (device->rest_bytes)
            note(notes, kineto, "%s: %s were live before the trace began; it does not say whose they are", name,
                 mp_format_bytes(bytes, device->rest_bytes));
    }
}

static void kineto_note(struct mp_kineto *kineto, int64_t start_ns, struct mp_kineto_notes *notes)
{
    char number[MP_UNIT_TEXT], other[MP_UNIT_TEXT];
    size_t without_stack = 0, with_stack = 0;
    for (size_t i = 0; i < kineto->memory.count; i++) {
        bool alloc = kineto->memory.at[i].type == MP_EVENT_ALLOC;
        with_stack += alloc && kineto->memory.at[i].stack;
        without_stack += alloc && !kineto->memory.at[i].stack;
    }
    note_base(notes, kineto);
    if (kineto->without_address)
        note(notes, kineto,
             "the trace has no addresses: each free was taken as that of the newest live block of its size; frees that "
             "others would have fitted, too: %s",
             mp_format_count(number, kineto->ambiguous));
    if (kineto->corrections)
        note(notes, kineto,
             "times the allocator's total had changed without an event (a thread that was not profiled?): %s; the "
             "difference is in the block of unknown origin",
             mp_format_count(number, kineto->corrections));
    if (without_stack)
        note(notes, kineto, "allocations in no operator that the trace has: %s of %s",
             mp_format_count(number, without_stack), mp_format_count(other, without_stack + with_stack));
    if (kineto->spans_left)
        note(notes, kineto,
             "operators left out, as there were more than 256 around an event on average or 1024 around one: %s",
             mp_format_count(number, kineto->spans_left));
    if (!kineto->has_base && start_ns < MP_KINETO_UNIX_MIN)
        note(notes, kineto, "the trace does not say when it was recorded");
}

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
    chunk.as.base = blocks;
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
    kineto_note(kineto, importer->start_ns, &notes);
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
    if (!status) kineto_pair(&kineto);
    if (!status) status = kineto_attribute(&kineto, path, error);
    if (!status) status = to_model(&kineto, path, model, error);
    free_kineto(&kineto);
    return status;
}
