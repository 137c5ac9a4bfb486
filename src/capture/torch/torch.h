/* PyTorch as a front end of the recorder: data that its preloaded definitions and the shim share. */
#ifndef MP_CAPTURE_TORCH_H
#define MP_CAPTURE_TORCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/session.h"

extern const struct mp_front mp_torch_front, mp_autograd_front, mp_annotations_front;

/* The process has the PyTorch shim: a recording with tensors says so. Any thread; no session is needed. */
void mp_torch_shim_started(void);

/* The track of a CUDA device's caching allocator; MP_TRACK_NONE. In a hook. */
uint16_t mp_torch_track(int device);

/* Whether a block of the C allocator, asked for by the code at `caller`, is one that PyTorch reports and the recorder
 * has on cpu/torch. False before PyTorch's first report. In a hook. */
bool mp_torch_records_cpu_block(const void *caller);

/*
 * The path that made a node of PyTorch's autograd graph, kept from forward until backward runs the node, by the number
 * that the node carries and the thread that took it. One table for the whole process, since threads end before their
 * graphs do; bounded, so that the oldest entries are forgotten. No locks; never allocates except for the table itself,
 * once; any thread, inside a hook.
 */

/* Nodes that are remembered: hundreds of forward passes of a large network. */
#define MP_CREATIONS (UINT64_C(1) << 18)

/* `thread`: PyTorch's own number of the thread, never 0. `generation`: of the session, whose ids these are. */
void mp_creation_put(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured creation);
bool mp_creation_find(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured *creation);

/*
 * Passes the PyTorch shim's readings of PyTorch's own history and segments to the collector (wire/record.h). Bulk data,
 * outside of any allocator's lock. Records that do not fit into the ring wait between two hooks, as long as the
 * collector takes some every tenth of a second. Otherwise the rest is left out, which the collector sees by the count.
 * Nothing counts as dropped.
 */

/* Rows of six numbers each, as memprof_api_v1.torch_history takes them. Returns 0 if all were taken (with no rows: they
 * are wanted), 1 if some were, -1 if they are not wanted or nothing is recorded. */
int mp_torch_history(const uint64_t *rows, size_t count);

/* Callbacks at regions that PyTorch adds for this thread while a history begins (capture/torch/annotations.c); as
 * `count` where there are no rows. */
enum mp_torch_annotations { MP_ANNOTATIONS_KEEP_BACK = 1, MP_ANNOTATIONS_LET_BE, MP_ANNOTATIONS_ADD };
void mp_torch_annotations(enum mp_torch_annotations action);

/*
 * Holders of tensors, as the shim's looks find them (python/libmemprof_torch/holders.py): takes the looks' rows, and
 * says when a look is due. Rows come from the program's own threads, outside of hooks; a look is never made in a hook,
 * but between two instructions of the interpreter's main thread.
 */

/* As the members `holder`, `holder_ask`, `holder_due` and `holder_wakes` of include/memprof.h. */
void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line);
int mp_holders_ask(int (*ask)(void *), void *context);
unsigned mp_holders_due(void);
void mp_holders_wakes(int yes);

/* A step of the program's loop has begun, or ended. With --holders a look is due after 8, 16, 32, ... steps. */
void mp_holders_step(void);
/* An allocator is out of memory. A look is due after 1, 2, 4, 8, ... such times. In a hook. */
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
