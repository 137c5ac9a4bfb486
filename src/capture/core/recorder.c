#include "capture/core/recorder.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/fork.h"
#include "capture/core/front.h"
#include "capture/core/sampling.h"
#include "capture/core/tables.h"

#define WAIT_MAX_NS (100 * MP_NS_PER_MS)

/* Allows the collector to read events of other threads up to now: later records of this hook will be newer. */
static void settle(struct mp_thread *thread)
{
    if (thread->ring) atomic_store_explicit(&thread->ring->open_since, 0, memory_order_release);
}

struct mp_thread *mp_hook_enter(void)
{
    if (!mp_session_recording()) {
        mp_session_count_unattached();
        return NULL;
    }
    int saved = errno;
    struct mp_thread *thread = mp_thread_self();
    bool retired = thread && thread->retired;
    if (retired) atomic_fetch_add(&mp_session.header->losses.dropped_retired, 1);
    if (!thread || retired || !mp_fork_guard(thread)) {
        errno = saved;
        return NULL;
    }
    thread->saved_errno = saved;
    if (!thread->ring) {
        if (thread->no_memory)
            mp_session_no_memory();
        else
            atomic_fetch_add(&mp_session.header->losses.dropped_no_ring, 1);
        mp_hook_leave(thread);
        return NULL;
    }
    /* Stores a time that is not later than the record's, with a full barrier. If the collector still reads 0 here, this
     * record's time comes after the time that the collector has read. */
    atomic_exchange(&thread->ring->open_since, thread->last_time_ns);
    mp_fork_pass(thread);
    return thread;
}

void mp_hook_leave(struct mp_thread *thread)
{
    settle(thread);
    thread->inside = 0;
    errno = thread->saved_errno;
}

bool mp_hook_lock(struct mp_thread *thread, mp_lock *lock, uint64_t wait_ns)
{
    settle(thread);
    bool taken = mp_lock_take_within(lock, wait_ns);
    atomic_exchange(&thread->ring->open_since, thread->last_time_ns);
    mp_fork_pass(thread);
    return taken;
}

/* True if another hook of this thread ran in between, in a handler, and used this hook's place in the ring. */
static bool is_over(const struct mp_thread *thread, uint32_t hook)
{
    atomic_signal_fence(memory_order_seq_cst);
    return __builtin_expect(thread->hook != hook, 0);
}

static void count_dropped(struct mp_thread *thread)
{
    _Atomic uint64_t *dropped = &thread->ring->dropped;
    atomic_store_explicit(dropped, atomic_load_explicit(dropped, memory_order_relaxed) + 1, memory_order_relaxed);
}

static uint64_t stamp(struct mp_thread *thread)
{
    uint64_t now = mp_session_clock_ns();
    thread->last_time_ns = now;
    atomic_store_explicit(&thread->ring->open_since, now, memory_order_relaxed);
    return now;
}

/* The ring is full: sleeps until the collector has read some records, at most WAIT_MAX_NS. False: the wait was in vain;
 * records are then dropped until the tail moves. */
static bool wait_for_room(struct mp_thread *thread, uint64_t head)
{
    struct mp_spool_header *header = mp_session.header;
    struct mp_ring *ring = thread->ring;
    uint64_t give_up = mp_clock_monotonic_ns() + WAIT_MAX_NS;
    for (;;) {
        uint32_t drained = atomic_load(&header->drained);
        thread->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - thread->tail_seen < MP_RING_RECORDS) return true;
        if (!mp_session.config.wait_when_full || !mp_spool_attended(header)) return false;
        uint64_t now = mp_clock_monotonic_ns();
        if (now >= give_up) return false;
        mp_session_ring_doorbell();
        mp_futex_wait(&header->drained, drained, give_up - now);
    }
}

static __attribute__((noinline)) bool make_room(struct mp_thread *thread, uint64_t head)
{
    struct mp_ring *ring = thread->ring;
    if (!thread->full || atomic_load_explicit(&ring->tail, memory_order_acquire) != thread->full_tail) {
        thread->full = !wait_for_room(thread, head);
        if (!thread->full) return true;
        thread->full_tail = thread->tail_seen;
    }
    count_dropped(thread);
    if (atomic_load(&mp_session.header->collector_left)) atomic_store(&mp_session.page->recording, 0);
    return false;
}

/* Returns room for the next record in this thread's ring. NULL if there is none; the record then counts as dropped. */
static struct mp_record *reserve(struct mp_thread *thread)
{
    uint64_t head = atomic_load_explicit(&thread->ring->head, memory_order_relaxed);
    if (__builtin_expect(head - thread->tail_seen >= MP_RING_RECORDS, 0) && !make_room(thread, head)) return NULL;
    return &thread->records[head % MP_RING_RECORDS];
}

static void publish(struct mp_thread *thread)
{
    struct mp_ring *ring = thread->ring;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed) + 1;
    atomic_store_explicit(&ring->head, head, memory_order_release);
    if (__builtin_expect(head - thread->tail_seen >= MP_RING_RECORDS / 2, 0)) {
        thread->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head - thread->tail_seen >= MP_RING_RECORDS / 2 &&
            !atomic_load_explicit(&mp_session.header->rung, memory_order_relaxed))
            mp_session_ring_doorbell();
    }
}

static void record_block(struct mp_thread *thread, enum mp_event_type type, const struct mp_block_facts *block,
                         bool with_stack)
{
    uint32_t hook = thread->hook;
    uint64_t now = stamp(thread);
    struct mp_record *record = reserve(thread);
    if (!record) return;
    struct mp_captured captured = {.stack = block->stack, .module = block->module};
    if (!block->stack_known && with_stack) captured = mp_fronts.capture(thread, block->may_call_python);
    if (is_over(thread, hook)) return;
    if (type == MP_EVENT_ALLOC && thread->call) {
        mp_record_region(thread, MP_EVENT_STEP, thread->call, 0);
        thread->call = 0;
        now = thread->last_time_ns;
        record = reserve(thread);
        if (!record || is_over(thread, hook)) return;
    }
#define COPY(field, type) .field = block->field,
    *record = (struct mp_record){.time_ns = now,
                                 .stack = captured.stack,
                                 .name = captured.module,
                                 .type = (uint8_t)type,
                                 .flags = block->only_if_known ? MP_RECORD_IF_KNOWN : 0,
                                 MP_FACT_FIELDS(COPY, COPY)};
#undef COPY
    publish(thread);
}

/* In a forked child the sampler starts anew: otherwise the child would leave out the same blocks as its parent. */
static void start_sampler(struct mp_thread *thread)
{
    uint64_t seed = mp_clock_monotonic_ns() ^ (uint64_t)(uintptr_t)thread << 16;
    mp_sampler_start(&thread->sampler, seed, mp_session.config.sample_bytes);
    thread->sampler.generation = thread->generation;
}

static bool is_sampled(const struct mp_block_facts *block)
{
    return __builtin_expect(mp_session.config.sample_bytes && block->may_be_left_out, 0);
}

static bool leaves_out(struct mp_thread *thread, const struct mp_block_facts *block)
{
    struct mp_sampler *sampler = &thread->sampler;
    if (sampler->generation != thread->generation) start_sampler(thread);
    if (mp_sampler_passes(sampler, block->bytes)) return true;
    mp_sampler_next(sampler, mp_session.config.sample_bytes);
    if (!mp_sampled_add(block->track, block->address))
        mp_session_note("more blocks of the sample lived than the recorder remembers: frees of others cost more, and "
                        "nothing is lost");
    return false;
}

/* False if the table of tracks has no room for the block's track; the event then counts as dropped. */
static bool has_track(const struct mp_block_facts *block)
{
    if (__builtin_expect(block->track != MP_TRACK_NONE, 1)) return true;
    atomic_fetch_add(&mp_session.header->losses.dropped_no_track, 1);
    return false;
}

void mp_record_alloc(struct mp_thread *thread, const struct mp_block_facts *block)
{
    if (!has_track(block)) return;
    if (is_sampled(block) && leaves_out(thread, block)) return;
    record_block(thread, MP_EVENT_ALLOC, block, true);
}

void mp_record_free(struct mp_thread *thread, const struct mp_block_facts *block)
{
    if (!has_track(block)) return;
    struct mp_block_facts known;
    if (is_sampled(block)) {
        if (!mp_sampled_remove(block->track, block->address)) return;
        known = *block;
        known.only_if_known = true;
        block = &known;
    }
    record_block(thread, MP_EVENT_FREE, block, mp_session.config.free_stacks);
}

void mp_record_oom(struct mp_thread *thread, const struct mp_block_facts *request)
{
    if (has_track(request)) record_block(thread, MP_EVENT_OOM, request, true);
}

void mp_record_prepared(struct mp_thread *thread, const struct mp_record *prepared)
{
    uint32_t hook = thread->hook;
    uint64_t now = stamp(thread);
    struct mp_record *record = reserve(thread);
    if (!record || is_over(thread, hook)) return;
    *record = *prepared;
    record->time_ns = now;
    publish(thread);
}

void mp_record_reserved(struct mp_thread *thread, uint16_t track, uint64_t bytes)
{
    mp_record_prepared(thread, &(struct mp_record){.bytes = bytes, .track = track, .type = MP_EVENT_RESERVED});
}

uint32_t mp_record_name(const char *text)
{
    return mp_table_string(text, strlen(text));
}

void mp_record_region(struct mp_thread *thread, enum mp_event_type type, uint32_t name, uint32_t lane)
{
    const struct mp_record record = {
        .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
        .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
        .stack = type == MP_EVENT_MARK ? mp_fronts.capture(thread, true).stack : 0,
        .bytes = lane,
        .name = name,
        .track = MP_TRACK_NONE,
        .type = (uint8_t)type,
        .flags = lane ? MP_RECORD_LANE : 0,
    };
    mp_record_prepared(thread, &record);
}

void mp_record_plain(struct mp_thread *thread, enum mp_event_type type, const char *name)
{
    mp_record_region(thread, type, name ? mp_record_name(name) : 0, 0);
}

void mp_record_label(struct mp_thread *thread, uint64_t address, enum mp_role role, uint32_t name)
{
    const struct mp_record record = {
        .address = address, .name = name, .track = MP_TRACK_NONE, .type = MP_RECORD_LABEL, .kind = (uint8_t)role};
    mp_record_prepared(thread, &record);
}

bool mp_record_fits(const struct mp_thread *thread, uint32_t records)
{
    const struct mp_ring *ring = thread->ring;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    return head - atomic_load_explicit(&ring->tail, memory_order_acquire) + records <= MP_RING_RECORDS;
}

void mp_record_question(struct mp_thread *thread, const struct mp_record *question)
{
    _Atomic uint64_t *dropped = &thread->ring->dropped;
    uint64_t events = atomic_load_explicit(dropped, memory_order_relaxed);
    mp_record_prepared(thread, question);
    atomic_store_explicit(dropped, events, memory_order_relaxed); /* a question is no event, so it cannot be a dropped
                                                                   * one */
    settle(thread);
    mp_session_ring_doorbell();
}

uint16_t mp_record_track(unsigned device_type, int device_index, enum mp_layer layer, enum mp_size_basis basis,
                         const char *name)
{
    struct mp_wire_track track = {.device_type = (uint8_t)device_type,
                                  .device_index = (int16_t)device_index,
                                  .layer = (uint8_t)layer,
                                  .size_basis = (uint8_t)basis,
                                  .name = *name ? mp_table_string(name, strlen(name)) : 0};
    return mp_table_track(&track);
}
