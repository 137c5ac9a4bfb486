/*
 * Makes a whole snapshot file out of what a kill left behind: a file that was cut, the spool with what the collector
 * had not yet written, or both. Each event is taken once: the file's last chunk says how far it had read each ring.
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

/* `path` is the snapshot file; where it does not exist yet or was hardly begun, the spool that was to become it is
 * looked for. `name` makes the file to write. The spool is removed when all of it is in the new file. Fails, with
 * nothing removed, where the program is still running and recording. */
enum mp_status mp_recover(const char *path, mp_recording_name *name, void *name_context, struct mp_recovery *recovery,
                          struct mp_error *error);

#endif
