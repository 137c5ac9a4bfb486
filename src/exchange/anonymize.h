/* A recording without the names in it, to be passed on: what is not public code gets numbers, all figures stay. */
#ifndef MP_EXCHANGE_ANONYMIZE_H
#define MP_EXCHANGE_ANONYMIZE_H

#include "base/error.h"
#include "model/model.h"

/*
 * Replaces, in the model itself, one name always by the same other one:
 *  - functions, files and libraries that are not Python's, PyTorch's, CUDA's or the C library's ("f12", "/12.py",
 *    "/lib/lib3.so"); the folders in front of those that are;
 *  - regions and marks ("region 4"), except the names by which steps are known; pools, threads;
 *  - command, host, the devices' UUIDs, the spool's path, notes that may hold a name.
 * Peaks, leaks, steps and sizes stay the same; categories too, but for those that rules over names had found. On
 * failure the model is of no use any more. MP_NO_MEMORY.
 */
enum mp_status mp_anonymize(struct mp_model *model, struct mp_error *error);

#endif
