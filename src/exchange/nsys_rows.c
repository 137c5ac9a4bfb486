#include "exchange/nsys_rows.h"

static bool any_row(sqlite3 *sqlite, const char *query, const char *first, const char *second)
{
    sqlite3_stmt *statement = NULL;
    bool found = sqlite3_prepare_v2(sqlite, query, -1, &statement, NULL) == SQLITE_OK &&
                 sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC) == SQLITE_OK &&
                 (!second || sqlite3_bind_text(statement, 2, second, -1, SQLITE_STATIC) == SQLITE_OK) &&
                 sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return found;
}

bool mp_nsys_has_table(sqlite3 *sqlite, const char *table)
{
    return any_row(sqlite, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1", table, NULL);
}

/* Generated columns, which would compute, are not in table_info. */
bool mp_nsys_has_column(sqlite3 *sqlite, const char *table, const char *column)
{
    return any_row(sqlite, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", table, column);
}

enum mp_status mp_nsys_each(sqlite3 *sqlite, const char *table, const char *const *columns,
                            void (*row)(void *context, sqlite3_stmt *row), void *context, const char *path,
                            struct mp_error *error)
{
    if (!mp_nsys_has_table(sqlite, table)) return MP_OK;
    struct mp_buffer query = {0};
    sqlite3_stmt *statement = NULL;
    unsigned long long number = 0;
    mp_buffer_append_text(&query, "SELECT ");
    for (size_t i = 0; columns[i]; i++)
        mp_buffer_printf(&query, "%s%s%s%s", i ? ", " : "",
                         mp_nsys_has_column(sqlite, table, columns[i]) ? "\"" : "NULL AS \"", columns[i], "\"");
    mp_buffer_printf(&query, " FROM main.\"%s\"%s", table,
                     mp_nsys_has_column(sqlite, table, "start") ? " ORDER BY start, rowid" : "");
    mp_buffer_append(&query, "", 1);
    int result =
        query.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(sqlite, (const char *)query.data, -1, &statement, NULL);
    while (result == SQLITE_OK || result == SQLITE_ROW) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) row(context, statement);
        number += result == SQLITE_ROW;
    }
    sqlite3_finalize(statement);
    mp_buffer_free(&query);
    if (result == SQLITE_DONE) return MP_OK;
    if (result == SQLITE_NOMEM) return mp_fail(error, MP_NO_MEMORY, "not enough memory to read %s", path);
    return mp_fail(error, MP_DAMAGED, "%s is damaged: after row %llu of %s: %s", path, number, table,
                   sqlite3_errmsg(sqlite));
}
