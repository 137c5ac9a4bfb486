/*
 * The spool's tables from the recorder's side. Each call finds or adds an entry, under the session's table lock, and
 * returns its id. Only stacks and names that are not in the caches come here.
 *
 * If a table is full, or its next part is not committed in time, the result is 0: the empty string or stack, the
 * unknown module. For frames it is MP_WIRE_FRAME_CUT, for tracks MP_TRACK_NONE, whose events are dropped. The loss is
 * counted in the header (lost_stacks, lost_strings, dropped_no_track, without_lock).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "wire/spool.h"

/* Each session begins with empty tables. A forked child may lack their memory. */
extern const struct mp_front mp_tables_front;

uint32_t mp_table_string(const char *text, size_t length);
uint16_t mp_table_track(const struct mp_wire_track *track);

/* The functions below need the table lock: mp_tables_lock() ... mp_tables_unlock(). If mp_tables_lock() does not get
 * the lock, it returns false and counts that. */
bool mp_tables_lock(void);
void mp_tables_unlock(void);
uint32_t mp_table_string_locked(const char *text, size_t length);
uint32_t mp_table_frame_locked(const struct mp_wire_frame *frame);
uint32_t mp_table_node_locked(uint32_t parent, uint32_t frame);
uint32_t mp_table_module_locked(const struct mp_wire_module *module);
