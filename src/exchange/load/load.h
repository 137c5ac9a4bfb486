/*
 * Loads any file that memprof can read as a model: its own recordings, PyTorch snapshots (pickle or JSON, with or
 * without traces) and Kineto traces with memory events, each also gzip-compressed. The content decides what a file is,
 * never its name. model->format names the kind: "mp", "pytorch", "kineto".
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "model/load.h"
#include "model/model.h"

/* The caller owns the model. Errors are those of mp_model_load(). MP_NOT_A_RECORDING: the file is of none of these
 * kinds. MP_DAMAGED: the file is cut or inconsistent. MP_UNSUPPORTED: a pickle that would run code. The error's text
 * names the path and, if one byte is to blame, its offset. */
enum mp_status mp_exchange_load_any(const char *path, struct mp_model **model, struct mp_error *error);
/* Does the same for callers that need one recording: refuses a job (mp_model_is_job()) with MP_UNSUPPORTED. */
enum mp_status mp_exchange_load(const char *path, struct mp_model **model, struct mp_error *error);
/* True if the file is a job, by its beginning. */
bool mp_exchange_is_job(const char *path);
