/* Steps of one name, and regions, as groups. Pure. */
#pragma once

#include "analysis/sites/groups.h"
#include "analysis/sites/steps.h"
#include "model/model.h"

/* Finds the groups for the steps of a report. The result is the caller's. */
void mp_step_groups_find(const struct mp_model *model, const struct mp_step_report *report,
                         const struct mp_grouping *grouping, struct mp_step_groups *groups);
void mp_step_groups_free(struct mp_step_groups *groups);
