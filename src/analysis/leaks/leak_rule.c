#include "analysis/leaks/leak_rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/vec.h"

#define POINTS_MAX 200 /* 20 000 pairs */

MP_ORDER(by_size, double, MP_COMPARE(*a, *b))

static size_t point(size_t i, size_t points, size_t count)
{
    return points == count ? i : i * (count - 1) / (points - 1);
}

/* The variance of Kendall's S without a trend; `values` are sorted. */
static double variance(const double *values, size_t count)
{
    double n = (double)count, sum = n * (n - 1) * (2 * n + 5);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && values[end] == values[i];)
            end++;
        double t = (double)(end - i);
        sum -= t * (t - 1) * (2 * t + 5);
    }
    return sum / 18;
}

void mp_trend_find(const uint32_t *at, size_t count, struct mp_trend *trend)
{
    size_t points = count < POINTS_MAX ? count : POINTS_MAX, pairs = 0;
    *trend = (struct mp_trend){0};
    if (points < 2) return;
    double *slopes = mp_alloc(points * (points - 1) / 2 * sizeof *slopes), *values = mp_alloc(points * sizeof *values);
    double rises = 0;
    for (size_t i = 0; i < points; i++) {
        size_t from = point(i, points, count);
        values[i] = at[from];
        for (size_t k = i + 1; k < points; k++) {
            size_t to = point(k, points, count);
            double change = (double)at[to] - (double)at[from];
            rises += (change > 0) - (change < 0);
            slopes[pairs++] = change / (double)(to - from);
        }
    }
    qsort(values, points, sizeof *values, by_size);
    qsort(slopes, pairs, sizeof *slopes, by_size);
    double spread = variance(values, points);
    trend->slope = slopes[pairs / 2];
    if (spread > 0) trend->z = (rises - (rises > 0) + (rises < 0)) / sqrt(spread);
    free(slopes);
    free(values);
}

/* Numbers of blocks over the boundaries 0 to `last`. */
struct series {
    uint32_t last;
    uint32_t *live;   /* blocks */
    uint32_t *births; /* distinct steps in which the blocks were born */
};

/* The staying blocks: the distinct birth steps of the blocks that live at the last boundary and are older than their
 * site's blocks usually get. */
struct stay {
    MP_VEC(uint32_t) births;
    uint32_t end; /* births before this one count */
};

static bool lives_at(const struct mp_leak_life *life, uint32_t boundary)
{
    return life->birth < boundary && life->death >= boundary;
}

/* The age of that rank among the lives that ended before `last`; rank 0 is the youngest. We find it digit by digit,
 * which needs neither a counter for each step nor sorted lives. */
static uint32_t age_of_rank(const struct mp_leak_life *lives, size_t count, uint32_t last, size_t rank)
{
    enum { BITS = 8, DIGITS = 1 << BITS };
    unsigned shift = 32 - BITS;
    uint32_t age = 0;
    while (shift && !(last >> shift))
        shift -= BITS;
    for (;; shift -= BITS) {
        size_t with[DIGITS] = {0};
        uint32_t digit = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t own = lives[i].death - lives[i].birth;
            if (lives[i].death < last && own >> shift >> BITS == age >> shift >> BITS)
                with[own >> shift & (DIGITS - 1)]++;
        }
        while (digit < DIGITS - 1 && rank >= with[digit])
            rank -= with[digit++];
        age |= digit << shift;
        if (!shift) return age;
    }
}

/* The blocks freed before `last`, but for one in MP_LEAK_EXCEPTIONS, did not exceed this age; `else_age` if fewer than
 * MP_LEAK_OLD were freed. */
static uint32_t age_of_nearly_all(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t else_age)
{
    size_t freed = 0;
    for (size_t i = 0; i < count; i++)
        freed += lives[i].death < last;
    return freed < MP_LEAK_OLD ? else_age : age_of_rank(lives, count, last, freed - freed / MP_LEAK_EXCEPTIONS - 1);
}

bool mp_leak_is_backlog(const struct mp_leak_life *lives, size_t count, uint32_t last)
{
    uint32_t freed = 0, kept = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        uint32_t birth = lives[i].birth;
        if (lives[i].death < last && birth > freed) freed = birth;
        if (lives[i].death >= last && birth < kept) kept = birth;
    }
    if (freed > kept) return false;
    uint32_t early = age_of_nearly_all(lives, count, last / 2, UINT32_MAX / 2);
    return age_of_nearly_all(lives, count, last, 0) > MP_LEAK_BACKLOG * early + 1;
}

uint32_t mp_leak_usual_age(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t else_age)
{
    return mp_leak_is_backlog(lives, count, last) ? 0 : age_of_nearly_all(lives, count, last, else_age);
}

int mp_leak_life_by_site(const void *left, const void *right)
{
    const struct mp_leak_life *a = left, *b = right;
    if (a->site != b->site) return a->site < b->site ? -1 : 1;
    return a->birth < b->birth ? -1 : a->birth > b->birth;
}

MP_ORDER(ascending, uint32_t, MP_COMPARE(*a, *b))

/* Each site has its own usual age: one line may make blocks that live for twenty steps, another blocks that stay. */
static void find_stay(const struct mp_leak_life *lives, size_t count, uint32_t last, struct stay *stay)
{
    struct mp_leak_life *sorted = mp_alloc((count + 1) * sizeof *sorted);
    uint32_t usual = mp_leak_usual_age(lives, count, last, 0), distinct = 0;
    if (count) memcpy(sorted, lives, count * sizeof *sorted);
    if (count) qsort(sorted, count, sizeof *sorted, mp_leak_life_by_site);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && sorted[end].site == sorted[i].site;)
            end++;
        uint32_t age = mp_leak_usual_age(sorted + i, end - i, last, end - i < MP_LEAK_BIRTHS ? usual : 0);
        uint32_t until = age < last ? last - age : 0;
        for (size_t k = i; k < end && sorted[k].birth < until; k++) {
            if (!lives_at(&sorted[k], last)) continue;
            mp_vec_add(&stay->births, sorted[k].birth);
            if (until > stay->end) stay->end = until;
        }
    }
    if (stay->births.count) qsort(stay->births.at, stay->births.count, sizeof *stay->births.at, ascending);
    for (size_t i = 0; i < stay->births.count; i++)
        if (!distinct || stay->births.at[distinct - 1] != stay->births.at[i])
            stay->births.at[distinct++] = stay->births.at[i];
    stay->births.count = distinct;
    free(sorted);
}

static void add_life(uint32_t *change, uint32_t birth, uint32_t death, uint32_t last)
{
    change[birth + 1]++;
    change[death < last ? death + 1 : last + 1]--; /* may wrap around; so does the sum, which is right again */
}

static void make_series(const struct mp_leak_life *lives, size_t count, uint32_t last, struct series *series)
{
    *series = (struct series){.last = last};
    series->live = mp_alloc_zeroed((size_t)last + 2, sizeof *series->live);
    series->births = mp_alloc_zeroed((size_t)last + 2, sizeof *series->births);
    for (size_t i = 0, end; i < count; i = end) {
        uint32_t longest = lives[i].death;
        for (end = i; end < count && lives[end].birth == lives[i].birth; end++) {
            add_life(series->live, lives[end].birth, lives[end].death, last);
            if (lives[end].death > longest) longest = lives[end].death;
        }
        add_life(series->births, lives[i].birth, longest, last);
    }
    for (uint32_t k = 1; k <= last; k++) {
        series->live[k] += series->live[k - 1];
        series->births[k] += series->births[k - 1];
    }
}

/* True if blocks were freed earlier, and the growth since then does not clearly exceed the level before that. */
static bool only_refills(const struct series *series, bool *sawtooth)
{
    uint32_t highest = 0, before = 0;
    *sawtooth = false;
    for (uint32_t k = 0; k <= series->last; k++) {
        if (series->births[k] > highest) highest = series->births[k];
        if (highest < MP_LEAK_SUSPECT_BIRTHS || series->births[k] * 2 > highest) continue;
        before = highest;
        *sawtooth = true;
    }
    return *sawtooth && series->births[series->last] < before + before / 2 + MP_LEAK_SUSPECT_BIRTHS;
}

/* True if the time since the last birth is exceptional compared with the time between births. */
static bool has_stopped(const struct stay *stay)
{
    const uint32_t *at = stay->births.at;
    size_t count = stay->births.count;
    uint32_t widest = 0;
    for (size_t i = 1; i < count; i++)
        if (at[i] - at[i - 1] > widest) widest = at[i] - at[i - 1];
    return stay->end - at[count - 1] > MP_LEAK_STOPPED * widest + 1;
}

/* True if the later half of the steps had less than half of the births of the earlier half, and chance does not explain
 * that. */
static bool slows_down(const struct series *series, const struct stay *stay)
{
    uint32_t first = stay->births.at[0], middle = first + (series->last - first) / 2;
    double earlier = (double)series->births[middle] - series->births[first];
    double later = (double)series->births[series->last] - series->births[middle];
    return later <= 0 || later + MP_LEAK_SLOWER_ERRORS * sqrt(later + 1) + 1 < 0.5 * earlier;
}

static bool any_old_freed(const struct mp_leak_life *lives, size_t count, uint32_t last)
{
    for (size_t i = 0; i < count; i++)
        if (lives[i].death < last && lives[i].death - lives[i].birth >= MP_LEAK_OLD) return true;
    return false;
}

/* The time since the place had a new maximum of blocks, and the longest time between two new maxima. A container that
 * fills up, and then drops one block for each new one, never has a new maximum again. */
static uint32_t since_highest(const struct series *series, uint32_t first, uint32_t *widest)
{
    uint32_t highest = series->live[first], when = first, times = 0;
    *widest = 0;
    for (uint32_t k = first + 1; k <= series->last; k++) {
        if (series->live[k] <= highest) continue;
        if (times++ && k - when > *widest) *widest = k - when;
        highest = series->live[k];
        when = k;
    }
    return times < MP_LEAK_SUSPECT_BIRTHS ? 0 : series->last - when;
}

/* Growth of a place that was full before the recording's end is bounded. MP_GROWTH_PAUSED: the time is too short to
 * decide. */
static enum mp_leak_growth unless_full(const struct series *series, uint32_t first)
{
    uint32_t widest, pause = since_highest(series, first, &widest);
    if (pause > MP_LEAK_STOPPED * widest + 1) return MP_GROWTH_NONE;
    return pause > MP_LEAK_PAUSED * widest ? MP_GROWTH_PAUSED : MP_GROWTH_LEAK;
}

static void judge_growth(const struct mp_leak_life *lives, size_t count, const struct series *series,
                         const struct stay *stay, struct mp_leak_evidence *evidence)
{
    uint32_t first = evidence->first;
    struct mp_trend trend;
    mp_trend_find(series->live + first, series->last - first + 1, &trend);
    evidence->z = trend.z;
    evidence->none_freed = !any_old_freed(lives, count, series->last);
    bool refills = only_refills(series, &evidence->sawtooth);
    bool rises = trend.slope > 0 && trend.z > MP_LEAK_SIGNIFICANT;
    size_t births = stay->births.count;
    if (refills || has_stopped(stay) || slows_down(series, stay)) return;
    enum mp_leak_growth growth = unless_full(series, first);
    if (growth == MP_GROWTH_NONE) return;
    if (births >= MP_LEAK_BIRTHS && rises)
        evidence->growth = growth;
    else if (births < MP_LEAK_BIRTHS && trend.slope > 0)
        evidence->growth = (series->last - first) * 2 >= series->last ? MP_GROWTH_FEW : MP_GROWTH_ONCE;
}

/* True if a staying block born after the warm-up is old. */
static bool any_old(const struct stay *stay, uint32_t last)
{
    for (size_t i = 0; i < stay->births.count; i++)
        if (stay->births.at[i] >= MP_LEAK_WARM_UP && last - stay->births.at[i] > MP_LEAK_OLD) return true;
    return false;
}

/* True if the live blocks were born in few steps. If blocks are replaced now and then, the live ones come from more. */
static bool is_all(const struct mp_leak_life *lives, size_t count, uint32_t last)
{
    uint32_t births = 0, birth = 0;
    for (size_t i = 0; i < count; i++) {
        if (!lives_at(&lives[i], last)) continue;
        births += !births || lives[i].birth != birth;
        birth = lives[i].birth;
    }
    return births < MP_LEAK_SUSPECT_BIRTHS;
}

void mp_leak_judge(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_evidence *evidence)
{
    struct stay stay = {0};
    struct series series = {0};
    *evidence = (struct mp_leak_evidence){0};
    find_stay(lives, count, last, &stay);
    if (stay.births.count) {
        evidence->births = (uint32_t)stay.births.count;
        evidence->first = stay.births.at[0];
        evidence->last = stay.births.at[stay.births.count - 1];
        if (stay.births.count < MP_LEAK_SUSPECT_BIRTHS && any_old(&stay, last) && is_all(lives, count, last) &&
            (last - evidence->last > MP_LEAK_OLD || !any_old_freed(lives, count, last)))
            evidence->growth = MP_GROWTH_ONCE;
    }
    if (stay.births.count >= MP_LEAK_SUSPECT_BIRTHS) {
        make_series(lives, count, last, &series);
        judge_growth(lives, count, &series, &stay, evidence);
    }
    free(series.live);
    free(series.births);
    mp_vec_free(&stay.births);
}
