#include "capture/torch/holders.h"

#include <stdatomic.h>

#include "capture/core/recorder.h"
#include "capture/core/session.h"
#include "capture/python/python_stack.h"

#define FIRST_STEPS 8 /* what was kept in fewer is no leak yet */

static int (*_Atomic asker)(void *);
static void *_Atomic asker_context;
static _Atomic uint32_t steps;
static atomic_bool asking;

/* A row a record; the thread's ring may be full in between, and then waits as for any event. */
static void record_one(uint64_t address, const struct mp_record *row)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct mp_record record = *row;
    record.address = address;
    mp_record_prepared(thread, &record);
    mp_hook_leave(thread);
}

static uint32_t string_of(const char *text)
{
    struct mp_thread *thread = text && *text ? mp_hook_enter() : NULL;
    if (!thread) return 0;
    uint32_t id = mp_record_name(text);
    mp_hook_leave(thread);
    return id;
}

void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line)
{
    if (count && (kind <= MP_HOLDER_NONE || kind >= MP_HOLDER_KINDS)) return;
    struct mp_record row = {.bytes = line,
                            .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                            .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                            .stack = string_of(file),
                            .name = string_of(path),
                            .track = MP_TRACK_NONE,
                            .type = MP_RECORD_HOLDER,
                            .kind = count ? (uint8_t)kind : MP_HOLDER_NONE,
                            .moment_ns = certain ? 1 : 0};
    for (size_t i = 0; i < count; i++)
        if (addresses[i]) record_one(addresses[i], &row);
    if (!count) record_one(0, &row);
}

int mp_holders_ask(int (*ask)(void *), void *context)
{
    if (ask) atomic_store(&asker_context, context);
    atomic_store(&asker, ask);
    return mp_session_recording() && mp_session.config.holders;
}

static int run_asker(void *unused)
{
    (void)unused;
    atomic_store(&asking, false);
    int (*ask)(void *) = atomic_load(&asker);
    return ask ? ask(atomic_load(&asker_context)) : 0;
}

void mp_holders_step(void)
{
    if (!mp_session_recording() || !mp_session.config.holders || !atomic_load(&asker)) return;
    uint32_t now = atomic_fetch_add(&steps, 1) + 1;
    if (now < FIRST_STEPS || (now & (now - 1)) || atomic_exchange(&asking, true)) return;
    if (!mp_python_call_soon(run_asker, true)) atomic_store(&asking, false);
}
