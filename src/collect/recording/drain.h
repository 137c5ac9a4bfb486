/*
 * Takes records out of a spool's rings in the order in which they happened. Reading moves a position of the collector's
 * own; the rings' tails move only when the records are safe in the file (mp_drain_release). One thread at a time.
 */
#ifndef MP_COLLECT_DRAIN_H
#define MP_COLLECT_DRAIN_H

#include <stdbool.h>

#include "format/recording.h"
#include "wire/spool.h"

struct mp_drain {
    uint64_t next[MP_SPOOL_RINGS_MAX]; /* per ring: the first sequence number not yet taken */
    struct {
        uint64_t open, head, first_ns; /* a running hook as it was seen, and when it was first seen so */
    } hooks[MP_SPOOL_RINGS_MAX];
};

/* Called for each record, oldest first. `ring` and its header tell the thread. False stops the taking. */
typedef bool mp_drain_visit(void *context, uint32_t ring, const struct mp_record *record);

/* Takes every record that is older than each hook that is still running; with `process_ended` every record. Returns the
 * number taken. */
uint64_t mp_drain_take(struct mp_drain *drain, struct mp_spool_header *spool, bool process_ended, mp_drain_visit *visit,
                       void *context);

/* True where a ring is at least half full of records not yet released, or rings of ended threads wait to be released
 * and new threads for them. */
bool mp_drain_is_pressing(const struct mp_spool_header *spool);

/* How far each ring was taken; returns the number of marks, at most MP_SPOOL_RINGS_MAX. */
size_t mp_drain_marks(const struct mp_drain *drain, struct mp_ring_mark *marks);

/* What was taken is safe: gives its room back, and the rings of ended threads to new ones. */
void mp_drain_release(const struct mp_drain *drain, struct mp_spool_header *spool);

#endif
