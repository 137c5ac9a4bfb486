/*
 * The recorder's core: the functions that a front end calls. A front end consists of hooks; each hook is one pair
 *
 *     struct mp_thread *thread = mp_hook_enter();
 *     if (thread) {
 *         mp_record_alloc(thread, ...);
 *         mp_hook_leave(thread);
 *     }
 *
 * mp_hook_enter() returns NULL if nothing is recorded, and inside another hook of the same thread. In the latter case,
 * a recorded process counts the lost event. Nothing here allocates, takes the GIL, calls CUDA, or fails the program.
 * mp_hook_enter() saves errno and mp_hook_leave() restores it. A hook sleeps only if its ring is full, for at most a
 * tenth of a second until the collector reads again. Once in a process's life it may sleep for two seconds, when it
 * attaches to a collector that does not answer.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/core/futex.h"
#include "capture/core/session.h"
#include "capture/core/thread.h"
#include "wire/spool.h"

struct mp_thread *mp_hook_enter(void);
void mp_hook_leave(struct mp_thread *thread);

/* Takes a lock whose holder may be waiting for the collector. The collector waits for hooks with an open ring, so the
 * calling hook closes its ring meanwhile. False if it does not get the lock. */
bool mp_hook_lock(struct mp_thread *thread, mp_lock *lock, uint64_t wait_ns);

/* A track's number in the spool; MP_TRACK_NONE if there is no room for more. `name` is "" except for pools. */
#define MP_TRACK_NONE UINT16_MAX
uint16_t mp_record_track(unsigned device_type, int device_index, enum mp_layer layer, enum mp_size_basis basis,
                         const char *name);

/* Does the same for code that needs the number at each event. `known` stores it together with the session's generation
 * (0: none yet), so that a forked child looks it up anew. */
static inline uint16_t mp_record_track_once(_Atomic uint64_t *known, unsigned device_type, int device_index,
                                            enum mp_layer layer, enum mp_size_basis basis, const char *name)
{
    uint64_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(known, memory_order_relaxed);
    if (word >> 32 == generation) return (uint16_t)word;
    uint16_t track = mp_record_track(device_type, device_index, layer, basis, name);
    if (track == MP_TRACK_NONE) return track; /* the next attempt may succeed */
    atomic_store_explicit(known, generation << 32 | track, memory_order_relaxed);
    return track;
}

struct mp_block_facts {
#define MP_FACT_MEMBER(field, type) type field; /* the fields are as in struct mp_record */
    MP_FACT_FIELDS(MP_FACT_MEMBER, MP_FACT_MEMBER)
#undef MP_FACT_MEMBER
    bool only_if_known;   /* a free whose block a sample may have left out */
    bool may_be_left_out; /* --sample may leave the block out: layers torch and app */
    bool stack_known;     /* `stack` and `module` were captured before; else they are captured now */
    uint32_t stack, module;
    bool may_call_python; /* the caller holds no lock of an allocator: the Python self-check may run */
};

void mp_record_alloc(struct mp_thread *thread, const struct mp_block_facts *block);
void mp_record_free(struct mp_thread *thread, const struct mp_block_facts *block);
/* Records an out-of-memory. request->bytes is the requested size. */
void mp_record_oom(struct mp_thread *thread, const struct mp_block_facts *request);

/* The allocator of the track now holds `bytes` from the layer below. */
void mp_record_reserved(struct mp_thread *thread, uint16_t track, uint64_t bytes);

/* Steps, regions and marks, start and stop: events with a name or none (NULL). */
void mp_record_plain(struct mp_thread *thread, enum mp_event_type type, const char *name);
/* Does the same with the name's number in the spool, as mp_record_name() returns it (0: ""). `lane`: the number of the
 * lane for a region that belongs to no thread, else 0. */
uint32_t mp_record_name(const char *text);
void mp_record_region(struct mp_thread *thread, enum mp_event_type type, uint32_t name, uint32_t lane);
/* Labels the live block that contains the address. `name`: a string's number from mp_record_name(). */
void mp_record_label(struct mp_thread *thread, uint64_t address, enum mp_role role, uint32_t name);
/* True if there is room for that many more records. */
bool mp_record_fits(const struct mp_thread *thread, uint32_t records);
/* Publishes a record that the front end filled in, except for its time (wire/record.h: MP_RECORD_TORCH). */
void mp_record_prepared(struct mp_thread *thread, const struct mp_record *record);
/* Asks the collector a question (its number in `bytes`) and wakes it at once. Must be the hook's last record, since the
 * caller then waits for the answer. */
void mp_record_question(struct mp_thread *thread, const struct mp_record *question);
