/*
 * A recording as an SQLite database. sqlite.c defines tables, indexes and views, with the
 * meaning of each column. sqlite3's .schema shows these definitions. The database is written in one transaction without
 * a journal, since nobody reads the file before it is complete and gets its name.
 */
#pragma once

#include <stdio.h>

#include "exchange/common/rows.h"

/* `filter` is the filter's text, NULL without one. MP_INVALID: `out` is no empty regular file. MP_IO: a write
 * failed. */
enum mp_status mp_sqlite_export(const struct mp_block_rows *rows, const char *filter, FILE *out,
                                struct mp_error *error);
