#include "capture/torch/torch_history.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/recorder.h"
#include "capture/native/next.h"
#include "capture/torch/torch.h"

#define AT_ONCE     256 /* records in one hook; between hooks other threads may fork */
#define WAIT_MAX_NS (100 * MP_NS_PER_MS)
#define LOOK_NS     (5 * MP_NS_PER_MS)

enum { WHAT, ADDRESS, BYTES, STREAM, POOL, MOMENT, NUMBERS };

static bool is_wanted(void)
{
    return mp_session.config.torch && mp_session.config.torch_history && !mp_session.config.sample_bytes;
}

static void record_row(struct mp_thread *thread, const uint64_t *row)
{
    unsigned reading = row[WHAT] & 0xff, device = row[WHAT] >> 8 & 0xff;
    struct mp_record record = {.address = row[ADDRESS],
                               .bytes = row[BYTES],
                               .total_allocated = row[STREAM],
                               .total_reserved = row[POOL],
                               .stack = (uint32_t)(row[WHAT] >> 16),
                               .track = reading == MP_READING_END ? MP_TRACK_NONE : mp_torch_track((int)device),
                               .type = MP_RECORD_TORCH,
                               .kind = (uint8_t)reading,
                               .moment_ns = row[MOMENT] ? row[MOMENT] + mp_session.clock_shift_ns : 0};
    mp_record_prepared(thread, &record);
}

/* Waits outside of a hook, so that other threads may fork meanwhile. */
static void wait_for_collector(void)
{
    struct mp_spool_header *header = mp_session.header;
    uint32_t drained = atomic_load(&header->drained);
    mp_session_ring_doorbell();
    mp_futex_wait(&header->drained, drained, LOOK_NS);
}

int mp_torch_history(const uint64_t *rows, size_t count)
{
    if (!rows && count) {
        mp_torch_annotations((enum mp_torch_annotations)count);
        return 0;
    }
    uint64_t give_up = mp_clock_monotonic_ns() + WAIT_MAX_NS;
    for (size_t done = 0;;) {
        struct mp_thread *thread = mp_hook_enter();
        if (!thread || !is_wanted()) {
            if (thread) mp_hook_leave(thread);
            return -1;
        }
        size_t here = count - done < AT_ONCE ? count - done : AT_ONCE;
        bool fits = mp_record_fits(thread, (uint32_t)here), wait = mp_session.config.wait_when_full;
        for (size_t i = 0; fits && i < here; i++)
            record_row(thread, rows + (done + i) * NUMBERS);
        mp_hook_leave(thread);
        if (fits) {
            done += here;
            give_up = mp_clock_monotonic_ns() + WAIT_MAX_NS;
        }
        if (done == count) return count || mp_session.config.untried_history ? 0 : 1;
        if (fits) continue;
        if (!wait || mp_clock_monotonic_ns() >= give_up || !mp_spool_attended(mp_session.header)) return 1;
        int saved = errno;
        wait_for_collector();
        errno = saved;
    }
}

/*
 * PyTorch up to 2.6 notes regions in its memory history only for the thread that began the very first one. It then adds
 * a callback for that thread, once per process (_initRecordAnnotations). The shim's history needs no regions, and must
 * not count as that first history. So while the shim's history begins, we withhold PyTorch's new callback. It is added
 * once the program begins its own history.
 *
 * Source: ATen/record_function.h. A callback is five words of plain data, which the ABI passes on the stack.
 */

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
