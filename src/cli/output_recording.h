/* Writing a model as a new recording to where -o says. */
#ifndef MP_CLI_OUTPUT_RECORDING_H
#define MP_CLI_OUTPUT_RECORDING_H

#include "cli/options.h"
#include "model/model.h"

/* Reads the command's file, after a look at -o: it names a file, and one that is there already may be replaced. Both
 * return an exit status; a message was written where it is not 0. */
int mp_output_recording_load(const struct mp_invocation *invocation, struct mp_model **model);
int mp_output_recording(const struct mp_invocation *invocation, struct mp_model *model);

#endif
