/* Rows of a database of somebody else's: tables and columns may be missing. Private to nsys.c. One thread at a time. */
#ifndef MP_EXCHANGE_NSYS_ROWS_H
#define MP_EXCHANGE_NSYS_ROWS_H

#include <sqlite3.h>

#include "base/buffer.h"
#include "base/error.h"

/* Whether there is a table (no view) of that name. */
bool mp_nsys_has_table(sqlite3 *sqlite, const char *table);
bool mp_nsys_has_column(sqlite3 *sqlite, const char *table, const char *column);

/* Calls `row` for each row of the table with the columns named (NULL-terminated; one that the table does not have reads
 * as NULL), in order of their column "start" where there is one. A table that is not there has no rows. */
enum mp_status mp_nsys_each(sqlite3 *sqlite, const char *table, const char *const *columns,
                            void (*row)(void *context, sqlite3_stmt *row), void *context, const char *path,
                            struct mp_error *error);

#endif
