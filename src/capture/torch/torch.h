/* PyTorch as a front end of the recorder. Its preloaded definitions and its shim share these functions. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/session.h"

extern const struct mp_front mp_torch_front, mp_autograd_front, mp_annotations_front;

/* Called when the PyTorch shim starts: a recording with tensors then names it as a source. Any thread; needs no
 * session. */
void mp_torch_shim_started(void);

/* The track of a CUDA device's caching allocator; MP_TRACK_NONE if there is no room. In a hook. */
uint16_t mp_torch_track(int device);

/* True if `caller`, which asks the C allocator for a block, lies in PyTorch's CPU allocator. The recorder has its
 * blocks on cpu/torch. False before PyTorch's first report. In a hook. */
bool mp_torch_records_cpu_block(const void *caller);

/*
 * Remembers which path made each node of PyTorch's autograd graph, from forward until backward runs the node. The key
 * is the node's number and the thread that took it, both stored in the node. There is one table for the whole process,
 * since threads end before their graphs do. It is bounded: new entries replace the oldest ones. No locks; never
 * allocates except for the table itself, once; any thread, inside a hook.
 */

/* Entries of the table: enough for hundreds of forward passes of a large network. */
#define MP_CREATIONS (UINT64_C(1) << 18)

/* `thread`: PyTorch's own number of the thread, never 0. `generation`: generation of the session whose ids `creation`
 * has. */
void mp_creation_put(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured creation);
bool mp_creation_find(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured *creation);

/*
 * Passes the PyTorch shim's readings of PyTorch's own history and segments to the collector (wire/record.h). These are
 * many records, made without any allocator's lock. If they do not fit into the ring, the call waits between two hooks,
 * as long as the collector takes some records every tenth of a second. If it does not, the rest is left out. The
 * collector sees from the count that rows are missing; nothing counts as dropped.
 */

/* Takes rows of six numbers each. memprof_api_v1.torch_history (include/memprof.h) describes rows and results. */
int mp_torch_history(const uint64_t *rows, size_t count);

/* Actions for callbacks at regions that PyTorch adds for this thread while a history begins
 * (capture/torch/annotations.c): the value of `count` if there are no rows. */
enum mp_torch_annotations { MP_ANNOTATIONS_KEEP_BACK = 1, MP_ANNOTATIONS_LET_BE, MP_ANNOTATIONS_ADD };
void mp_torch_annotations(enum mp_torch_annotations action);

/*
 * Holders of tensors, which the shim's looks find (python/libmemprof_torch/holders.py). This part takes the rows of a
 * look, and says when a look is due. Rows come from the program's own threads, outside of hooks. Looks are never made
 * in a hook, only between two instructions of the interpreter's main thread.
 */

/* These functions are the members `holder`, `holder_ask`, `holder_due` and `holder_wakes` of include/memprof.h. */
void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line);
int mp_holders_ask(int (*ask)(void *), void *context);
unsigned mp_holders_due(void);
void mp_holders_wakes(int yes);

/* Called at a step event of the program. With --holders a look is due after 8, 16, 32, ... steps, in a plan after 1, 2,
 * 4, ... steps. */
void mp_holders_step(void);
/* Called with --holders, in a hook, when a tensor's block appears (`bytes` > 0) or goes. A look is due at peaks, each
 * higher by an eighth, and in a program without marked steps when 32 blocks live, and whenever the number has doubled. */
void mp_holders_count(int64_t bytes);
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
