/*
 * Processes that could not be recorded. Each is counted, the first few are named, and the file of the nearest recorded
 * process above it says so; the command's where there is none. A process that got descriptors or an answer later takes
 * back what it left. One thread at a time.
 */
#ifndef MP_COLLECT_REFUSED_H
#define MP_COLLECT_REFUSED_H

#include "collect/session/collector_parts.h"

/* `name` NULL: as the kernel has it. `pid` 0: not known. */
void mp_refused_add(struct mp_refused *refused, uint32_t pid, const char *name, const struct mp_error *why);
/* Moves to *refused who lies below process `above`, or everybody for 0. Who still runs may yet be recorded, and is left
 * unless `ending`. */
void mp_refused_take(const struct mp_collector *collector, uint32_t above, bool ending, struct mp_refused *refused);
void mp_refused_merge(struct mp_refused *into, const struct mp_refused *from);

#endif
