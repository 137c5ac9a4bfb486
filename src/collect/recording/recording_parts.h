/* Calls between the parts of a recording: taking records (recording_take.c), writing the file (recording_write.c), the
 * rounds and the end (recording.c). Other code does not include this file. */
#pragma once

#include "collect/recording/recording.h"

/* Converts a time of CLOCK_MONOTONIC to a time of the recording. */
uint64_t mp_recording_time(const struct mp_recording *recording, uint64_t monotonic_ns);
/* Keeps the first failure. True if `status` is MP_OK. */
bool mp_recording_check(struct mp_recording *recording, enum mp_status status, const struct mp_error *error);

/* Remembers the live bytes before the file's next event. False: out of memory. */
bool mp_recording_remember_live(struct mp_recording *recording);
/* The drain's visitor: turns one record of a ring into events, an answer, or a change of the window. */
bool mp_recording_take(void *recording, uint32_t ring, const struct mp_record *record);

/* Writes the lasting changes of the time in which the window was closed, each at its own time: frees of the file's
 * blocks, new blocks that still live, and steps. Before the file has a first window, live blocks go to its base
 * instead. Afterwards the window counts as open. */
enum mp_status mp_recording_write_gap(struct mp_recording *recording, uint32_t thread, struct mp_error *error);
/* Writes the same changes while the window stays closed, before the taken records are released from the rings. Does so
 * only if steps began meanwhile: a later window needs these. */
enum mp_status mp_recording_write_meanwhile(struct mp_recording *recording, struct mp_error *error);
/* Takes the program's label of the live block that contains event->address: a role (event->kind), and event->name. */
enum mp_status mp_recording_take_label(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error);
/* Takes a holder of a live block, or the end of a look for holders. */
enum mp_status mp_recording_take_holder(struct mp_recording *recording, const struct mp_record *record,
                                        const struct mp_event *event, struct mp_error *error);
/* The log of operators. mp_recording_take_birth(): a block was allocated while an operator ran. The next two take an
 * operator of a ring, and then its tensors. mp_recording_logs_operators(): false if the user did not ask for the log, or
 * for these steps. */
enum mp_status mp_recording_take_birth(struct mp_recording *recording, const struct mp_record *record,
                                       const struct mp_event *event, struct mp_error *error);
enum mp_status mp_recording_take_operator(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                          const struct mp_event *event, struct mp_error *error);
enum mp_status mp_recording_take_tensors(struct mp_recording *recording, uint32_t ring, const struct mp_record *record,
                                         struct mp_error *error);
bool mp_recording_logs_operators(const struct mp_recording *recording);
/* Takes an out-of-memory, or the next event of a thread with an undecided refusal. Asks for a snapshot if that is worth
 * one. */
enum mp_status mp_recording_follow_oom(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error);
/* Call it when the process has ended: decides refusals without a following event, and asks for a snapshot of the last
 * out-of-memory if the program ended badly. */
enum mp_status mp_recording_look_at_last_ooms(struct mp_recording *recording, struct mp_error *error);
/* PyTorch's data about its caching allocators (collect/history/history.h). mp_recording_follow_history() follows births
 * and ends of blocks. The next function takes a record of a reading. The others write to the file: one after the events
 * concerned, one at the file's end. */
enum mp_status mp_recording_follow_history(struct mp_recording *recording, const struct mp_event *event,
                                           struct mp_error *error);
enum mp_status mp_recording_take_history(struct mp_recording *recording, const struct mp_record *record,
                                         struct mp_error *error);
/* Adds a note if most entries of PyTorch's history matched no recorded block. */
void mp_recording_note_history(struct mp_recording *recording);
enum mp_status mp_recording_write_requests(struct mp_recording *recording, struct mp_error *error);
enum mp_status mp_recording_write_segments(struct mp_recording *recording, struct mp_error *error);
/* The number by which readers know a step (mp_step_of()). If the ends of an optimizer's steps mark steps, the step that
 * still runs counts as part of the step before. */
uint64_t mp_recording_public_step(const struct mp_recording *recording, uint64_t step);
/* Notes a step that began outside of the window. */
enum mp_status mp_recording_note_step(struct mp_recording *recording, const struct mp_event *event,
                                      struct mp_error *error);

/* True if a track of the spool is of that layer. */
bool mp_recording_has_layer(const struct mp_recording *recording, uint16_t track, enum mp_layer layer);
/* Reasons why the recording is incomplete although it lacks no event: ids in recording->tables. */
#define MP_RECORDING_LIMITS 8
enum mp_status mp_recording_limits(struct mp_recording *recording, uint32_t *limits, uint32_t *count,
                                   struct mp_error *error);
/* Notes whether the process has our root and mounts (recording->shares_root). False: this cannot be read, for instance
 * because the process has ended; the earlier note stays. */
bool mp_recording_look_at_root(struct mp_recording *recording);
/* A mp_tables_module_seen: finds the file of a module for its symbols. If the process has our root, its path works for
 * us, too, even after the process has ended. */
void mp_recording_add_module(void *recording, uint32_t id, const char *path, const struct mp_file_id *file);
/* Reads names and modules that are new in the spool. */
enum mp_status mp_recording_read_tables(struct mp_recording *recording, struct mp_error *error);
/* Begins a file of the recording's process, and takes over `fd`. `has_spool`: the file names the spool, so that
 * recovery can join both. */
enum mp_status mp_recording_open_writer(const struct mp_recording *recording, int fd, const char *configuration,
                                        bool has_spool, struct mp_writer **writer, struct mp_error *error);
/* Writes all taken records to the file, then a base, if `with_base` is set or if a base is due. Then releases the taken
 * records from the rings. */
enum mp_status mp_recording_write(struct mp_recording *recording, bool with_base, struct mp_error *error);
/* Writes the live blocks as a base; tables must have been written. */
enum mp_status mp_recording_write_base(struct mp_recording *recording, struct mp_error *error);
/* Writes functions and lines of all native frames that `tables` (the recording's own, or a copy) has written. */
enum mp_status mp_recording_write_symbols(struct mp_recording *recording, struct mp_tables *tables,
                                          struct mp_writer *writer, struct mp_error *error);
/* Fills in the summary, except for the file's path, duration and size, and the recorder's losses. */
void mp_recording_summarise(struct mp_recording *recording, struct mp_recording_summary *summary);
/* Writes symbols, coverage, the process's end, the index. */
enum mp_status mp_recording_write_end(struct mp_recording *recording, struct mp_error *error);
uint64_t mp_recording_dropped(const struct mp_spool_header *spool);
/* The dropped events for which a ring had no room. */
uint64_t mp_recording_ring_full(const struct mp_spool_header *spool);
/* True if some events lack their stack, or a name in it. */
bool mp_recording_lacks_names(const struct mp_spool_header *spool);

/* Finds the role of a process from its stacks. One thread at a time. */

/* Looks in the tables for functions that only a worker runs. If it finds the role, it writes it into the process's
 * membership in the spool's header. */
void mp_recording_find_role(struct mp_recording *recording);
