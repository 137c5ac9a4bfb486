/*
 * Makes a whole snapshot file from the remains after a kill: a cut file, the spool with what the collector had not yet
 * written, or both. Each event is taken once: the file's last chunk says how far it had read each ring.
 */
#ifndef MP_COLLECT_RECOVER_H
#define MP_COLLECT_RECOVER_H

#include "collect/recording/recording.h"
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

#endif
