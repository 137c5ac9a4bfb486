/*
 * A recording as an SQLite database. src/exchange/tables/sqlite_schema.c defines tables, indexes and views, with the
 * meaning of each column, and the database itself contains them for sqlite3's .schema. Written in one transaction
 * without a journal: nobody reads the file before it is complete and gets its name.
 */
#pragma once

#include <stdio.h>

#include "exchange/common/rows.h"

/* `filter` is the filter's text, NULL without one. `out` must be an empty regular file: otherwise MP_INVALID. MP_IO. */
enum mp_status mp_sqlite_export(const struct mp_block_rows *rows, const char *filter, FILE *out,
                                struct mp_error *error);

/* Statements that make the tables, and statements that make indexes and views once the tables are filled. */
extern const char mp_sqlite_tables[], mp_sqlite_indexes[];
