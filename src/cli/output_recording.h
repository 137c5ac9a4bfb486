/* Writes a model as a new recording to the file that -o names. */
#pragma once

#include "cli/invocation.h"
#include "model/model.h"

/* Reads the command's file, after checking -o: it must name a file that may be written or replaced. Both return an exit
 * status; if it is not 0, a message was printed. */
int mp_output_recording_load(const struct mp_invocation *invocation, struct mp_model **model);
/* Only checks -o. */
int mp_output_recording_check(const struct mp_invocation *invocation);
int mp_output_recording(const struct mp_invocation *invocation, struct mp_model *model);
