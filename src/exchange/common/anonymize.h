/* A recording without the names in it, to be passed on: anything that is not public code gets numbers, all figures
 * stay. */
#ifndef MP_EXCHANGE_ANONYMIZE_H
#define MP_EXCHANGE_ANONYMIZE_H

#include "base/error.h"
#include "model/model.h"

/*
 * Changes names in the model itself. The same name always becomes the same other one. Replaced are:
 * - functions, files and libraries that are not public (public_names.h): "f12", "/12.py", "/lib/lib3.so". A native
 *   function is public where its library is, a function in Python where its file and its name are;
 * - the folders in front of public files, and all source files of native code;
 * - regions and marks ("region 4"), except the names by which steps are known; pools, threads, counters, devices.
 * Left out are command, host, the devices' UUIDs, the spool's path, settings that are no numbers, and notes with a word
 * that memprof's own sentences do not have.
 * Peaks, leaks, steps and sizes stay the same; categories too, except those that rules over private names had found.
 */
enum mp_status mp_anonymize(struct mp_model *model, struct mp_error *error);

#endif
