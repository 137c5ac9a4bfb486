/* The recordings at the probes: checks whether they can answer the question, and finds their totals. Pure. */
#pragma once

#include "analysis/sizing/size.h"
#include "analysis/sizing/size_align.h"

/* Sorts the question's probes by batch, and finds the track in each. Both arrays have MP_SIZE_PROBES_MAX members. Fails
 * with a sentence if a probe is incomplete, failed, or lacks the track. */
enum mp_status mp_size_probes_order(const struct mp_size_question *question, const struct mp_size_probe **probes,
                                    struct mp_size_source *sources, struct mp_error *error);

struct mp_size_probed mp_size_probe_describe(const struct mp_size_probe *probe, uint16_t track);
