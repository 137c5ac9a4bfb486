/*
 * A recording whose schedule gives each of its cycles a file (%c in the name): when a window closes, the file ends, and
 * the next window begins another one. A forked child of the collector writes the end, for which it reads symbols, so
 * that the program's rings continue to be emptied; everything recorded is in the file before. A spool belongs to one
 * file at a time and gets a new number with each, so that `memprof recover` never joins it to a finished one. One
 * thread at a time.
 */
#ifndef MP_COLLECT_RECORDING_CYCLE_H
#define MP_COLLECT_RECORDING_CYCLE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vec.h"

struct mp_recording;
struct mp_recording_summary;
struct mp_cycle_job;

struct mp_cycles {
    bool apart;           /* each window has its own file */
    unsigned number;      /* of the window, from 0: files of earlier windows are finished */
    unsigned name_number; /* of the first file's name among those that must differ (collect/session/naming.h); the
                           * others have the same */
    MP_VEC(struct mp_cycle_job *) jobs; /* files whose end is being written */
};

/* The window has closed, and everything in it is written: ends its file. */
enum mp_status mp_recording_end_cycle(struct mp_recording *recording, struct mp_error *error);
/* A file that is whole, or could not be ended (summary->failed); `wait` waits for the next one. The caller then owns
 * the path. False: none. */
bool mp_recording_reap_cycle(struct mp_recording *recording, bool wait, struct mp_recording_summary *summary);
void mp_recording_free_cycles(struct mp_recording *recording);

#endif
