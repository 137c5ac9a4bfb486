#include "analysis/advise/alignment.h"

#define LOOK_AHEAD 256 /* allocations that only one of the two steps has */

/* A module that is called for the first time may lack its name; batches may differ in size. */
static bool is_same(const struct mp_step_block *first, const struct mp_step_block *later)
{
    return first->stack == later->stack && (!first->module || !later->module || first->module == later->module) &&
           (!first->fixed || first->bytes == later->bytes);
}

void mp_steps_align(const struct mp_step_block *first, size_t first_count, const struct mp_step_block *later,
                    size_t later_count, size_t *to)
{
    size_t i = 0, k = 0;
    while (i < first_count && k < later_count) {
        size_t skip = 0;
        bool of_first = false, of_later = false;
        for (; skip < LOOK_AHEAD && !of_first && !of_later; skip++) {
            of_first = i + skip < first_count && is_same(&first[i + skip], &later[k]);
            of_later = !of_first && k + skip < later_count && is_same(&first[i], &later[k + skip]);
        }
        for (size_t end = of_first ? i + skip - 1 : of_later ? i : i + 1; i < end;)
            to[i++] = SIZE_MAX;
        if (of_later) k += skip - 1;
        if (of_first || of_later) to[i++] = k;
        k++;
    }
    while (i < first_count)
        to[i++] = SIZE_MAX;
}
