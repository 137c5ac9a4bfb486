/* What the parts of a recording call of each other: taking records (recording_take.c), writing the file
 * (recording_write.c), the rounds and the end (recording.c). Not for others. */
#ifndef MP_COLLECT_RECORDING_PARTS_H
#define MP_COLLECT_RECORDING_PARTS_H

#include "collect/recording/recording.h"

/* A moment of CLOCK_MONOTONIC as time of the recording. */
uint64_t mp_recording_time(const struct mp_recording *recording, uint64_t monotonic_ns);
/* Keeps the first failure. True where status is MP_OK. */
bool mp_recording_check(struct mp_recording *recording, enum mp_status status, const struct mp_error *error);

/* What is live now is what was before the next event of the file. False: out of memory. */
bool mp_recording_remember_live(struct mp_recording *recording);
/* One record of a ring becomes events, an answer, a change of the window. The drain's visitor. */
bool mp_recording_take(void *recording, uint32_t ring, const struct mp_record *record);

/* The window was closed and what is live is to be right again: tells what of the time between has lasted, each at its
 * moment: blocks of the file that ended, blocks that were born and live, steps. Blocks from before the file's beginning
 * are its base instead. Not kept by what was called before: the window counts as open from here on. */
enum mp_status mp_recording_write_gap(struct mp_recording *recording, uint32_t thread, struct mp_error *error);
/* The window is closed and goes on being so, and the rings are about to forget what was taken: tells the same, so that
 * the file has it, where steps began meanwhile and more of them are to be told. */
enum mp_status mp_recording_write_meanwhile(struct mp_recording *recording, struct mp_error *error);
/* The program says what the live block holds that event->address is in: a role (event->kind), and event->name. */
enum mp_status mp_recording_take_label(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error);
/* What holds that block; or a look for that is over. */
enum mp_status mp_recording_take_holder(struct mp_recording *recording, const struct mp_record *record,
                                        const struct mp_event *event, struct mp_error *error);
/* Memory ran out, or the thread of a refusal goes on: asks for a snapshot where that is worth one. */
enum mp_status mp_recording_follow_oom(struct mp_recording *recording, const struct mp_event *event,
                                       struct mp_error *error);
/* At a round's end: the same for refusals that nothing followed. */
enum mp_status mp_recording_look_at_ooms(struct mp_recording *recording, bool process_ended, struct mp_error *error);
/* What PyTorch tells of its caching allocators (collect/history/history.h): a block began or ended; a record of a
 * reading; into the file, after the events that it is about, and with its end. */
enum mp_status mp_recording_follow_history(struct mp_recording *recording, const struct mp_event *event,
                                           struct mp_error *error);
enum mp_status mp_recording_take_history(struct mp_recording *recording, const struct mp_record *record,
                                         struct mp_error *error);
/* Says where most of that history was not found among the blocks that were seen. */
void mp_recording_note_history(struct mp_recording *recording);
enum mp_status mp_recording_write_requests(struct mp_recording *recording, struct mp_error *error);
enum mp_status mp_recording_write_segments(struct mp_recording *recording, struct mp_error *error);
/* The number by which readers know a step (mp_step_of()): one that no optimizer has ended yet is the last that one did.
 */
uint64_t mp_recording_public_step(const struct mp_recording *recording, uint64_t step);
/* A step began outside of the window. */
enum mp_status mp_recording_note_step(struct mp_recording *recording, const struct mp_event *event,
                                      struct mp_error *error);

/* Names and modules that the spool has and we have not. */
enum mp_status mp_recording_read_tables(struct mp_recording *recording, struct mp_error *error);
/* Everything that was taken goes to the file, followed by what is live where `with_base` or where it is time for it;
 * then the rings get their room back. */
enum mp_status mp_recording_write(struct mp_recording *recording, bool with_base, struct mp_error *error);
/* What is live now; tables must have been written. */
enum mp_status mp_recording_write_base(struct mp_recording *recording, struct mp_error *error);
/* Functions and lines of all native frames that `tables` has written, which are the recording's own or a copy's. */
enum mp_status mp_recording_write_symbols(struct mp_recording *recording, struct mp_tables *tables,
                                          struct mp_writer *writer, struct mp_error *error);
/* What is known of the file but its path, duration and size, and what the recorder took. */
void mp_recording_summarise(struct mp_recording *recording, struct mp_recording_summary *summary);
/* Symbols, coverage, the process's end, the index. */
enum mp_status mp_recording_write_end(struct mp_recording *recording, struct mp_error *error);
uint64_t mp_recording_dropped(const struct mp_spool_header *spool);
/* Of those, the ones for which a ring had no room. */
uint64_t mp_recording_ring_full(const struct mp_spool_header *spool);
/* Some events are there without their stack, or without a name in it. */
bool mp_recording_lacks_names(const struct mp_spool_header *spool);

#endif
