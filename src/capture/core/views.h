/*
 * This process's mappings of the spool: as much of each table, and as many rings, as it has needed. The process maps no
 * more, because the program's address space may be limited.
 *
 * A table that has grown is mapped again as a whole at another address. Nothing is unmapped while a session lasts, so
 * users of a smaller view find the same bytes there. No descriptor stays open. Instead, later views are made from one
 * page of each part, which was mapped when the process attached. The mappings are left out of children and core dumps.
 * mlockall() pins only their opened part. Never allocates; any thread, in hooks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/spool.h"

/* A mapping of a table's first `bytes`, which may be touched. */
struct mp_view {
    char *at;
    uint64_t bytes;
};

/* Maps the spool's header, and the pages from which later views are made. `descriptor`: the spool's file. NULL with
 * errno, which is 0 if this build cannot use that file. */
struct mp_spool_header *mp_views_start(int descriptor, uint64_t file_bytes);

/* The largest view of a table. Never NULL; without bytes at first. */
const struct mp_view *mp_view(enum mp_spool_table_id table);
/* Makes a view of at least `bytes`, which must be committed. False, with errno, if that fails. */
bool mp_view_grow(enum mp_spool_table_id table, uint64_t bytes);
/* Maps the records of a committed ring. NULL with errno. Only one thread at a time may call it for a ring. */
struct mp_record *mp_view_ring(uint32_t ring);

/* For a child that continues in a hook: maps blank memory in place of the parent's views. */
void mp_views_blank(void);
/* Maps blank memory at `at`, if nothing is mapped there. */
void mp_view_put_blank(void *at, uint64_t bytes);
