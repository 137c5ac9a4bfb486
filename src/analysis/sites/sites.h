/*
 * Live blocks by site or by another group, sorted: the table in every report. Pure.
 */
#pragma once

#include "analysis/sites/groups.h"
#include "analysis/sites/live.h"
#include "analysis/sites/site.h"
#include "model/spans.h"

/* Sites of different tracks are never merged. `steps` must be the model's. */
void mp_sites_make(const struct mp_model *model, const struct mp_live_blocks *live, const struct mp_steps *steps,
                   const struct mp_grouping *grouping, struct mp_sites *sites);
/* Sites at the track's peak before the recording's first event (mp_model.past_sites). */
void mp_sites_of_past(const struct mp_model *model, uint16_t track, const struct mp_grouping *grouping,
                      struct mp_sites *sites);
void mp_sites_sort(struct mp_sites *sites, enum mp_sort_by sort);
void mp_sites_free(struct mp_sites *sites);
