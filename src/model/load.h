/* A recording's file as a model. Pure but for the file; any thread. */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* Makes the model, which the caller frees, of a whole file. A
 * chunk that contradicts the others counts as lost; the rest is still used. */
enum mp_status mp_model_load(const char *path, struct mp_model **model, struct mp_error *error);
