/* Removes private names from a recording, so that it can be given to others. Names outside of public code become
 * numbers; all figures stay. */
#pragma once

#include "base/error.h"
#include "model/model.h"

/*
 * Changes names in the model itself. Equal names get equal new names. These are replaced:
 * - functions, files and libraries that are not public (public_names.h): "f12", "/12.py", "/lib/lib3.so". A native
 *   function is public if its library is, a Python function if its file and its name are;
 * - the folders in front of public files, and all source files of native code;
 * - regions and marks ("region 4"), except the names that mark steps; pools, threads, counters, devices. These are
 * removed: command, host, the devices' UUIDs, the spool's path, settings that are not numbers, and notes with words
 * that memprof's own sentences do not have. Peaks, leaks, steps and sizes stay the same. Categories do, too, unless
 * they come from rules over private names.
 */
enum mp_status mp_anonymize(struct mp_model *model, struct mp_error *error);
