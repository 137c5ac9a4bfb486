/*
 * Makes a complete recording from the remains after a kill: a cut file, the spool with records that the collector had
 * not written yet, or both. Each event is taken once: the file's last chunk says how far it had read each ring.
 */
#pragma once

#include "collect/recording/recording.h"
#include "collect/recording/spool_file.h"
#include "format/reader.h"

struct mp_recovery {
    struct mp_recording_summary summary;
    struct mp_damage damage; /* damage of the file that was read; zero if there was none */
    bool had_spool;
    uint64_t events_from_file;
};

/* `path` is the recording's file. If it is missing or hardly begun, the spool of this output is searched for. `name`
 * makes the output file. The spool is removed once the new file has all its records. Fails, and removes nothing, if the
 * program still runs and records. */
enum mp_status mp_recover(const char *path, mp_recording_name *name, void *name_context, struct mp_recovery *recovery,
                          struct mp_error *error);

/* State that recover_copy.c (the file's contents) and recover.c (the rest) share. Other code does not use it. */

struct mp_recovering {
    struct mp_reader *reader;       /* NULL: there is no file */
    struct mp_recording *recording; /* NULL: there is no spool */
    struct mp_writer *writer;       /* without a spool, the new file's; else the recording's */
    struct mp_recovery *result;
    struct mp_event *events; /* room for a chunk's events in the writer's form */
    struct mp_schedule schedule;
    uint64_t lost_chunks;  /* lost chunks of the file so far */
    uint64_t put_in;       /* number of missed frees that the file's collector inserted */
    struct mp_state alone; /* state for the parts of bases if there is no spool; otherwise the recording's state is
                            * used */
    bool coverage_copied, exit_copied;
};

/* Copies the file's contents into the new file, and into the recording's state if there is a recording. Losses of the
 * file count as losses of the new file, too. */
enum mp_status mp_recover_copy(struct mp_recovering *recovering, struct mp_writer *writer, struct mp_error *error);

/* A kill leaves two parts of a recording: the file as far as it was written, and the spool with the rest. */

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
