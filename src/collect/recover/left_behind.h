/* A kill leaves two parts of a recording: the file as far as it was written, and the spool with the rest. */
#pragma once

#include "collect/recording/spool_file.h"
#include "format/reader.h"

/* Opens the file. *reader is NULL, with MP_OK, if the file is useless because the kill came too early. */
enum mp_status mp_left_recording(const char *path, struct mp_reader **reader, struct mp_error *error);
/* True if the file has no events because the kill came early: its spool then has all its contents. */
bool mp_left_without_events(const char *path);
/* Opens the spool of the file, also if the file does not exist yet. MP_NOT_FOUND: there is no spool; MP_BUSY: the
 * program still uses it. */
enum mp_status mp_left_spool(const struct mp_reader *reader, const char *path, struct mp_spool_file *spool,
                             struct mp_error *error);
/* Looks for a spool that has more than the file at `path`. MP_OK: a killed collector left one. MP_BUSY: its program
 * still uses it (the error's text names the program). MP_NOT_FOUND: there is none. */
enum mp_status mp_left_look(const char *path, struct mp_error *error);
