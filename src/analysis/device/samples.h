/* Sampled counters: their highest and last values. Pure; the result is the caller's. */
#pragma once

#include "model/model.h"

struct mp_sampled {
    uint32_t counter; /* string id */
    uint64_t peak_bytes, peak_ns, end_bytes;
};

struct mp_sampled_list {
    struct mp_sampled *at; /* in order of first appearance */
    size_t count, room;
};

void mp_samples_sum(const struct mp_model *model, struct mp_sampled_list *list);
void mp_samples_free(struct mp_sampled_list *list);
