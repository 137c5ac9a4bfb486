/* The remains of a recording after a kill: the file, as far as it was written, and the spool with the rest. */
#ifndef MP_COLLECT_LEFT_BEHIND_H
#define MP_COLLECT_LEFT_BEHIND_H

#include "collect/recording/spool_file.h"
#include "format/reader.h"

/* Opens the file; *reader is NULL, with MP_OK, where the kill came before anything of use was in it. */
enum mp_status mp_left_recording(const char *path, struct mp_reader **reader, struct mp_error *error);
/* Whether the kill came before the file had any event: all that is in it, its spool has, too. */
bool mp_left_without_events(const char *path);
/* Opens the spool that belongs to the file, or was to become it. MP_NOT_FOUND: there is none; MP_BUSY: its program
 * still uses it. */
enum mp_status mp_left_spool(const struct mp_reader *reader, const char *path, struct mp_spool_file *spool,
                             struct mp_error *error);
/* Whether there is a spool with more than the file at `path` has: MP_OK, left by a killed collector; MP_BUSY, still
 * used by its program (the sentence says which); MP_NOT_FOUND. */
enum mp_status mp_left_look(const char *path, struct mp_error *error);

#endif
