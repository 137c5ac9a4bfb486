/* Sampling by bytes, compared with the formula in libm's arithmetic and with known sums. Seeds are fixed. */
#include "capture/core/sampling.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/sampling.h"
#include "capture/core/recorder.h"
#include "unit/capture/memory_spool.h"

#define KIB (UINT64_C(1) << 10)

static bool keeps(struct mp_sampler *sampler, uint64_t bytes, uint32_t mean)
{
    if (mp_sampler_passes(sampler, bytes)) return false;
    mp_sampler_next(sampler, mean);
    return true;
}

static double share(uint64_t bytes, uint32_t mean)
{
    return -expm1(-(double)bytes / mean);
}

#define SIZES  11 /* 64 B to 64 MiB, each four times the last */
#define TRIALS 300000

/* Chi-square of the numbers of kept and left-out blocks, over all sizes. Sizes alternate, as in a program. 37.4 is the
 * 0.9999 quantile for 11 degrees of freedom. */
START_TEST(each_size_is_kept_as_often_as_it_should)
{
    static const uint32_t means[] = {1, 100, 64 * 1024, 512 * 1024, UINT32_MAX};
    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        struct mp_sampler sampler;
        uint64_t kept[SIZES] = {0};
        mp_sampler_start(&sampler, 42 + m, means[m]);
        for (int trial = 0; trial < TRIALS; trial++)
            for (int i = 0; i < SIZES; i++)
                kept[i] += keeps(&sampler, UINT64_C(64) << 2 * i, means[m]);
        double chi_square = 0;
        for (int i = 0; i < SIZES; i++) {
            double p = share(UINT64_C(64) << 2 * i, means[m]), off = (double)kept[i] - p * TRIALS;
            double expected = p * TRIALS, rest = (1 - p) * TRIALS;
            if (rest < 5)
                ck_assert(fabs(off) <= 10);
            else
                chi_square += off * off / expected + off * off / rest;
        }
        ck_assert_msg(chi_square < 37.4, "mean %u: chi-square %g", means[m], chi_square);
    }
}

/* The choice for one block says nothing of the choice for the next one. */
START_TEST(blocks_are_kept_each_on_its_own)
{
    struct mp_sampler sampler;
    const uint32_t mean = 512 * 1024;
    const uint64_t bytes = 400 * KIB;
    double p = share(bytes, mean);
    uint64_t both = 0;
    bool before = false;
    mp_sampler_start(&sampler, 7, mean);
    for (int trial = 0; trial < TRIALS; trial++) {
        bool now = keeps(&sampler, bytes, mean);
        both += before && now;
        before = now;
    }
    double expected = p * p * TRIALS;
    ck_assert(fabs((double)both - expected) < 5 * sqrt(expected));
}

static uint64_t some_size(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint64_t)(64 * exp2((double)(*state >> 11) / (double)(UINT64_C(1) << 53) * 20));
}

#define RUNS   2000
#define BLOCKS 3000

/* Estimated sums, with sizes from 64 B to 64 MiB, equally many of each magnitude. */
START_TEST(sums_are_right_on_average_and_off_by_what_is_said)
{
    static const uint32_t means[] = {4096, 512 * 1024, 64 * 1024 * 1024};
    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        double sum = 0, squares = 0, said = 0, truth = 0;
        uint64_t state = 1;
        for (int i = 0; i < BLOCKS; i++)
            truth += (double)some_size(&state);
        for (uint64_t run = 0; run < RUNS; run++) {
            struct mp_sampler sampler;
            double estimate = 0;
            mp_sampler_start(&sampler, run * 1000003 + m, means[m]);
            state = 1;
            for (int i = 0; i < BLOCKS; i++) {
                uint64_t bytes = some_size(&state);
                if (!keeps(&sampler, bytes, means[m])) continue;
                uint64_t stands_for = mp_sampling_estimate(bytes, means[m]);
                estimate += (double)stands_for;
                said += mp_sampling_variance(stands_for, means[m]);
            }
            sum += estimate - truth;
            squares += (estimate - truth) * (estimate - truth);
        }
        double observed = sqrt(squares / RUNS), off = sum / RUNS, stated = sqrt(said / RUNS);
        ck_assert_msg(fabs(off) < 4 * observed / sqrt(RUNS), "mean %u: off by %g, spread %g", means[m], off, observed);
        ck_assert_msg(stated > 0.9 * observed && stated < 1.1 * observed, "mean %u: says %g, is %g", means[m], stated,
                      observed);
    }
}

START_TEST(a_size_is_found_again)
{
    for (uint64_t mean = 1; mean <= UINT32_MAX; mean = mean * 3 + 1)
        for (uint64_t bytes = 1; bytes < UINT64_C(1) << 44; bytes = bytes * 2 + bytes % 7) {
            uint64_t estimate = mp_sampling_estimate(bytes, mean);
            ck_assert_uint_ge(estimate, bytes);
            ck_assert_uint_ge(estimate, mean);
            ck_assert(fabs(mp_sampling_size(estimate, mean) - (double)bytes) < 3 + 1e-6 * (double)bytes);
            ck_assert(mp_sampling_variance(estimate, mean) <= (double)estimate * (double)estimate);
        }
    ck_assert_uint_eq(mp_sampling_estimate(12345, 0), 12345);
    ck_assert_uint_eq(mp_sampling_estimate(0, 4096), 0);
    ck_assert(mp_sampling_variance(12345, 0) == 0);
    ck_assert(mp_sampling_size(1, 4096) == 0 && isfinite(mp_sampling_variance(1, 4096)));
}

/* ---- what lives ----------------------------------------------------------------------------------------------- */

#define THREADS 4

static void *add_and_remove(void *context)
{
    uint64_t first = (uint64_t)(uintptr_t)context << 40;
    for (uint64_t round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < 4000; i++)
            if (!mp_sampled_add(3, first + i * 512)) ck_abort();
        for (uint64_t i = 0; i < 4000; i++)
            if (!mp_sampled_remove(3, first + i * 512) || mp_sampled_remove(3, first + i * 512)) ck_abort();
    }
    return NULL;
}

START_TEST(threads_remember_what_lives)
{
    pthread_t threads[THREADS];
    ck_assert(!mp_sampled_remove(3, 512)); /* before there is anything */
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert(!pthread_create(&threads[i], NULL, add_and_remove, (void *)(i + 1)));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert(mp_sampled_add(1, 64) && !mp_sampled_remove(2, 64) && mp_sampled_remove(1, 64));
}

/* An address that is not remembered is never taken for a block that was left out. */
START_TEST(too_many_are_said_and_none_is_denied)
{
    const uint64_t many = 3 << 20;
    uint64_t refused = 0;
    for (uint64_t i = 0; i < many; i++)
        refused += !mp_sampled_add(0, i * 256);
    ck_assert_uint_gt(refused, many / 2);
    for (uint64_t i = 0; i < many; i++)
        ck_assert(mp_sampled_remove(0, i * 256));
    ck_assert(mp_sampled_remove(0, 1)); /* addresses were forgotten, so no free is filtered any more */
}

/* ---- in the recorder ------------------------------------------------------------------------------------------ */

static void tell(struct mp_block_facts block, bool begins)
{
    struct mp_thread *thread = mp_hook_enter();
    ck_assert_ptr_nonnull(thread);
    (begins ? mp_record_alloc : mp_record_free)(thread, &block);
    mp_hook_leave(thread);
}

START_TEST(what_is_left_out_leaves_no_record)
{
    struct mp_spool_header *spool = start(false);
    mp_session.config.sample_bytes = 1024 * 1024;
    uint64_t allocs = 0, kept = 0;
    for (uint64_t i = 1; i <= 2000; i++) {
        uint64_t before = atomic_load(&spool->rings[0].head);
        struct mp_block_facts block = {.address = i << 12, .bytes = 64 * KIB, .may_be_left_out = true};
        tell(block, true);
        bool in = atomic_load(&spool->rings[0].head) > before;
        kept += in;
        if (in) ck_assert_uint_eq(mp_ring_record(spool, 0, before)->bytes, 64 * KIB);
        tell(block, false);
        tell(block, false); /* like a free of an unknown block */
        ck_assert_uint_eq(atomic_load(&spool->rings[0].head), before + 2 * in);
        if (in) ck_assert_uint_eq(mp_ring_record(spool, 0, before + 1)->flags, MP_RECORD_IF_KNOWN);
        allocs++;
    }
    double expected = share(64 * KIB, 1024 * 1024) * (double)allocs; /* 121, the spread is 11 */
    ck_assert(fabs((double)kept - expected) < 6 * sqrt(expected));
    uint64_t before = atomic_load(&spool->rings[0].head);
    tell((struct mp_block_facts){.address = 5, .bytes = 1}, true);
    tell((struct mp_block_facts){.address = 5, .bytes = 1}, false);
    ck_assert_uint_eq(atomic_load(&spool->rings[0].head), before + 2);
    ck_assert_uint_eq(mp_ring_record(spool, 0, before + 1)->flags, 0);
}

static int kept_in_a_child(void)
{
    int kept = 0;
    for (uint64_t i = 1; i <= 100; i++)
        kept += mp_sampled_remove(9, i << 8);
    return kept;
}

START_TEST(a_forked_child_has_a_copy)
{
    for (uint64_t i = 1; i <= 100; i++)
        ck_assert(mp_sampled_add(9, i << 8));
    pid_t child = fork();
    if (!child) _exit(kept_in_a_child());
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(WEXITSTATUS(status), 100);
    ck_assert_int_eq(kept_in_a_child(), 100);
}

MP_SUITE("sampling", each_size_is_kept_as_often_as_it_should, blocks_are_kept_each_on_its_own,
         sums_are_right_on_average_and_off_by_what_is_said, a_size_is_found_again, threads_remember_what_lives,
         too_many_are_said_and_none_is_denied, what_is_left_out_leaves_no_record, a_forked_child_has_a_copy)
