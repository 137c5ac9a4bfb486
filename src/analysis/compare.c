#include "analysis/compare.h"

#include <stdlib.h>

static uint64_t size_of(int64_t delta)
{
    return delta < 0 ? -(uint64_t)delta : (uint64_t)delta;
}

static int by_change(const void *left, const void *right, void *context)
{
    const struct mp_flames *flames = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t first = size_of(mp_compare_delta(&flames->flames.at[a])),
             second = size_of(mp_compare_delta(&flames->flames.at[b]));
    if (first != second) return first > second ? -1 : 1;
    return a < b ? -1 : a > b;
}

static enum mp_status add_side(const struct mp_compare_query *query, enum mp_flame_side side,
                               struct mp_compare *compare, struct mp_error *error)
{
    struct mp_profile profile;
    enum mp_status status = mp_profile_make(query->models[side], &query->asks[side], &profile, error);
    if (status) return status;
    for (int sense = 0; sense < MP_PROFILE_SENSES; sense++)
        compare->sums[side][sense] = profile.sums[sense];
    status = mp_flames_add(&compare->flames, side, query->models[side], &profile, query->sense, error);
    mp_profile_free(&profile);
    return status;
}

enum mp_status mp_compare_make(const struct mp_compare_query *query, struct mp_compare *compare, struct mp_error *error)
{
    *compare = (struct mp_compare){0};
    enum mp_status status = add_side(query, MP_BEFORE, compare, error);
    if (!status) status = add_side(query, MP_AFTER, compare, error);
    size_t count = compare->flames.flames.count;
    if (!status && !(compare->order = malloc((count + 1) * sizeof *compare->order)))
        status = mp_fail(error, MP_NO_MEMORY, "not enough memory to compare the recordings");
    if (status) {
        mp_compare_free(compare);
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        compare->order[i] = i;
    qsort_r(compare->order, count, sizeof *compare->order, by_change, &compare->flames);
    return MP_OK;
}

void mp_compare_free(struct mp_compare *compare)
{
    mp_flames_free(&compare->flames);
    free(compare->order);
    compare->order = NULL;
}

bool mp_compare_grew(uint64_t before, uint64_t after, uint64_t bytes, double percent)
{
    if (after <= before) return false;
    if (percent >= 0) return (double)(after - before) > (double)before * percent / 100;
    return after - before > bytes;
}
