/*
 * PyTorch up to 2.6 notes regions in its memory history only for the thread that began the very first one. It then adds
 * a callback for that thread, once per process (_initRecordAnnotations). The shim's history needs no regions, and must
 * not count as that first history. So while the shim's history begins, we withhold PyTorch's new callback. It is added
 * once the program begins its own history.
 *
 * Source: ATen/record_function.h. A callback is five words of plain data, which the ABI passes on the stack.
 */
#include "capture/torch/torch.h"

#include <string.h>

#include "capture/native/next.h"

#define ADD_CALLBACK "_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE"

static struct mp_next add_callback = {ADD_CALLBACK, "libtorch_cpu.so", NULL};

/* Larger than a callback, since callbacks may get more members. Behind a callback on the stack lies the caller's own
 * frame. */
struct callback {
    uint64_t words[8];
};

static __thread bool keeping;
static struct callback kept;
static _Atomic(void *) adds_kept; /* the function that adds the withheld callback; NULL: none is withheld */

static void enter(void)
{
    mp_next_start(&add_callback, 1);
}

const struct mp_front mp_annotations_front = {.enter = enter};

/* uint64_t at::addThreadLocalCallback(at::RecordFunctionCallback): returns a number for removing it. */
uint64_t add_thread_local_callback(struct callback callback) MP_PRELOADED(ADD_CALLBACK);
uint64_t add_thread_local_callback(struct callback callback)
{
    uint64_t (*next)(struct callback);
    MP_NEXT(next, &add_callback);
    if (!next) return 0;
    if (!keeping) return next(callback);
    void *at;
    memcpy(&at, &next, sizeof at);
    kept = callback;
    atomic_store(&adds_kept, at);
    return 0;
}

void mp_torch_annotations(enum mp_torch_annotations action)
{
    keeping = action == MP_ANNOTATIONS_KEEP_BACK;
    if (action != MP_ANNOTATIONS_ADD) return;
    void *at = atomic_exchange(&adds_kept, NULL);
    uint64_t (*add)(struct callback);
    memcpy(&add, &at, sizeof add);
    if (add) add(kept);
}
