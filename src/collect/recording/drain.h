/*
 * Takes records out of a spool's rings in order of time. Taking moves only the collector's own position. The rings'
 * tails move later, when the records are safe in the file (mp_drain_release()). One thread at a time.
 *
 * A record has the time at which its hook began, but enters its ring only before the hook returns. Records must be
 * taken in order, so a record waits while an older hook still runs. An example:
 *
 *     ring 0    alloc 10   alloc 20   alloc 50
 *     ring 1    alloc 15   free 20                 a hook runs since 40
 *
 * The drain takes alloc 10, alloc 15, free 20 and alloc 20. At equal times a free comes first, since its address may be
 * reused at once. Alloc 50 waits, since the hook may still write a record of time 40.
 */
#pragma once

#include <stdbool.h>

#include "format/recording.h"
#include "wire/spool.h"

struct mp_drain {
    uint64_t next[MP_SPOOL_RINGS_MAX]; /* per ring: the first sequence number not yet taken */
    struct {
        uint64_t open, head, first_ns; /* a running hook, and when it was first seen in this state */
    } hooks[MP_SPOOL_RINGS_MAX];
};

/* Called for each record, oldest first. `ring` and its header identify the thread. False stops. */
typedef bool mp_drain_visit(void *context, uint32_t ring, const struct mp_record *record);

/* Takes every record that is older than all hooks still running; with `process_ended` every record. Returns their
 * number. */
uint64_t mp_drain_take(struct mp_drain *drain, struct mp_spool_header *spool, bool process_ended, mp_drain_visit *visit,
                       void *context);

/* True if a ring is at least half full of unreleased records, or if many rings of ended threads wait for release. */
bool mp_drain_is_pressing(const struct mp_spool_header *spool);

/* Writes a mark for each ring: how far its records were taken. Returns the number of marks, at most
 * MP_SPOOL_RINGS_MAX. */
size_t mp_drain_marks(const struct mp_drain *drain, struct mp_ring_mark *marks);

/* How many records were taken from all rings. */
uint64_t mp_drain_taken(const struct mp_drain *drain);

/* Call it when the taken records are safe in the file. Frees their room, and gives the rings of ended threads to new
 * threads. */
void mp_drain_release(const struct mp_drain *drain, struct mp_spool_header *spool);
