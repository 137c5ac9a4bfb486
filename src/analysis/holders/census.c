#include "analysis/holders/census.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/device/samples.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/steps_infer.h"

#define GROWN 100 /* objects or entries, or KiB; fewer are no answer */

static const struct {
    const char *begin;
    uint64_t unit, large; /* shown even if it does not grow; 0: never */
} counters[] = {
    [MP_CENSUS_OBJECTS] = {MP_CENSUS "objects/", 1, 0},
    [MP_CENSUS_ENTRIES] = {MP_CENSUS "entries/", 1, MP_CENSUS_LONG},
    [MP_CENSUS_BYTES] = {MP_CENSUS "KiB/", 1024, UINT64_C(64) << 20},
};

MP_ORDER(by_growth, struct mp_census_row,
         MP_COMPARE(b->what == MP_CENSUS_BYTES, a->what == MP_CENSUS_BYTES) ?: MP_COMPARE(b->last - b->first, a->last - a->first) ?: MP_FALLING(last) ?: strcmp(a->name, b->name))

static double step_at(const struct mp_steps *steps, uint64_t time_ns)
{
    size_t passed = 0;
    while (passed < steps->count && steps->at[passed].start_ns <= time_ns)
        passed++;
    return (double)passed * (steps->each > 1 ? steps->each : 1);
}

/* Follows one counter. False: it neither grows nor is long. */
static bool follow(const struct mp_model *model, const struct mp_steps *steps, uint32_t counter,
                   struct mp_census_row *row)
{
    uint64_t before = 0, from_ns = 0, unit = counters[row->what].unit, large = counters[row->what].large;
    uint64_t half = 0; /* at half of the looks: a ring that is full since then does not grow */
    uint32_t falls = 0, looks = 0;
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        looks += sample->counter == counter;
    }
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        if (sample->counter != counter) continue;
        if (!row->looks++) {
            row->first = sample->value * unit;
            from_ns = sample->time_ns;
        }
        falls += row->looks > 1 && sample->value * unit < before;
        row->last = before = sample->value * unit;
        if (row->looks <= looks / 2) half = row->last;
        row->steps = step_at(steps, sample->time_ns) - step_at(steps, from_ns);
    }
    bool grows = !falls && row->last > half && row->last >= row->first + GROWN * unit &&
                 row->last - row->first >= row->first / 8;
    if (!grows) row->first = row->last;
    return grows || (large && row->last >= large);
}

void mp_census_find(const struct mp_model *model, struct mp_census *census)
{
    struct mp_steps steps = {0};
    unsigned char *known = mp_alloc_zeroed((size_t)model->strings.count + 1, 1);
    *census = (struct mp_census){0};
    mp_steps_find(model, &steps);
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        const char *name = mp_model_text(model, sample->counter);
        if (known[sample->counter] || !mp_sample_is_of_census(model, sample)) continue;
        known[sample->counter] = 1;
        struct mp_census_row row = {.what = MP_CENSUS_BYTES};
        while (row.what > MP_CENSUS_OBJECTS &&
               strncmp(name, counters[row.what].begin, strlen(counters[row.what].begin)) != 0)
            row.what--;
        row.name = name + strlen(counters[row.what].begin);
        if (follow(model, &steps, sample->counter, &row)) mp_vec_add(census, row);
    }
    if (census->count) qsort(census->at, census->count, sizeof *census->at, by_growth);
    mp_steps_free(&steps);
    free(known);
}

void mp_census_free(struct mp_census *census)
{
    mp_vec_free(census);
}
