/* `memprof frag` as text and as JSON; see view.h. */
#pragma once

#include <stdbool.h>

#include "analysis/allocator/frag.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

/* The advice as a sentence, its saving (MP_BYTES_UNKNOWN: not stated) and the evidence for it. */
struct mp_advice {
    char text[200], evidence[200];
    uint64_t saved;
};

void mp_frag_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_frag *frag);
void mp_frag_text(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                  const struct mp_view *view);

/* Writes a line if several requests failed. */
void mp_oom_times_text(struct mp_text *text, const struct mp_frag_oom *oom);

/* "fragmentation: enough was free, but ..." */
const char *mp_oom_cause_text(const struct mp_frag_oom *oom);

/* The moment in words: "at the end". */
const char *mp_frag_when(const struct mp_frag *frag);

/* False if no replayed setting would help. */
bool mp_frag_advice(const struct mp_frag *frag, struct mp_advice *advice);
