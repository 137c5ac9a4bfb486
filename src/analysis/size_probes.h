/* Whether recordings can answer a question about sizes, and what is wrong where they cannot. Pure. */
#ifndef MP_ANALYSIS_SIZE_PROBES_H
#define MP_ANALYSIS_SIZE_PROBES_H

#include "analysis/size.h"
#include "analysis/size_plan.h"

/* Each alone: whole, not failed, of different values, with the track that is asked for (into sources). */
enum mp_status mp_size_probes_check(const struct mp_size_probe *const *probes, const struct mp_size_question *question,
                                    struct mp_size_source *sources, struct mp_error *error);
/* Whether memory depends on the variables, and rises with them. */
enum mp_status mp_size_probes_answer(const struct mp_size_probe *const *probes, const struct mp_size_answer *answer,
                                     const struct mp_size_plan *plan, struct mp_error *error);

#endif
