/*
 * What this process maps of the spool: as much of each table, and as many rings, as it has had need of. Address space
 * is the program's too, and may be limited.
 *
 * A table that has grown is mapped once more, all of it, at another place: whoever still uses the smaller view finds
 * the same bytes there, since nothing is unmapped while a session lasts. No descriptor is kept: a further view is made
 * of a page that was mapped when the process attached. Nothing of it goes to children, core dumps, or, beyond what is
 * opened, to mlockall(). Never allocates; any thread, in hooks.
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

/* Maps the header of the spool that a descriptor stands for, and what later views are made of. NULL with errno,
 * which is 0 where it is no spool that this build can use. */
struct mp_spool_header *mp_views_start(int descriptor, uint64_t file_bytes);
/* Takes back what it mapped; nobody has used it. */
void mp_views_end(void);

/* The largest view of a table; never NULL, of no bytes at first. */
const struct mp_view *mp_view(enum mp_spool_table_id table);
/* Makes one of at least so many bytes, which are committed. False, with errno: it cannot be had. */
bool mp_view_grow(enum mp_spool_table_id table, uint64_t bytes);
/* The records of a committed ring; NULL with errno. One thread at a time of each ring. */
struct mp_record *mp_view_ring(uint32_t ring);

/* In a child that goes on in a hook: puts memory of no meaning where the parent's views were. */
void mp_views_blank(void);
/* Blank memory in one place. */
void mp_view_put_blank(void *at, uint64_t bytes);

#endif
