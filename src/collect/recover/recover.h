/*
 * Makes a whole snapshot file from the remains after a kill: a cut file, the spool with what the collector had not yet
 * written, or both. Each event is taken once: the file's last chunk says how far it had read each ring.
 */
#ifndef MP_COLLECT_RECOVER_H
#define MP_COLLECT_RECOVER_H

#include "collect/recording/recording.h"
#include "collect/recording/spool_file.h"
#include "format/reader.h"

struct mp_recovery {
    struct mp_recording_summary summary;
    struct mp_damage damage; /* of the file that was read; all zero where there was none */
    bool had_spool;
    uint64_t events_from_file;
};

/* `path` is the snapshot file; where it does not exist yet or was hardly begun, the function looks for the spool that
 * was to become it. `name` makes the output file. The spool is removed when all of it is in the new file. Fails, with
 * nothing removed, where the program is still running and recording. */
enum mp_status mp_recover(const char *path, mp_recording_name *name, void *name_context, struct mp_recovery *recovery,
                          struct mp_error *error);

/* Shared by the parts of recovery: the file's contents (recover_copy.c), and the rest (recover.c). Not for others. */

struct mp_recovering {
    struct mp_reader *reader;       /* NULL: there is no file */
    struct mp_recording *recording; /* NULL: there is no spool */
    struct mp_writer *writer;       /* without a spool; else the recording's */
    struct mp_recovery *result;
    struct mp_event *events; /* room for a chunk's events in the writer's form */
    struct mp_schedule schedule;
    uint64_t lost_chunks;  /* of the file, so far */
    uint64_t put_in;       /* likewise: frees that its collector put in */
    struct mp_state alone; /* without a spool, for the parts of bases; else the recording's */
    bool coverage_copied, exit_copied;
};

/* Copies the file's contents into the new one, and into the recording's state where there is one. Losses of the file
 * are losses of the new one, too. */
enum mp_status mp_recover_copy(struct mp_recovering *recovering, struct mp_writer *writer, struct mp_error *error);

/* The remains of a recording after a kill: the file, as far as it was written, and the spool with the rest. */

/* Opens the file; *reader is NULL, with MP_OK, where the kill came before anything of use was in it. */
enum mp_status mp_left_recording(const char *path, struct mp_reader **reader, struct mp_error *error);
/* True if the kill came before the file had any event: all that is in it, its spool has, too. */
bool mp_left_without_events(const char *path);
/* Opens the spool that belongs to the file, or was to become it. MP_NOT_FOUND: there is none; MP_BUSY: its program
 * still uses it. */
enum mp_status mp_left_spool(const struct mp_reader *reader, const char *path, struct mp_spool_file *spool,
                             struct mp_error *error);
/* True if there is a spool with more than the file at `path` has: MP_OK: a killed collector left it. MP_BUSY: its
 * program still uses it (the sentence says which). MP_NOT_FOUND: there is none. */
enum mp_status mp_left_look(const char *path, struct mp_error *error);

#endif
