/*
 * Holders of tensors, which the shim's looks find (python/libmemprof_torch/holders.py). This part takes the rows of a
 * look, and says when a look is due. Rows come from the program's own threads, outside of hooks. Looks are never made
 * in a hook, only between two instructions of the interpreter's main thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/session.h"

/* These functions are the members `holder`, `holder_ask`, `holder_due` and `holder_wakes` of include/memprof.h. */
void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line);
int mp_holders_ask(int (*ask)(void *), void *context);
unsigned mp_holders_due(void);
void mp_holders_wakes(int yes);

/* In a forked child: its looks have a share of their own. */
void mp_holders_forked(bool inside);

/* Called at a step event of the program. With --holders a look is due whenever the number of steps has doubled,
 * from 8 on, in a plan from 1 on. If looks would exceed their share of the time, it waits for a later step. */
void mp_holders_step(void);
/* Called in a hook, with --host, at a sampled block of the C allocator. In a program without steps and tensors, a look
 * for holders of host memory may be due (holders_host.py). It runs when SIGURG's handler does, since this hook may be
 * anywhere in Python. */
void mp_holders_host(void);
/* Called with --holders, in a hook, when a tensor's block appears (`bytes` > 0) or goes. A look is due at peaks, each
 * higher by an eighth, and in a program without marked steps when 32 blocks live, and whenever the number has doubled.
 */
void mp_holders_count(int64_t bytes);
/* Called in a hook when a tensor's block appears. Whenever their number or that of steps has
 * doubled, the shim notes which frames of the main thread run. It keeps those of the program's last calls for the look
 * at the end (holders_last.py). */
void mp_holders_note(bool may_call_python);
/* Called when an allocator is out of memory. A look is due after 1, 2, 4, 8, ... such events. In a hook. */
void mp_holders_oom(void);

/* Asks the main thread for a look if one is due and not yet asked for; `may_call_python` as for
 * mp_python_call_soon(). */
void mp_holders_come_by(bool may_call_python);

extern _Atomic uint32_t mp_holders_taken; /* number of the last request of the collector for which a look has begun */
extern atomic_bool mp_holders_wanted;     /* the program's own steps or lack of memory made a look due */

/* Called at events, in hooks; cheap if no look is due. */
static inline void mp_holders_pass_by(bool may_call_python)
{
    uint32_t asked = atomic_load_explicit(&mp_session.header->look.asked, memory_order_relaxed);
    bool wished = asked && asked != atomic_load_explicit(&mp_holders_taken, memory_order_relaxed);
    if (__builtin_expect(wished || atomic_load_explicit(&mp_holders_wanted, memory_order_relaxed), 0))
        mp_holders_come_by(may_call_python);
}
