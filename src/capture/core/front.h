/*
 * The parts of the recorder that stand on the core: the front ends, and the walk of stacks. The core names none of
 * them: it starts, forks and empties the parts in the constant table mp_fronts (capture/entry/fronts.c).
 */
#ifndef MP_CAPTURE_FRONT_H
#define MP_CAPTURE_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_thread;

/* A moment of a thread: its path, and the string id of the path of the network's module that it runs in; 0: none. */
struct mp_captured {
    uint32_t stack, module; /* ids of the spool's */
};

/* The functions and sizes that a part registers; each may be NULL or 0. */
#define MP_FRONT_MEMORY 2
struct mp_front {
    void (*enter)(void);                  /* by the constructor in every program, also in one that is not recorded */
    bool (*start)(void);                  /* by the constructor where a session is named; false: nothing is recorded */
    void (*forked)(bool inside);          /* in a forked child; `inside`: in a hook, which goes on there */
    bool (*reset)(void);                  /* a new session begins; false: there is no memory */
    void (*end)(void);                    /* it could not begin: gives back what reset() took */
    void *const *memory[MP_FRONT_MEMORY]; /* what points to memory that a forked child must have, if not to NULL */
    size_t thread_bytes;                  /* of each thread's memory, zeroed at first */
    size_t *thread_place;                 /* where they begin, for mp_thread_part(); set before start() */
};

struct mp_fronts {
    const struct mp_front *const *front; /* up to NULL */
    /* `may_call_python`: no lock of an allocator is held. */
    struct mp_captured (*capture)(struct mp_thread *thread, bool may_call_python);
    /* True if both places lie on the thread's own stack, the second one further out; false where that is not known. */
    bool (*same_stack)(struct mp_thread *thread, uintptr_t inner, uintptr_t outer);
};
extern const struct mp_fronts mp_fronts;

void mp_fronts_enter(void);
bool mp_fronts_start(void);
void mp_fronts_forked(bool inside);
/* True if this process has the parts' memory. A program may have excluded unknown mappings from inheritance. */
bool mp_fronts_are_here(void);
bool mp_fronts_reset(void);
void mp_fronts_end(void);

/* The bytes that a thread needs in all, and a part's share of them. */
size_t mp_thread_bytes(void);
static inline void *mp_thread_part(struct mp_thread *thread, size_t place)
{
    return (char *)thread + place;
}

/* True if memory is in this process; true of NULL. */
bool mp_is_here(const void *memory);

#endif
