/* Writes what a recording has taken to its file. One thread at a time. */
#pragma once

#include "collect/recording/recorded.h"

/* Notes whether the process has our root and mounts (recording->shares_root). False: this cannot be read, for instance
 * because the process has ended; the earlier note stays. */
bool mp_recording_look_at_root(struct mp_recording *recording);

/* Reads names and modules that are new in the spool. */
enum mp_status mp_recording_read_tables(struct mp_recording *recording, struct mp_error *error);

/* Begins a file of the recording's process, and takes over `fd`. `has_spool`: the file names the spool, so that
 * recovery can join both. */
enum mp_status mp_recording_open_writer(const struct mp_recording *recording, int fd, const char *configuration,
                                        bool has_spool, struct mp_writer **writer, struct mp_error *error);

/* Writes the live blocks as a base; tables must have been written. */
enum mp_status mp_recording_write_base(struct mp_recording *recording, struct mp_error *error);

/* Writes all taken records to the file, then a base, if `with_base` is set or if a base is due. Then releases the taken
 * records from the rings. */
enum mp_status mp_recording_write(struct mp_recording *recording, bool with_base, struct mp_error *error);

/* Writes functions and lines of all native frames that `tables` (the recording's own, or a copy) has written. */
enum mp_status mp_recording_write_symbols(struct mp_recording *recording, struct mp_tables *tables,
                                          struct mp_writer *writer, struct mp_error *error);

/* Reasons why the recording is incomplete although it lacks no event: ids in recording->tables. */
#define MP_RECORDING_LIMITS 8
enum mp_status mp_recording_limits(struct mp_recording *recording, uint32_t *limits, uint32_t *count,
                                   struct mp_error *error);

/* If several functions have the name given to --step-at: writes which one counts; else "". */
void mp_recording_step_functions(const struct mp_recording *recording, char *text, size_t room);

/* Writes symbols, coverage, the process's end, the index. */
enum mp_status mp_recording_write_end(struct mp_recording *recording, struct mp_error *error);

/* Writes the lasting changes of the time in which the window was closed, each at its own time: frees of the file's
 * blocks, new blocks that still live, and steps. Before the file has a first window, live blocks go to its base
 * instead. Afterwards the window counts as open. */
enum mp_status mp_recording_write_gap(struct mp_recording *recording, uint32_t thread, struct mp_error *error);

/* Notes a step that began outside of the window. */
enum mp_status mp_recording_note_step(struct mp_recording *recording, const struct mp_event *event,
                                      struct mp_error *error);

/* Remembers the live bytes before the file's next event. False: out of memory. */
bool mp_recording_remember_live(struct mp_recording *recording);
