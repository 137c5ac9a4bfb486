/* How complete a recording is, as text and as JSON, in every report; see view.h. */
#pragma once

#include "base/buffer.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"

void mp_coverage_json(struct mp_json *json, const struct mp_model *model);

/* One line: "complete: 412 816 events, none dropped", or what is missing; then the notes, one line each. */
void mp_coverage_text(struct mp_text *text, const struct mp_model *model);

/* Writes the same as the last part of a report. */
void mp_coverage_end(struct mp_text *text, const struct mp_model *model);

/* The missing part, as a sentence for a message ("the file is cut ..."); empty if the recording is complete. */
void mp_coverage_sentence(struct mp_buffer *out, const struct mp_model *model);

/* The word before a peak: "" for a complete recording, "at least " if only its end is missing, "about " if frees may be
 * missing, too. */
const char *mp_coverage_hedge(const struct mp_model *model);
