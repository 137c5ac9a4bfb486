/*
 * A recording as an SQLite database: tables, indexes and views as src/exchange/tables/sqlite_schema.c says, with the
 * meaning of each column; they are in the database itself, for sqlite3's .schema. Written in one transaction without a
 * journal: until the file has its name, nobody reads it.
 */
#ifndef MP_EXCHANGE_SQLITE_EXPORT_H
#define MP_EXCHANGE_SQLITE_EXPORT_H

#include <stdio.h>

#include "exchange/common/rows.h"

/* `filter` is the filter's text, NULL without one. `out` must be an empty regular file: MP_INVALID where it is none.
 * MP_IO, MP_NO_MEMORY. */
enum mp_status mp_sqlite_export(const struct mp_rows *rows, const char *filter, FILE *out, struct mp_error *error);

/* The statements that make the tables; then, once they are filled, indexes and views. */
extern const char mp_sqlite_tables[], mp_sqlite_indexes[];

#endif
