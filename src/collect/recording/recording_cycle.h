/*
 * A recording whose schedule gives a file to each of its cycles (%c in the name): when a window closes, the file is
 * ended, and the next window begins another one. The end, for which symbols are read, is written by a forked child of
 * the collector, so that the program's rings go on being emptied; what was recorded is in the file before. A spool
 * belongs to one file at a time and gets a number of its own with each, so that `memprof recover` joins it with none
 * that was over. One thread at a time.
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
    bool apart;           /* each window has a file of its own */
    unsigned number;      /* of the window, from 0: those before it have files that are over */
    unsigned name_number; /* of the first file's name among those that must differ (collect/session/naming.h); so of the
                             others */
    MP_VEC(struct mp_cycle_job *) jobs; /* files whose end is being written */
};

/* The window has closed, and all of it is written: ends its file. */
enum mp_status mp_recording_end_cycle(struct mp_recording *recording, struct mp_error *error);
/* A file that is whole, or could not be ended (summary->failed), with `wait` the next one that will be; the path is the
 * caller's then. False: none. */
bool mp_recording_reap_cycle(struct mp_recording *recording, bool wait, struct mp_recording_summary *summary);
void mp_recording_free_cycles(struct mp_recording *recording);

#endif
