#include "analysis/device/samples.h"

#include <string.h>

bool mp_sample_is_of_census(const struct mp_model *model, const struct mp_sample *sample)
{
    return !strncmp(mp_model_text(model, sample->counter), MP_CENSUS, sizeof MP_CENSUS - 1);
}

void mp_samples_sum(const struct mp_model *model, struct mp_sampled_list *list)
{
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        size_t at = 0;
        if (mp_sample_is_of_census(model, sample)) continue;
        while (at < list->count && list->at[at].counter != sample->counter)
            at++;
        struct mp_sampled fresh = {.counter = sample->counter};
        if (at == list->count) mp_vec_add(list, fresh);
        struct mp_sampled *entry = &list->at[at];
        entry->end_bytes = sample->value;
        if (sample->value <= entry->peak_bytes) continue;
        entry->peak_bytes = sample->value;
        entry->peak_ns = sample->time_ns;
    }
}

void mp_samples_free(struct mp_sampled_list *list)
{
    mp_vec_free(list);
}
