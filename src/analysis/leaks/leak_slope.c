#include "analysis/leaks/leak_slope.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define FEW_STEPS   3 /* blocks that came in no more steps are no growth */
#define LATE_MIN    2 /* nor those that came in fewer of the later half */
#define OUT_OF_LINE 8
#define MUCH_MORE   2   /* times the median */
#define LACKS_ONE   1.5 /* times the usual pause between amounts */
#define LACKS_MORE  2.75

struct amount {
    uint64_t bytes, blocks;
};

/* By the step of birth: the regular amounts of each size, and the rest. */
struct births {
    struct amount *regular, *odd;
    uint32_t steps, middle; /* the later half begins after it */
};

/* A step with new blocks that stay. */
struct stay {
    uint32_t blocks, birth;
};

static struct births make_births(uint32_t steps, uint32_t middle)
{
    return (struct births){mp_alloc_zeroed(steps, sizeof(struct amount)), mp_alloc_zeroed(steps, sizeof(struct amount)),
                           steps, middle};
}

static void free_births(struct births *births)
{
    free(births->regular);
    free(births->odd);
}

static int by_site_and_size(const void *left, const void *right)
{
    const struct mp_leak_life *a = left, *b = right;
    if (a->site != b->site) return a->site < b->site ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->birth < b->birth ? -1 : a->birth > b->birth;
}

static int by_blocks(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    return a->blocks < b->blocks ? -1 : a->blocks > b->blocks;
}

static void add(struct amount *amount, const struct amount *more)
{
    amount->blocks += more->blocks;
    amount->bytes += more->bytes;
}

/* Blocks of one site and size, in order of birth; those born before `end` count. `stays` has room for the steps. */
static void add_size(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t end, struct stay *stays,
                     struct births *births)
{
    uint32_t steps = 0, late = 0;
    for (size_t i = 0; i < count && lives[i].birth < end; i++) {
        if (lives[i].death < last) continue;
        if (!steps || stays[steps - 1].birth != lives[i].birth) stays[steps++] = (struct stay){0, lives[i].birth};
        stays[steps - 1].blocks++;
    }
    for (uint32_t i = 0; i < steps; i++)
        late += stays[i].birth > births->middle;
    if (steps) qsort(stays, steps, sizeof *stays, by_blocks);
    uint32_t median = steps > FEW_STEPS && late >= LATE_MIN ? stays[steps / 2].blocks : 0;
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t blocks = stays[i].blocks, usual = blocks < median ? blocks : median;
        add(&births->regular[stays[i].birth], &(struct amount){usual * lives[0].bytes, usual});
        add(&births->odd[stays[i].birth], &(struct amount){(blocks - usual) * lives[0].bytes, blocks - usual});
    }
}

static uint32_t count_steps(const struct amount *amounts, uint32_t from, uint32_t steps)
{
    uint32_t count = 0;
    for (uint32_t k = from; k < steps; k++)
        count += amounts[k].blocks > 0;
    return count;
}

static int by_bytes(const void *left, const void *right)
{
    const struct amount *a = left, *b = right;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* The limit of usual amounts of odd sizes: more is many times the median, in one or two steps alone. */
static uint64_t most_usual(const struct births *births, uint32_t count)
{
    struct amount *sorted = mp_alloc(births->steps * sizeof *sorted);
    memcpy(sorted, births->odd, births->steps * sizeof *sorted);
    qsort(sorted, births->steps, sizeof *sorted, by_bytes);
    uint64_t most = OUT_OF_LINE * sorted[births->steps - (count + 1) / 2].bytes;
    if (sorted[births->steps - FEW_STEPS - 1].bytes > most) most = UINT64_MAX;
    free(sorted);
    return most;
}

/* Blocks that keep coming, even of odd sizes, are growth; exceptional amounts are not. */
static void take_odd_growth(struct births *births)
{
    uint32_t count = count_steps(births->odd, 0, births->steps);
    if (count <= FEW_STEPS || count_steps(births->odd, births->middle + 1, births->steps) <= LATE_MIN) return;
    uint64_t most = most_usual(births, count);
    for (uint32_t k = 0; k < births->steps; k++) {
        if (births->odd[k].bytes > most) continue;
        add(&births->regular[k], &births->odd[k]);
        births->odd[k] = (struct amount){0};
    }
}

/* The least amount that comes in half of the steps with some. */
static uint64_t median_bytes(const struct births *births, uint32_t count)
{
    struct amount *sorted = mp_alloc(births->steps * sizeof *sorted);
    memcpy(sorted, births->regular, births->steps * sizeof *sorted);
    qsort(sorted, births->steps, sizeof *sorted, by_bytes);
    uint64_t median = sorted[births->steps - (count + 1) / 2].bytes;
    free(sorted);
    return median;
}

/* Whether what came beside the regular amount of step `at` may be one more of these, of a step before or after it. */
static bool is_one_more(const struct births *births, uint32_t at)
{
    return births->odd[at].blocks && births->odd[at].bytes <= births->regular[at].bytes;
}

/* A few amounts of other sizes, each where one of the regular amounts is missing, stand for these: rows that sometimes
 * are one less, texts of a rare length. So does a second regular amount of the step before or after, which a thread
 * brought that is sometimes faster or slower than the one that ends the steps: 1 1 0 2 1. What else came beside a
 * regular amount, or is much more, does not. */
static void take_substitutes(struct births *births)
{
    uint32_t count = count_steps(births->regular, 0, births->steps), first = 0, last = births->steps;
    if (count <= FEW_STEPS) return;
    while (!births->regular[first].blocks)
        first++;
    while (!births->regular[last - 1].blocks)
        last--;
    uint64_t most = MUCH_MORE * median_bytes(births, count);
    double usual = (double)(last - 1 - first) / (count - 1);
    for (uint32_t before = first, next; before + 1 < last; before = next) {
        uint32_t others = 0, other = 0;
        for (next = before + 1; !births->regular[next].blocks; next++) {
            if (!births->odd[next].blocks) continue;
            others++;
            other = next;
        }
        uint32_t pause = next - before;
        if (pause < LACKS_ONE * usual || pause > LACKS_MORE * usual) continue;
        if (!others && is_one_more(births, next)) {
            add(&births->regular[next], &births->odd[next]);
            births->odd[next] = (struct amount){0};
        } else if (!others && is_one_more(births, before)) {
            add(&births->regular[before], &births->odd[before]);
            births->odd[before] = (struct amount){0};
        }
        if (others != 1 || births->odd[other].bytes > most) continue;
        births->regular[other] = births->odd[other];
        births->odd[other] = (struct amount){0};
    }
}

/* Takes one site's blocks by size and birth. Sites that grow give the place's regular amounts and the rest; `once` gets
 * all of the others. Returns the bytes of its growth. */
static uint64_t add_site(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t usual_age,
                         struct births *place, struct amount *once)
{
    struct births births = make_births(place->steps, place->middle);
    struct stay *stays = mp_alloc((size_t)place->steps * sizeof *stays);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && lives[end].bytes == lives[i].bytes;)
            end++;
        uint32_t age = mp_leak_usual_age(lives + i, end - i, last, end - i < MP_LEAK_BIRTHS ? usual_age : 0);
        add_size(lives + i, end - i, last, age < last ? last - age : 0, stays, &births);
    }
    take_odd_growth(&births);
    take_substitutes(&births);
    bool grows = count_steps(births.regular, 0, births.steps);
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < births.steps; k++) {
        bytes += births.regular[k].bytes;
        add(&place->regular[k], &births.regular[k]);
        add(grows ? &place->odd[k] : &once[k], &births.odd[k]);
    }
    free(stays);
    free_births(&births);
    return bytes;
}

/* The growth may also begin after a step that brought something else, part of which may look like growth. */
static void leave_beginning_out(struct births *births)
{
    uint32_t first = 0;
    while (first < births->steps && !births->regular[first].blocks)
        first++;
    if (first == births->steps || !births->odd[first].blocks) return;
    if (count_steps(births->regular, first, births->steps) <= MP_LEAK_BIRTHS) return;
    births->regular[first] = (struct amount){0};
}

/* The last step's amount would need the time after it. */
static void sum_up(const struct births *births, struct mp_leak_slope *slope)
{
    double bytes = 0, blocks = 0;
    for (uint32_t k = 0; k < births->steps; k++) {
        const struct amount *amount = &births->regular[k];
        if (!amount->blocks) continue;
        if (!slope->births++) slope->first = k;
        slope->last = k;
        slope->bytes += amount->bytes;
        slope->blocks += amount->blocks;
    }
    if (slope->last == slope->first) return;
    for (uint32_t k = slope->first; k < slope->last; k++) {
        bytes += (double)births->regular[k].bytes;
        blocks += (double)births->regular[k].blocks;
    }
    slope->bytes_per_step = bytes / (slope->last - slope->first);
    slope->blocks_per_step = blocks / (slope->last - slope->first);
}

void mp_leak_slope_find(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_slope *slope)
{
    *slope = (struct mp_leak_slope){0};
    size_t first = 0;
    while (first < count && lives[first].death < last)
        first++;
    if (first == count) return;
    struct births births = make_births(last + 1, lives[first].birth + (last - lives[first].birth) / 2);
    struct amount *once = mp_alloc_zeroed((size_t)last + 1, sizeof *once);
    struct mp_leak_life *sorted = mp_alloc(count * sizeof *sorted);
    memcpy(sorted, lives, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_site_and_size);
    uint32_t usual_age = mp_leak_usual_age(lives, count, last, 0);
    uint64_t most = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && sorted[end].site == sorted[i].site;)
            end++;
        uint64_t bytes = add_site(sorted + i, end - i, last, usual_age, &births, once);
        if (bytes > most) slope->site = sorted[i].site;
        if (bytes > most) most = bytes;
    }
    leave_beginning_out(&births);
    bool grows = count_steps(births.regular, 0, births.steps);
    for (uint32_t k = 0; !grows && k <= last; k++) /* then all amounts count */
        births.regular[k] = once[k];
    sum_up(&births, slope);
    free(sorted);
    free(once);
    free_births(&births);
}
