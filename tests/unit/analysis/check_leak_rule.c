/*
 * The rule of leaks compared with a second version, written from its description in the plainest way: every boundary,
 * every pair, every block. Random lives of many shapes reach each threshold from both sides, and exactly.
 */
#include "analysis/leaks/leak_rule.h"
#include "analysis/leaks/leak_slope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit/suite.h"

enum { MANY = 400, LAST_MAX = 150 };

struct lives {
    struct mp_leak_life at[MANY];
    size_t count;
    uint32_t last;
};

static uint64_t state = 1;

static uint32_t chance(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((state >> 33) % below);
}

/* ---- the rule, as described ------------------------------------------------------------------------------------- */

static bool lives_at(const struct mp_leak_life *life, uint32_t k)
{
    return k > life->birth && k <= life->death;
}

/* Distinct births of the blocks that live at k. */
static uint32_t births_at(const struct lives *lives, uint32_t k)
{
    bool seen[LAST_MAX + 2] = {false};
    uint32_t births = 0;
    for (size_t i = 0; i < lives->count; i++) {
        if (!lives_at(&lives->at[i], k) || seen[lives->at[i].birth]) continue;
        seen[lives->at[i].birth] = true;
        births++;
    }
    return births;
}

static double live_at(const struct lives *lives, uint32_t k)
{
    double live = 0;
    for (size_t i = 0; i < lives->count; i++)
        live += lives_at(&lives->at[i], k);
    return live;
}

/* The age that nine of ten freed blocks did not exceed. Fewer than eight freed blocks give no usual age. */
static uint32_t age_before(const struct lives *lives, uint32_t moment, uint32_t otherwise)
{
    size_t freed = 0;
    for (size_t i = 0; i < lives->count; i++)
        freed += lives->at[i].death < moment;
    if (freed < 8) return otherwise;
    for (uint32_t age = 0; age < moment; age++) {
        size_t no_older = 0;
        for (size_t i = 0; i < lives->count; i++)
            no_older += lives->at[i].death < moment && lives->at[i].death - lives->at[i].birth <= age;
        if (10 * no_older >= 9 * freed) return age;
    }
    return moment;
}

/* No freed block is younger than a living one, and blocks get half as old again. */
static bool is_backlog(const struct lives *lives)
{
    for (size_t i = 0; i < lives->count; i++)
        for (size_t k = 0; k < lives->count; k++)
            if (lives->at[i].death < lives->last && lives->at[k].death >= lives->last &&
                lives->at[i].birth > lives->at[k].birth)
                return false;
    double early = age_before(lives, lives->last / 2, UINT32_MAX);
    return age_before(lives, lives->last, 0) > floor(early * 1.5) + 1;
}

static uint32_t usual_age(const struct lives *lives)
{
    return is_backlog(lives) ? 0 : age_before(lives, lives->last, 0);
}

/* Mann and Kendall's z and Theil and Sen's slope of the live blocks at boundaries first to last. */
static void find_trend(const struct lives *lives, uint32_t first, double *z, double *slope)
{
    uint32_t n = lives->last - first + 1;
    double s = 0, values[LAST_MAX + 1], slopes[(LAST_MAX + 1) * LAST_MAX / 2];
    size_t pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        values[i] = live_at(lives, first + i);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i + 1; k < n; k++) {
            s += values[k] > values[i] ? 1 : values[k] < values[i] ? -1 : 0;
            slopes[pairs++] = (values[k] - values[i]) / (k - i);
        }
    double ties = 0;
    for (uint32_t i = 0; i < n; i++) { /* each value counts its group once */
        double same = 0;
        bool is_first = true;
        for (uint32_t k = 0; k < n; k++) {
            same += values[k] == values[i];
            if (k < i && values[k] == values[i]) is_first = false;
        }
        if (is_first) ties += same * (same - 1) * (2 * same + 5);
    }
    double spread = ((double)n * (n - 1) * (2 * n + 5) - ties) / 18;
    *z = *slope = 0;
    if (n < 2) return;
    if (spread > 0) *z = (s > 0 ? s - 1 : s < 0 ? s + 1 : 0) / sqrt(spread);
    for (size_t i = 0; i < pairs; i++) { /* the upper median of the values */
        size_t below = 0, same = 0;
        for (size_t k = 0; k < pairs; k++) {
            below += slopes[k] < slopes[i];
            same += slopes[k] == slopes[i];
        }
        if (below > pairs / 2 || below + same <= pairs / 2) continue;
        *slope = slopes[i];
        return;
    }
}

static bool is_bounded(const struct lives *lives, const uint32_t *births, size_t count, uint32_t end)
{
    uint32_t last = lives->last, now = births_at(lives, last), widest = 0;
    for (size_t i = 1; i < count; i++)
        if (births[i] - births[i - 1] > widest) widest = births[i] - births[i - 1];
    double pause = (double)end - births[count - 1];
    if (pause > 3.0 * widest + 1) return true; /* it has stopped */
    uint32_t middle = births[0] + (last - births[0]) / 2;
    double earlier = (double)births_at(lives, middle) - births_at(lives, births[0]);
    double later = (double)now - births_at(lives, middle);
    return later <= 0 || later + 2 * sqrt(later + 1) + 1 < 0.5 * earlier; /* it slows down */
}

static bool only_refills(const struct lives *lives, bool *sawtooth)
{
    uint32_t highest = 0, before = 0;
    *sawtooth = false;
    for (uint32_t k = 0; k <= lives->last; k++) {
        uint32_t births = births_at(lives, k);
        if (births > highest) highest = births;
        if (highest < 4 || births > highest / 2.0) continue;
        before = highest;
        *sawtooth = true;
    }
    return *sawtooth && births_at(lives, lives->last) < before + before / 2 + 4;
}

/* A record is a boundary with more live blocks than every earlier one since `first`. Judges by the longest pause
 * between records, and by the pause since the last. */
static enum mp_leak_growth unless_full(const struct lives *lives, uint32_t first)
{
    uint32_t records[LAST_MAX + 1], count = 0, widest = 0;
    for (uint32_t k = first + 1; k <= lives->last; k++) {
        bool highest = true;
        for (uint32_t i = first; i < k; i++)
            highest &= live_at(lives, k) > live_at(lives, i);
        if (highest) records[count++] = k;
    }
    for (uint32_t i = 1; i < count; i++)
        if (records[i] - records[i - 1] > widest) widest = records[i] - records[i - 1];
    uint32_t pause = count < 4 ? 0 : lives->last - records[count - 1];
    return pause > 3 * widest + 1 ? MP_GROWTH_NONE : pause > 2 * widest ? MP_GROWTH_PAUSED : MP_GROWTH_LEAK;
}

static struct mp_leak_evidence judge(const struct lives *lives)
{
    struct mp_leak_evidence reported = {0};
    uint32_t births[LAST_MAX + 1], last = lives->last, age = usual_age(lives), end = age < last ? last - age : 0;
    size_t count = 0;
    for (uint32_t birth = 0; birth < end; birth++)
        for (size_t i = 0; i < lives->count; i++)
            if (lives->at[i].birth == birth && lives_at(&lives->at[i], last)) {
                births[count++] = birth;
                break;
            }
    if (!count) return reported;
    reported.births = (uint32_t)count;
    reported.first = births[0];
    reported.last = births[count - 1];
    uint32_t living = 0;
    for (uint32_t birth = 0; birth < last; birth++)
        for (size_t i = 0; i < lives->count; i++)
            if (lives->at[i].birth == birth && lives_at(&lives->at[i], last)) {
                living++;
                break;
            }
    bool none_freed = true, old = false;
    for (size_t i = 0; i < lives->count; i++)
        if (lives->at[i].death < last && lives->at[i].death - lives->at[i].birth >= 8) none_freed = false;
    for (size_t i = 0; i < count; i++)
        if (births[i] >= 3 && last - births[i] > 8) old = true;
    if (count < 4 && living < 4 && old && (none_freed || last - reported.last > 8)) reported.growth = MP_GROWTH_ONCE;
    if (reported.births < 4) return reported;
    double slope;
    find_trend(lives, reported.first, &reported.z, &slope);
    reported.none_freed = none_freed;
    bool refills = only_refills(lives, &reported.sawtooth);
    if (refills || is_bounded(lives, births, count, end)) return reported;
    enum mp_leak_growth growth = unless_full(lives, reported.first);
    if (growth == MP_GROWTH_NONE) return reported;
    if (reported.births >= 8 && slope > 0 && reported.z > 3.09) reported.growth = growth;
    if (reported.births < 8 && slope > 0)
        reported.growth = 2 * (last - reported.first) >= last ? MP_GROWTH_FEW : MP_GROWTH_ONCE;
    return reported;
}

/* ---- the comparison ---------------------------------------------------------------------------------------------- */

static int by_birth(const void *left, const void *right)
{
    const struct mp_leak_life *a = left, *b = right;
    return a->birth < b->birth ? -1 : a->birth > b->birth;
}

static void add(struct lives *lives, uint32_t birth, uint32_t death)
{
    if (lives->count == MANY || birth >= lives->last || death <= birth) return;
    lives->at[lives->count++] = (struct mp_leak_life){birth, death, 1 + chance(5000), 0};
}

static unsigned told_of[MP_GROWTH_LEAK + 1];

static void check(struct lives *lives)
{
    struct mp_leak_evidence reported;
    qsort(lives->at, lives->count, sizeof *lives->at, by_birth);
    mp_leak_judge(lives->at, lives->count, lives->last, &reported);
    struct mp_leak_evidence wanted = judge(lives);
    ck_assert_int_eq(reported.growth, wanted.growth);
    ck_assert_uint_eq(reported.births, wanted.births);
    ck_assert_uint_eq(reported.first, wanted.first);
    ck_assert_uint_eq(reported.last, wanted.last);
    ck_assert_double_eq_tol(reported.z, wanted.z, 1e-9);
    ck_assert_int_eq(reported.sawtooth, wanted.sawtooth);
    ck_assert_int_eq(reported.none_freed, wanted.none_freed);
    told_of[reported.growth]++;
}

/* Makes the lives of one site, of a random shape. */
static void make(struct lives *lives)
{
    *lives = (struct lives){.last = 4 + chance(45)};
    uint32_t last = lives->last, forever = last + chance(3), every = 1 + chance(6), hold = 1 + chance(12);
    uint32_t from = chance(4) ? chance(6) : chance(last), until = chance(3) ? last : chance(last + 1);
    if (!chance(3) && last > 6) until = last - 2 - chance(4); /* shortly before the end */
    uint32_t shape = chance(9), empty_at = 1 + chance(last);
    for (uint32_t step = from; step < until; step += 1 + (chance(5) ? every - 1 : chance(2 * every))) {
        uint32_t blocks = 1 + (chance(4) ? 0 : chance(3));
        while (blocks--)
            switch (shape) {
            case 0: /* kept */
                add(lives, step, forever);
                break;
            case 1: /* a ring */
                add(lives, step, step + hold < last ? step + hold : forever);
                break;
            case 2: /* emptied now and then */
                add(lives, step, (step / empty_at + 1) * empty_at < last ? (step / empty_at + 1) * empty_at : forever);
                break;
            case 3: /* most are freed, some are kept */
                add(lives, step, chance(5) ? step + 1 + chance(hold) : forever);
                break;
            case 4: /* less and less often */
                add(lives, step, forever);
                every += chance(2);
                break;
            case 5: /* of late only */
                add(lives, step, step > last / 2 ? forever : step + 1);
                break;
            case 7: /* a queue that gets more than is taken out */
                add(lives, step,
                    step + 1 + (step - from) * hold / 4 < last ? step + 1 + (step - from) * hold / 4 : forever);
                break;
            case 6: /* emptied once */
                add(lives, step, step < empty_at && empty_at < last ? empty_at : forever);
                break;
            default:
                add(lives, chance(last), chance(2) ? forever : chance(last));
            }
    }
    for (uint32_t i = chance(4); i--;) /* made in the warm-up */
        add(lives, chance(2), forever);
    for (uint32_t i = chance(3) ? 0 : chance(30); i--;) { /* and temporary blocks */
        uint32_t birth = chance(last);
        add(lives, birth, birth + 1 + chance(1 + hold / 2));
    }
}

START_TEST(it_is_what_its_words_say)
{
    static struct lives lives;
    for (int round = 0; round < 15000; round++) {
        make(&lives);
        check(&lives);
    }
    for (unsigned growth = 0; growth <= MP_GROWTH_LEAK; growth++)
        ck_assert_uint_gt(told_of[growth], 40); /* otherwise this verdict was not tested */
}

/* Nine of ten freed blocks were two steps old: older blocks are leaks. With only eight of ten, or 17 of 19, blocks of
 * twelve steps are usual, too. */
START_TEST(nine_in_ten_is_nine)
{
    static const struct {
        uint32_t young, old, births;
    } cases[] = {{9, 1, 28}, {8, 2, 18}, {10, 1, 28}, {18, 2, 28}, {17, 2, 18}, {8, 1, 18}, {7, 0, 30}, {8, 0, 28}};
    static struct lives lives;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lives = (struct lives){.last = 30};
        for (uint32_t k = 0; k < 30; k++)
            add(&lives, k, 40);
        for (uint32_t k = 0; k < cases[i].young; k++)
            add(&lives, k, k + 2);
        for (uint32_t k = 0; k < cases[i].old; k++)
            add(&lives, k, k + 12);
        check(&lives);
        struct mp_leak_evidence reported;
        mp_leak_judge(lives.at, lives.count, lives.last, &reported);
        ck_assert_uint_eq(reported.births, cases[i].births);
    }
}

/* Eight births are proof, seven are not. Lasting blocks count if born after the third step and at least nine steps
 * old. */
START_TEST(the_least_that_counts)
{
    static struct lives lives;
    for (uint32_t births = 1; births <= 10; births++)
        for (uint32_t last = 9; last < 60; last++) {
            lives = (struct lives){.last = last};
            for (uint32_t k = 0; k < births; k++)
                add(&lives, 3 + k * (last - 4) / births, last);
            check(&lives);
        }
    for (uint32_t first = 0; first < 6; first++)
        for (uint32_t last = first + 5; last < first + 14; last++) {
            lives = (struct lives){.last = last};
            add(&lives, first, last);
            check(&lives);
        }
}

/* The rule looks at two hundred of many points, the first and the last among them. */
START_TEST(long_trends_are_looked_at_from_end_to_end)
{
    enum { POINTS = 200, LONG = 1991 };
    static uint32_t at[LONG];
    struct mp_trend trend;
    double spread = POINTS * (POINTS - 1.0) * (2 * POINTS + 5) / 18, most = POINTS * (POINTS - 1) / 2.0 - 1;
    for (uint32_t i = 0; i < LONG; i++)
        at[i] = 3 * i;
    mp_trend_find(at, LONG, &trend);
    ck_assert_double_eq_tol(trend.slope, 3, 1e-9);
    ck_assert_double_eq_tol(trend.z, most / sqrt(spread), 1e-9);
    for (uint32_t i = 0; i < LONG; i++)
        at[i] = 5000 - i;
    mp_trend_find(at, LONG, &trend);
    ck_assert_double_eq_tol(trend.slope, -1, 1e-9);
    ck_assert_double_eq_tol(trend.z, -most / sqrt(spread), 1e-9);
    for (unsigned end = 0; end < 2; end++) { /* one point that differs, at an end */
        for (uint32_t i = 0; i < LONG; i++)
            at[i] = 7 + (i == (end ? LONG - 1 : 0));
        mp_trend_find(at, LONG, &trend);
        double n = POINTS, ties = (n - 1) * (n - 2) * (2 * (n - 1) + 5);
        double z = (n - 2) / sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18);
        ck_assert_double_eq_tol(trend.z, end ? z : -z, 1e-9);
        ck_assert_double_eq_tol(trend.slope, 0, 1e-12);
    }
}

/* Every series of up to five small numbers, including those that rise as often as they fall. */
START_TEST(short_trends_are_counted_out)
{
    enum { MOST_POINTS = 5, VALUES = 4 };
    for (unsigned count = 0; count <= MOST_POINTS; count++)
        for (unsigned code = 0; code < 1u << 2 * count; code++) {
            uint32_t at[MOST_POINTS], below = 0;
            double rises = 0, ties = 0, n = count;
            for (unsigned i = 0; i < count; i++)
                at[i] = code >> 2 * i & (VALUES - 1);
            for (unsigned i = 0; i < count; i++)
                for (unsigned k = i + 1; k < count; k++)
                    rises += (at[k] > at[i]) - (at[k] < at[i]);
            for (unsigned value = 0; value < VALUES; value++) {
                double same = 0;
                for (unsigned i = 0; i < count; i++)
                    same += at[i] == value;
                ties += same * (same - 1) * (2 * same + 5);
            }
            double spread = (n * (n - 1) * (2 * n + 5) - ties) / 18;
            double nearer = rises > 0 ? rises - 1 : rises < 0 ? rises + 1 : 0; /* the correction for continuity */
            struct mp_trend trend;
            mp_trend_find(at, count, &trend);
            ck_assert_double_eq_tol(trend.z, spread > 0 ? nearer / sqrt(spread) : 0, 1e-12);
            for (unsigned i = 0; i < count; i++)
                for (unsigned k = i + 1; k < count; k++)
                    below += ((double)at[k] - at[i]) / (k - i) < trend.slope - 1e-12;
            ck_assert_uint_le(below, count * (count - (count > 0)) / 4); /* the median: no more than half lie below */
        }
}

START_TEST(a_queue_that_gets_more_than_is_taken_out)
{
    static struct lives lives;
    struct mp_leak_evidence reported;
    struct mp_leak_slope slope;
    for (uint32_t each = 1; each <= 3; each++) { /* gets so many, and each step takes out one */
        lives = (struct lives){.last = 60};
        for (uint32_t i = 0; i < 60 * each; i++) {
            add(&lives, i / each, i + 1 < 60 ? i + 1 : 60);
            lives.at[lives.count - 1].bytes = 1000;
        }
        ck_assert_int_eq(mp_leak_is_backlog(lives.at, lives.count, 60), each > 1);
        mp_leak_judge(lives.at, lives.count, 60, &reported);
        ck_assert_int_eq(reported.growth, each > 1 ? MP_GROWTH_LEAK : MP_GROWTH_NONE);
        mp_leak_slope_find(lives.at, lives.count, 60, &slope);
        if (each == 1) continue;
        ck_assert_uint_eq(slope.first, 0);
        ck_assert_uint_le(fabs(slope.bytes_per_step - 1000.0 * (each - 1)),
                          40); /* the last step's amount is left out */
    }
}

/* One block is kept at each step. Near the end `came` blocks are made and `went` old ones are freed, for numbers around
 * every threshold. */
START_TEST(a_queue_loses_as_many_as_it_gets)
{
    static struct lives lives;
    for (uint32_t last = 20; last <= 120; last += 10)
        for (uint32_t came = 1; came <= 6; came++)
            for (uint32_t went = 0; went <= came + 1; went++) {
                uint32_t window = last / 10 > 8 ? last / 10 : 8;
                lives = (struct lives){.last = last};
                for (uint32_t k = 0; k < last - window; k++)
                    add(&lives, k, k >= 5 && k < 5 + went ? last - 1 : last);
                for (uint32_t k = 0; k < came; k++)
                    add(&lives, last - window + k, last);
                check(&lives);
            }
}

/* Ages of any number of digits. */
START_TEST(the_usual_age_of_long_recordings)
{
    static struct lives lives;
    for (int round = 0; round < 2000; round++) {
        uint32_t longest = 1 + chance(round % 2 ? 300 : 3000);
        lives = (struct lives){.last = 1 + chance(round % 3 ? 3000 : 600)};
        for (uint32_t left = 8 + chance(40); left; left--) {
            uint32_t birth = chance(lives.last), death = birth + 1 + chance(longest);
            add(&lives, birth, death < lives.last ? death : lives.last);
        }
        ck_assert_uint_eq(mp_leak_usual_age(lives.at, lives.count, lives.last, 0), usual_age(&lives));
    }
    lives = (struct lives){.last = UINT32_MAX};
    for (uint32_t i = 0; i < 20; i++)
        add(&lives, i, i + 0x01020304 * (i + 1));
    ck_assert_uint_eq(mp_leak_usual_age(lives.at, lives.count, lives.last, 0), 0x01020304 * 18);
}

MP_SUITE("leak_rule", it_is_what_its_words_say, short_trends_are_counted_out, a_queue_that_gets_more_than_is_taken_out,
         a_queue_loses_as_many_as_it_gets, nine_in_ten_is_nine, the_usual_age_of_long_recordings, the_least_that_counts,
         long_trends_are_looked_at_from_end_to_end)
