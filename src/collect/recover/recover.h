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
