/*
 * The memory that recording one process takes, by its bounds. At any moment, on the recording thread.
 *
 *     spool    shared with the program: rings for its threads (96 MiB at most) and tables of names, frames and stacks
 *              (about 220 MiB at most), as far as they were ever used
 *     ledger   the most blocks that ever lived at once
 *     tables   the same names once more, and every thread that ever allocated
 *     events   one chunk of events on its way into the file, steps of a closed window, lives that outlasted a step,
 *              what blocks of one kind are for
 *     file     the writer's buffers, and 48 bytes for each chunk in the file: about 70 MiB a week; bounded by
 *              --max-events
 */
#ifndef MP_COLLECT_RECORDING_MEMORY_H
#define MP_COLLECT_RECORDING_MEMORY_H

#include <stdint.h>

struct mp_recording;

struct mp_recording_memory {
    uint64_t spool, ledger, tables, events, file;
};

void mp_recording_memory(const struct mp_recording *recording, struct mp_recording_memory *memory);
/* The collector's part: all but the spool. */
uint64_t mp_recording_memory_sum(const struct mp_recording_memory *memory);

#endif
