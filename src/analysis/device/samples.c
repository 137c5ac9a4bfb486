#include "analysis/device/samples.h"

void mp_samples_sum(const struct mp_model *model, struct mp_sampled_list *list)
{
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        size_t at = 0;
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
