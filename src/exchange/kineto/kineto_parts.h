/*
 * Data that the stages of reading a Kineto trace pass on. kineto_collect.c finds memory events, regions and names.
 * kineto_spans.c finds the operators that enclose a memory event. kineto_blocks.c pairs frees with allocs.
 * kineto_notes.c and kineto.c make the model. Only these files include this one.
 */
#pragma once

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

/* The first reading of the trace. */
enum mp_status mp_kineto_collect(struct mp_kineto *kineto, const char *path, struct mp_error *error);
/* The second reading: sets the stacks of allocs and ooms. */
enum mp_status mp_kineto_attribute(struct mp_kineto *kineto, const char *path, struct mp_error *error);
/* Pairs frees with allocs, finds the base of each device, and numbers the blocks: the rest of each device's base first,
 * then blocks of the base that end, then allocs. */
void mp_kineto_pair(struct mp_kineto *kineto);

/* Makes notes about the trace: sentences, as string ids of the tables. start_ns is the recording's start in the trace's
 * times. */
struct mp_kineto_notes {
    MP_VEC(uint32_t) ids;
};
void mp_kineto_note(struct mp_kineto *kineto, int64_t start_ns, struct mp_kineto_notes *notes);
/* Times that are counted from 1970 are larger than this. Smaller times without a base do not give the day. */
#define MP_KINETO_UNIX_MIN INT64_C(1000000000000000000)

/* True if the event is a span during which its thread acts: an operator, or a Python function. */
bool mp_kineto_is_operator(const struct mp_kineto_event *event);
/* The key of an event's thread in the maps. */
uint64_t mp_kineto_thread_key(const struct mp_kineto_event *event);
