/*
 * The parts of the recorder that use the core: the front ends, and the walk of stacks. The core names none of them. It
 * starts, forks and empties the parts in the constant table mp_fronts (capture/entry/fronts.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_thread;

/* The state of a thread at one moment: its stack, and the path of the network's module that it runs; 0: none. */
struct mp_captured {
    uint32_t stack, module; /* ids in the spool */
};

/* The functions and sizes that a part registers. Each may be NULL or 0. */
#define MP_FRONT_MEMORY 3
struct mp_front {
    void (*enter)(void);                  /* called by the constructor in every program, recorded or not */
    bool (*start)(void);                  /* called by the constructor if a session is named; false: record nothing */
    void (*forked)(bool inside);          /* called in a forked child; `inside`: in a hook, which continues there */
    bool (*reset)(void);                  /* called when a session begins; false: there is no memory */
    void (*end)(void);                    /* called if the session could not begin: frees what reset() took */
    void *const *memory[MP_FRONT_MEMORY]; /* pointers to memory that a forked child must have; NULL ones do not count */
    size_t thread_bytes;                  /* the part's share of each thread's memory, zeroed at first */
    size_t *thread_place;                 /* where that share begins, for mp_thread_part(); set before start() */
};

struct mp_fronts {
    const struct mp_front *const *front; /* ends with NULL */
    /* The stack and module of a thread. `may_call_python`: the caller holds no lock of an allocator. */
    struct mp_captured (*capture)(struct mp_thread *thread, bool may_call_python);
    /* True if both addresses lie on the thread's own stack, `outer` further out. False also if that is unknown. */
    bool (*same_stack)(struct mp_thread *thread, uintptr_t inner, uintptr_t outer);
};
extern const struct mp_fronts mp_fronts;

void mp_fronts_enter(void);
bool mp_fronts_start(void);
void mp_fronts_forked(bool inside);
/* True if this process has the parts' memory. A program may exclude mappings that it does not know from a fork. */
bool mp_fronts_are_here(void);
bool mp_fronts_reset(void);
void mp_fronts_end(void);

#define MP_THREAD_OWN 512 /* bytes of a thread's memory before the parts' shares: room for struct mp_thread */

/* The bytes of memory that a thread needs, and where a part's share of it begins. */
size_t mp_thread_bytes(void);
static inline void *mp_thread_part(struct mp_thread *thread, size_t place)
{
    return (char *)thread + place;
}

/* True if `memory` is mapped in this process; true for NULL. */
bool mp_is_here(const void *memory);
