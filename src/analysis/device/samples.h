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

/* The begin of the names of counters that the shim's census makes, which count objects and entries, not bytes. */
#define MP_CENSUS "python/"

bool mp_sample_is_of_census(const struct mp_model *model, const struct mp_sample *sample);
/* Without those of the census. */
void mp_samples_sum(const struct mp_model *model, struct mp_sampled_list *list);
void mp_samples_free(struct mp_sampled_list *list);
