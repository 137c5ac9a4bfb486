#include "analysis/holders/census.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/device/samples.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/steps_infer.h"

#define OBJECTS MP_CENSUS "objects/"
#define ENTRIES MP_CENSUS "entries/"
#define GROWN   100 /* objects or entries; fewer are no answer */

MP_ORDER(by_growth, struct mp_census_row,
         MP_COMPARE(b->last - b->first, a->last - a->first) ?: MP_FALLING(last) ?: strcmp(a->name, b->name))

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
    uint64_t before = 0, from_ns = 0;
    uint32_t falls = 0;
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        if (sample->counter != counter) continue;
        if (!row->looks++) {
            row->first = sample->value;
            from_ns = sample->time_ns;
        }
        falls += row->looks > 1 && sample->value < before;
        row->last = before = sample->value;
        row->steps = step_at(steps, sample->time_ns) - step_at(steps, from_ns);
    }
    bool grows = !falls && row->last >= row->first + GROWN && row->last - row->first >= row->first / 8;
    if (!grows) row->first = row->last;
    return grows || (row->entries && row->last >= MP_CENSUS_LONG);
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
        bool entries = !strncmp(name, ENTRIES, sizeof ENTRIES - 1);
        struct mp_census_row row = {.name = name + (entries ? sizeof ENTRIES : sizeof OBJECTS) - 1, .entries = entries};
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
