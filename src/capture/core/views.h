/*
 * This process's mappings of the spool: as much of each table, and as many rings, as it has needed. The program needs
 * address space, too, and it may be limited.
 *
 * A table that has grown is mapped again as a whole at another place: users of the smaller view find the same bytes
 * there, since nothing is unmapped while a session lasts. No descriptor is kept: further views are made from a page
 * that was mapped when the process attached. Children, core dumps and (beyond the opened part) mlockall() get nothing
 * of it. Never allocates; any thread, in hooks.
 */
#ifndef MP_CAPTURE_VIEWS_H
#define MP_CAPTURE_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/spool.h"

/* The first `bytes` of a table, which may be touched. */
struct mp_view {
    char *at;
    uint64_t bytes;
};

/* Maps the header of the spool behind a descriptor, and the pages for later views. NULL with errno, which is 0 where it
 * is no spool that this build can use. */
struct mp_spool_header *mp_views_start(int descriptor, uint64_t file_bytes);

/* The largest view of a table; never NULL, of no bytes at first. */
const struct mp_view *mp_view(enum mp_spool_table_id table);
/* Makes one of at least that many bytes, which are committed. False, with errno: that fails. */
bool mp_view_grow(enum mp_spool_table_id table, uint64_t bytes);
/* The records of a committed ring; NULL with errno. One thread at a time of each ring. */
struct mp_record *mp_view_ring(uint32_t ring);

/* For a child that continues in a hook: puts blank memory where the parent's views were. */
void mp_views_blank(void);
/* Puts blank memory in one place. */
void mp_view_put_blank(void *at, uint64_t bytes);

#endif
