/* The recorder's core over a spool in plain memory, with the collector's own reading on the other side. */
#include "capture/core/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/core/fork.h"
#include "capture/core/tables.h"
#include "capture/python/layout.h"
#include "capture/stack/stack.h"
#include "collect/recording/drain.h"
#include "unit/capture/memory_spool.h"

static bool alloc(uint64_t address)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return false;
    struct mp_block_facts block = {.kind = MP_KIND_HOST, .address = address, .bytes = address + 1};
    mp_record_alloc(thread, &block);
    mp_hook_leave(thread);
    return true;
}

/* ---- many threads --------------------------------------------------------------------------------------------- */

#define THREADS 6
#define EVENTS  30000

static struct {
    uint64_t next[THREADS], taken, last_ns;
} seen;

static bool visit(void *context, uint32_t ring, const struct mp_record *record)
{
    uint64_t thread = record->address >> 32, number = record->address & UINT32_MAX;
    /* in order of the thread; dropped records leave gaps */
    if (thread >= THREADS || number < seen.next[thread] || record->bytes != record->address + 1 ||
        record->time_ns < seen.last_ns)
        ck_abort_msg("record %llu of ring %u", (unsigned long long)record->address, ring);
    seen.next[thread] = number + 1;
    seen.last_ns = record->time_ns;
    seen.taken++;
    return true;
}

static _Atomic int running;

static void *publish_many(void *context)
{
    uint64_t thread = (uint64_t)(uintptr_t)context;
    for (uint64_t i = 0; i < EVENTS; i++)
        if (!alloc(thread << 32 | i)) ck_abort();
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void wake(struct mp_spool_header *spool)
{
    atomic_store(&spool->rung, 0);
    atomic_fetch_add(&spool->drained, 1);
    mp_futex_wake(&spool->drained);
}

START_TEST(many_threads_and_one_reader)
{
    struct mp_spool_header *spool = start(true);
    struct mp_drain drain = {0};
    pthread_t threads[THREADS];
    atomic_store(&running, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert(!pthread_create(&threads[i], NULL, publish_many, (void *)i));
    while (atomic_load(&running)) {
        mp_drain_take(&drain, spool, false, visit, NULL);
        mp_drain_release(&drain, spool);
        wake(spool);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mp_drain_take(&drain, spool, true, visit, NULL);
    uint64_t dropped = atomic_load(&spool->losses.dropped_no_ring);
    for (int i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        dropped += atomic_load(&spool->rings[i].dropped);
    ck_assert_uint_eq(seen.taken + dropped, THREADS * EVENTS);
    ck_assert_uint_gt(seen.taken, THREADS * EVENTS / 2);
}

/* ---- rings ---------------------------------------------------------------------------------------------------- */

static void check_full(bool wait)
{
    struct mp_spool_header *spool = start(wait);
    for (uint64_t i = 0; i < MP_RING_RECORDS + 500; i++)
        ck_assert(alloc(i));
    ck_assert_uint_eq(spool->rings[0].head, MP_RING_RECORDS);
    ck_assert_uint_eq(spool->rings[0].dropped, 500);
    ck_assert_uint_gt(atomic_load(&doorbell.rings), 0);
    struct mp_drain drain = {0};
    ck_assert_uint_eq(mp_drain_take(&drain, spool, true, visit, NULL), MP_RING_RECORDS);
    ck_assert_uint_eq(seen.next[0], MP_RING_RECORDS);
    mp_drain_release(&drain, spool);
    for (uint64_t i = 0; i < 100; i++)
        ck_assert(alloc(MP_RING_RECORDS + 1000 + i));
    ck_assert_uint_eq(mp_drain_take(&drain, spool, true, visit, NULL), 100);
    ck_assert_uint_eq(spool->rings[0].dropped, 500);
    ck_assert_uint_eq(spool->rings[0].open_since, 0);
}

START_TEST(a_full_ring_drops_and_counts)
{
    check_full(false);
}

START_TEST(a_full_ring_waits_and_then_drops_and_counts)
{
    check_full(true);
}

START_TEST(nobody_records_for_a_collector_that_left)
{
    struct mp_spool_header *spool = start(true);
    for (uint64_t i = 0; i < MP_RING_RECORDS; i++)
        ck_assert(alloc(i));
    atomic_store(&spool->collector_left, 1);
    alloc(0);
    ck_assert(!alloc(0));
    ck_assert(!mp_session_recording());
}

static void *one_event(void *context)
{
    ck_assert(alloc((uint64_t)(uintptr_t)context));
    return NULL;
}

START_TEST(rings_go_from_thread_to_thread)
{
    struct mp_spool_header *spool = start(true);
    struct mp_drain drain = {0};
    for (uint64_t i = 0; i < 20; i++) {
        pthread_t thread;
        ck_assert(!pthread_create(&thread, NULL, one_event, (void *)(uintptr_t)i));
        pthread_join(thread, NULL);
        ck_assert_uint_eq(spool->rings_used, 1);
        ck_assert_uint_eq(spool->rings[0].state, MP_RING_RETIRED);
        ck_assert_uint_eq(mp_drain_take(&drain, spool, false, visit, NULL), 1);
        mp_drain_release(&drain, spool);
        ck_assert_uint_eq(spool->rings[0].state, MP_RING_FREE);
    }
    ck_assert_uint_eq(spool->rings[0].head, 20);
}

static pthread_barrier_t together;

static void *one_event_together(void *context)
{
    pthread_barrier_wait(&together);
    alloc(1);
    pthread_barrier_wait(&together);
    return context;
}

START_TEST(threads_without_a_ring_are_counted)
{
    enum { MORE = 4, ALL = MP_SPOOL_RINGS_MAX + MORE };
    struct mp_spool_header *spool = start(true);
    pthread_t threads[ALL];
    pthread_barrier_init(&together, NULL, ALL);
    for (int i = 0; i < ALL; i++)
        ck_assert(!pthread_create(&threads[i], NULL, one_event_together, NULL));
    for (int i = 0; i < ALL; i++)
        pthread_join(threads[i], NULL);
    uint64_t heads = 0;
    for (int i = 0; i < MP_SPOOL_RINGS_MAX; i++)
        heads += spool->rings[i].head;
    ck_assert_uint_eq(heads, MP_SPOOL_RINGS_MAX);
    ck_assert_uint_eq(spool->losses.dropped_no_ring, MORE);
    ck_assert_uint_eq(spool->ring_waiters, 0);
}

/* ---- hooks ---------------------------------------------------------------------------------------------------- */

/* Calls `run` as deep on the stack as a signal handler. */
static __attribute__((noinline)) void *deeper_in(void *(*run)(void))
{
    volatile char registers_that_the_kernel_saved[2048] = {1};
    void *result = run();
    return registers_that_the_kernel_saved[0] ? result : NULL;
}

static void *enter(void)
{
    return mp_hook_enter();
}

static pid_t forked;

static void *fork_there(void)
{
    forked = fork();
    return NULL;
}

START_TEST(a_hook_within_a_hook_is_nothing)
{
    struct mp_spool_header *spool = start(true);
    errno = 1234;
    struct mp_thread *thread = mp_hook_enter();
    ck_assert_ptr_nonnull(thread);
    ck_assert_uint_ne(spool->rings[0].open_since, 0);
    ck_assert_ptr_null(deeper_in(enter));
    ck_assert_uint_eq(spool->losses.dropped_inside, 1);
    ck_assert_uint_eq(spool->losses.left_hooks, 0);
    errno = 99;
    mp_hook_leave(thread);
    ck_assert_int_eq(errno, 1234);
    ck_assert_uint_eq(spool->rings[0].head, 0);
    ck_assert_uint_eq(spool->rings[0].open_since, 0);
    ck_assert(alloc(6));
    ck_assert_uint_eq(spool->rings[0].head, 1);
    ck_assert_int_eq(errno, 1234);
}

START_TEST(a_hook_that_was_left_is_over)
{
    struct mp_spool_header *spool = start(true);
    ck_assert_ptr_nonnull(deeper_in(enter)); /* a handler jumps out of this hook */
    ck_assert(mp_lock_take(&mp_session.page->table_lock));
    ck_assert(alloc(5));
    ck_assert_uint_eq(spool->losses.left_hooks, 1);
    ck_assert_uint_eq(spool->losses.dropped_inside, 0);
    ck_assert_uint_eq(spool->rings[0].head, 1);
    ck_assert_uint_eq(mp_session.page->table_lock.owner, 0);
}

START_TEST(what_another_hook_came_into_is_not_recorded)
{
    struct mp_spool_header *spool = start(true);
    struct mp_thread *thread = mp_hook_enter();
    uint32_t hook = thread->hook;
    ck_assert(alloc(5)); /* this hook takes the place of the other, which seems to have been left */
    ck_assert_uint_ne(thread->hook, hook);
    ck_assert_uint_eq(spool->rings[0].head, 1);
    ck_assert_uint_eq(spool->losses.left_hooks, 1);
}

static mp_lock contended;
static _Atomic int stage;

/* Enters a hook after one event, waits for a lock in it, and notes its ring's state before and after. */
static void *wait_for_the_lock(void *context)
{
    struct mp_ring *ring = context;
    ck_assert(alloc(1));
    struct mp_thread *thread = mp_hook_enter();
    ck_assert_uint_eq(ring->open_since, thread->last_time_ns);
    atomic_store(&stage, 1);
    ck_assert(mp_hook_lock(thread, &contended, 60 * MP_NS_PER_SECOND));
    ck_assert_uint_ne(ring->open_since, 0);
    ck_assert_uint_eq(ring->open_since, thread->last_time_ns);
    mp_lock_release(&contended);
    mp_hook_leave(thread);
    ck_assert_uint_eq(ring->open_since, 0);
    return NULL;
}

/* A hook that waits for a lock does not hold back other rings. A hook that has the lock may still record an older
 * event. */
START_TEST(a_hook_is_open_but_while_it_waits_for_a_lock)
{
    struct mp_spool_header *spool = start(true);
    pthread_t thread;
    ck_assert(mp_lock_take(&contended));
    ck_assert(!pthread_create(&thread, NULL, wait_for_the_lock, &spool->rings[0]));
    while (!atomic_load(&stage) || atomic_load(&spool->rings[0].open_since))
        usleep(100);
    mp_lock_release(&contended);
    ck_assert(!pthread_join(thread, NULL));
}

START_TEST(a_forked_child_is_silent)
{
    struct mp_spool_header *spool = start(true);
    ck_assert(alloc(1));
    pid_t child = fork();
    if (!child) _exit(alloc(2) || mp_session_recording() || mp_session.header);
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert(alloc(3));
    ck_assert_uint_eq(spool->rings[0].head, 2);
    ck_assert_uint_eq(mp_session.page->forking, 0);
}

START_TEST(a_fork_within_a_hook_harms_nobody)
{
    struct mp_spool_header *spool = start(true);
    struct mp_thread *thread = mp_hook_enter();
    struct mp_block_facts block = {.address = 7, .bytes = 8};
    deeper_in(fork_there); /* as a signal handler might */
    pid_t child = forked;
    mp_record_alloc(thread, &block);
    mp_hook_leave(thread);
    if (!child) _exit(alloc(2));
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(spool->rings[0].head, 1);
}

static _Atomic bool let_go;

static void *stay_inside(void *context)
{
    struct mp_thread *thread = mp_hook_enter();
    atomic_store((_Atomic bool *)context, true);
    usleep(20000);
    atomic_store(&let_go, true);
    mp_hook_leave(thread);
    return NULL;
}

START_TEST(a_fork_waits_for_hooks)
{
    start(true);
    _Atomic bool inside = false;
    pthread_t thread;
    ck_assert(!pthread_create(&thread, NULL, stay_inside, &inside));
    while (!atomic_load(&inside))
        usleep(100);
    uint64_t begun = mp_clock_monotonic_ns();
    pid_t child = fork();
    bool as_long_as_it_may =
        mp_clock_monotonic_ns() - begun >= MP_FORK_WAIT_NS; /* fork() took so long because the machine is busy */
    /* exits without ThreadSanitizer's checks, which would miss the parent's thread in a child */
    if (!child) syscall(SYS_exit_group, !atomic_load(&let_go) && !as_long_as_it_may);
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    pthread_join(thread, NULL);
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

START_TEST(texts_keep_their_numbers)
{
    struct mp_spool_header *spool = start(true);
    const char *strings = mp_spool_entries(spool, MP_TABLE_STRINGS);
    uint32_t ids[2000];
    char text[32];
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 2000; i++) {
            int length = snprintf(text, sizeof text, "%.*s%u", (int)(i % 7), "abcdefg", i);
            uint32_t id = mp_table_string(text, (size_t)length), stored;
            if (round) ck_assert_uint_eq(id, ids[i]);
            ids[i] = id;
            memcpy(&stored, strings + (size_t)id * 4, sizeof stored);
            ck_assert_uint_eq(stored, (uint32_t)length);
            ck_assert(!memcmp(strings + (size_t)id * 4 + 4, text, stored));
        }
    ck_assert_uint_eq(mp_table_string("", 0), 0);
}

START_TEST(full_tables_answer_nothing_and_count)
{
    struct mp_spool_header *spool = start(true);
    spool->tables[MP_TABLE_STRINGS].committed = 64;
    uint32_t known = mp_table_string("known", 5);
    ck_assert_uint_ne(known, 0);
    for (int i = 0; i < 50; i++)
        ck_assert_uint_eq(mp_table_string("this text is too long for what is left of the sixty-four bytes", 62), 0);
    ck_assert_uint_eq(spool->losses.lost_strings, 50);
    ck_assert_uint_eq(spool->losses.lost_stacks, 0);
    ck_assert_uint_eq(mp_table_string("known", 5), known);
    spool->tables[MP_TABLE_STRINGS].committed = 4096; /* the collector found room */
    ck_assert_uint_ne(mp_table_string("this text is too long for what is left of the sixty-four bytes", 62), 0);
    struct mp_wire_track track = {.layer = MP_LAYER_APP};
    for (uint32_t i = 0; i < 300; i++) {
        track.device_index = (int16_t)i;
        ck_assert_uint_eq(mp_table_track(&track), i < spool->tables[MP_TABLE_TRACKS].room ? i : MP_TRACK_NONE);
    }
}

/* The answers of `memprof doctor` are known. */
START_TEST(the_pythons_that_are_known)
{
    for (unsigned minor = 0; minor < 40; minor++)
        ck_assert_int_eq(mp_python_layout_find(minor, false) != NULL,
                         minor >= MP_PYTHON_MINOR_FIRST && minor <= MP_PYTHON_MINOR_LAST);
}

MP_SUITE("recorder", many_threads_and_one_reader, a_full_ring_drops_and_counts,
         a_full_ring_waits_and_then_drops_and_counts, nobody_records_for_a_collector_that_left,
         rings_go_from_thread_to_thread, threads_without_a_ring_are_counted, a_hook_within_a_hook_is_nothing,
         a_hook_is_open_but_while_it_waits_for_a_lock, a_hook_that_was_left_is_over,
         what_another_hook_came_into_is_not_recorded, a_forked_child_is_silent, a_fork_within_a_hook_harms_nobody,
         a_fork_waits_for_hooks, texts_keep_their_numbers, full_tables_answer_nothing_and_count,
         the_pythons_that_are_known)
