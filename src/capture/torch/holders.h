/*
 * What holds tensors, as the shim's looks find it (python/libmemprof_torch/holders.py): takes its rows, and says when
 * one is due. Rows come from the program's own threads, outside of hooks; a look is never made in a hook, but between
 * two instructions of the interpreter's main thread.
 */
#ifndef MP_CAPTURE_TORCH_HOLDERS_H
#define MP_CAPTURE_TORCH_HOLDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/session.h"

/* As the members `holder`, `holder_ask`, `holder_due` and `holder_wakes` of include/memprof.h. */
void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line);
int mp_holders_ask(int (*ask)(void *), void *context);
unsigned mp_holders_due(void);
void mp_holders_wakes(int yes);

/* A step of the program's loop has begun, or ended: with --holders, after 8, 16, 32, ... of them a look is due. */
void mp_holders_step(void);
/* An allocator is out of memory: after 1, 2, 4, 8, ... times a look is due. In a hook. */
void mp_holders_oom(void);

/* The main thread is asked to look where that is due and was not yet asked for; `may_call_python` as for
 * mp_python_call_soon(). */
void mp_holders_come_by(bool may_call_python);

extern _Atomic uint32_t mp_holders_taken; /* the collector's last wish that was begun */
extern atomic_bool mp_holders_wanted;     /* by the program's own steps or lack of memory */

/* In hooks; cheap. */
static inline void mp_holders_pass_by(bool may_call_python)
{
    uint32_t asked = atomic_load_explicit(&mp_session.header->look.asked, memory_order_relaxed);
    bool wished = asked && asked != atomic_load_explicit(&mp_holders_taken, memory_order_relaxed);
    if (__builtin_expect(wished || atomic_load_explicit(&mp_holders_wanted, memory_order_relaxed), 0))
        mp_holders_come_by(may_call_python);
}

#endif
