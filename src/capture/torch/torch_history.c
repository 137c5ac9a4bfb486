#include "capture/torch/torch.h"

#include <errno.h>

#include "base/clock.h"
#include "capture/core/recorder.h"

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
