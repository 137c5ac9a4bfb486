/*
 * Loads any file that memprof can read as a model: its own recordings, PyTorch snapshots (pickle or JSON, with or
 * without traces) and Kineto traces with memory events, each also gzip-compressed. The content decides what a file is,
 * never its name. Model.format says which it was: "mp", "pytorch", "kineto".
 */
#ifndef MP_EXCHANGE_LOAD_H
#define MP_EXCHANGE_LOAD_H

#include "base/error.h"
#include "model/model.h"

/* The caller owns the model. As mp_model_load(); MP_NOT_A_RECORDING where the file is none of these, MP_DAMAGED where
 * it breaks off or makes no sense, MP_UNSUPPORTED where its contents are never read (a pickle that would run code). The
 * sentence names path and, where one byte is to blame, its offset. */
enum mp_status mp_exchange_load_any(const char *path, struct mp_model **model, struct mp_error *error);
/* The same for what needs one recording: refuses a job (mp_model_is_job()) with MP_UNSUPPORTED. */
enum mp_status mp_exchange_load(const char *path, struct mp_model **model, struct mp_error *error);

#endif
