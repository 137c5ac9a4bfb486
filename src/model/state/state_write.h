/* Writes a state to a file: as a base, or as events. One thread at a time. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "format/recording.h"
#include "model/state/state.h"

/* The number of events that mp_state_write() writes. */
size_t mp_state_open_events(const struct mp_state *state);

/* Writes the live blocks as a base. */
enum mp_status mp_state_write_base(const struct mp_state *state, struct mp_writer *writer, struct mp_error *error);

/* Writes the state into a file that has the same tables. First comes the past: events, steps, and peaks with their
 * sites. Then come the live blocks and waiting labels. Last come the window, the allocators' memory, the step and open
 * regions, as events of the present moment. `marks` are written with these events. */
enum mp_status mp_state_write(struct mp_state *state, struct mp_writer *writer, const struct mp_ring_mark *marks,
                              size_t mark_count, struct mp_error *error);

/* Writes events. The events must be those that follow the events taken so far. */
enum mp_status mp_state_write_events(const struct mp_state *state, struct mp_writer *writer,
                                     const struct mp_event *events, size_t count, const struct mp_ring_mark *marks,
                                     size_t mark_count, struct mp_error *error);
