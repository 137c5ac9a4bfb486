#include "analysis/leaks/leak_slope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/vec.h"

/* The blocks that a step made and that stay. */
struct amount {
    uint32_t step;
    uint64_t bytes, blocks;
};

struct series {
    MP_VEC(struct amount) at; /* in order of steps */
};

struct place {
    struct amount *regular, *once; /* by step: blocks of sites that grow; blocks of other sites */
    uint32_t last, middle;         /* the later half begins after `middle` */
    uint32_t usual_age;
};

MP_ORDER(by_bytes, struct amount, MP_RISING(bytes) ?: MP_RISING(blocks))

/* Adds an amount to the series' last one if both are from the same step. */
static void append(struct series *series, const struct amount *amount)
{
    struct amount *last = series->at.count ? &series->at.at[series->at.count - 1] : NULL;
    if (!last || last->step != amount->step) {
        mp_vec_add(&series->at, *amount);
        return;
    }
    last->bytes += amount->bytes;
    last->blocks += amount->blocks;
}

static void sum_by_step(const struct series *series, struct amount *steps)
{
    for (size_t i = 0; i < series->at.count; i++) {
        steps[series->at.at[i].step].bytes += series->at.at[i].bytes;
        steps[series->at.at[i].step].blocks += series->at.at[i].blocks;
    }
}

static bool is_growth(const struct series *series, const struct place *place)
{
    size_t late = 0;
    for (size_t i = 0; i < series->at.count; i++)
        late += series->at.at[i].step > place->middle;
    return series->at.count > MP_LEAK_FEW_STEPS && late >= MP_LEAK_LATE_MIN;
}

/* Adds a site's amounts to the place's growth. Exceptional amounts count as the median. Returns the bytes. */
static uint64_t add_growth(struct series *series, struct place *place)
{
    size_t count = series->at.count;
    uint64_t bytes = 0;
    struct amount *sorted = mp_alloc(count * sizeof *sorted);
    memcpy(sorted, series->at.at, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_bytes);
    struct amount median = sorted[count / 2], most = sorted[count - 1 - MP_LEAK_FEW_STEPS];
    for (size_t i = 0; i < count; i++) {
        struct amount *amount = &series->at.at[i];
        if (most.bytes ? amount->bytes >= 2 * most.bytes : amount->blocks >= 2 * most.blocks)
            *amount = (struct amount){amount->step, median.bytes, median.blocks};
        bytes += amount->bytes;
    }
    sum_by_step(series, place->regular);
    free(sorted);
    return bytes;
}

/* `lives` are those of one site, by birth. Returns the bytes of its growth. */
static uint64_t add_site(const struct mp_leak_life *lives, size_t count, struct place *place)
{
    struct series series = {0};
    uint64_t bytes = 0;
    uint32_t age = mp_leak_usual_age(lives, count, place->last, count < MP_LEAK_BIRTHS ? place->usual_age : 0);
    for (size_t i = 0; i < count && lives[i].birth + age < place->last; i++)
        if (lives[i].death >= place->last) append(&series, &(struct amount){lives[i].birth, lives[i].bytes, 1});
    if (is_growth(&series, place))
        bytes = add_growth(&series, place);
    else
        sum_by_step(&series, place->once);
    mp_vec_free(&series.at);
    return bytes;
}

/* True if the straight line through the amounts is far from the mean of one of their MP_LEAK_OFF_PARTS parts. `mean` is
 * the line's middle. Differences between neighbours show how much of the distance is chance. */
static bool is_off(const uint64_t *bytes, uint32_t count, double mean, double change)
{
    double squares = 0;
    for (uint32_t k = 1; k < count; k++)
        squares += pow((double)bytes[k] - (double)bytes[k - 1] - change, 2);
    double chance = sqrt(squares / 2 / (count - 1));
    for (uint32_t part = 0; part < MP_LEAK_OFF_PARTS; part++) {
        uint32_t from = count * part / MP_LEAK_OFF_PARTS, to = count * (part + 1) / MP_LEAK_OFF_PARTS;
        double off = 0;
        for (uint32_t k = from; k < to; k++)
            off += (double)bytes[k] - mean - change * (k - (count - 1) / 2.0);
        if (fabs(off) > (to - from) * MP_LEAK_OFF_PART * mean + 2 * chance * sqrt(to - from)) return true;
    }
    return false;
}

void mp_leak_slope_change(const uint64_t *bytes, uint32_t count, struct mp_leak_slope *slope)
{
    double n = count, mean = 0, products = 0, squares = 0;
    if (count < MP_LEAK_OFF_PARTS) return;
    for (uint32_t k = 0; k < count; k++)
        mean += (double)bytes[k] / n;
    for (uint32_t k = 0; k < count; k++) {
        products += (k - (n - 1) / 2) * (double)bytes[k];
        squares += ((double)bytes[k] - mean) * ((double)bytes[k] - mean);
    }
    double spread = n * (n * n - 1) / 12, change = products / spread;
    double error = sqrt(fmax(squares - change * products, 0) / (n - 2) / spread);
    if (fabs(change) * n <= MP_LEAK_RATE_PART * mean || fabs(change) <= MP_LEAK_TRENDS * error) return;
    slope->change = change;
    slope->uneven = change < 0 || is_off(bytes, count, mean, change);
}

double mp_leak_slope_rate(const struct mp_leak_slope *slope)
{
    return slope->bytes_per_step + slope->change * (slope->last - slope->first) / 2;
}

double mp_leak_slope_at(const struct mp_leak_slope *slope, double steps)
{
    return (double)slope->bytes + mp_leak_slope_rate(slope) * steps + slope->change / 2 * steps * steps;
}

/* The last step's amount is left out, because its time is not over. */
static void sum_up(const struct amount *steps, uint32_t last, struct mp_leak_slope *slope)
{
    for (uint32_t k = 0; k < last; k++) {
        if (!steps[k].blocks) continue;
        if (!slope->births++) slope->first = k;
        slope->last = k;
        slope->bytes += steps[k].bytes;
        slope->blocks += steps[k].blocks;
    }
    if (slope->last == slope->first) return;
    double span = slope->last - slope->first;
    slope->bytes_per_step = (double)(slope->bytes - steps[slope->last].bytes) / span;
    slope->blocks_per_step = (double)(slope->blocks - steps[slope->last].blocks) / span;
    uint64_t *bytes = mp_alloc((size_t)last * sizeof *bytes);
    uint32_t every = (slope->last - slope->first) / (slope->births - 1), count = 0;
    if (every * (slope->births - 1) != slope->last - slope->first) every = 1;
    for (uint32_t k = slope->first; k < slope->last && (steps[k].blocks || every == 1); k += every)
        bytes[count++] = steps[k].bytes;
    mp_leak_slope_change(bytes, count, slope);
    slope->change /= (double)every * every;
    free(bytes);
}

/* A backlog grows from its first block on, by less than each step adds. */
static void spread(uint32_t first, struct mp_leak_slope *slope)
{
    double span = slope->last + 1.0 - first;
    slope->first = first;
    slope->bytes_per_step = (double)slope->bytes / span;
    slope->blocks_per_step = (double)slope->blocks / span;
    slope->change = 0;
    slope->uneven = false;
}

void mp_leak_slope_find(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_slope *slope)
{
    *slope = (struct mp_leak_slope){0};
    size_t first = 0;
    uint64_t most = 0;
    while (first < count && lives[first].death < last)
        first++;
    if (first == count) return;
    struct place place = {.regular = mp_alloc_zeroed((size_t)last + 1, sizeof *place.regular),
                          .once = mp_alloc_zeroed((size_t)last + 1, sizeof *place.once),
                          .last = last,
                          .middle = lives[first].birth + (last - lives[first].birth) / 2,
                          .usual_age = mp_leak_usual_age(lives, count, last, 0)};
    struct mp_leak_life *sorted = mp_alloc(count * sizeof *sorted);
    memcpy(sorted, lives, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, mp_leak_life_by_site);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && sorted[end].site == sorted[i].site;)
            end++;
        uint64_t bytes = add_site(sorted + i, end - i, &place);
        if (bytes <= most) continue;
        most = bytes;
        slope->site = sorted[i].site;
    }
    sum_up(place.regular, last, slope);
    if (!slope->births) sum_up(place.once, last, slope);
    if (mp_leak_is_backlog(lives, count, last)) spread(lives[0].birth, slope);
    free(sorted);
    free(place.regular);
    free(place.once);
}
