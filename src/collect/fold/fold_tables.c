#include "collect/fold/fold_tables.h"
#include "collect/fold/fold.h"

#include <stdlib.h>
#include <string.h>

#include "format/tables.h"

#define ROWS_MAX 65536 /* most waiting rows of one kind */

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for the tables of the recording");
}

const char *mp_fold_tables_text(const struct mp_fold_tables *tables, uint32_t string)
{
    return string < tables->strings.count ? tables->texts.at + tables->strings.at[string] : "";
}

static bool add_string(struct mp_fold_tables *tables, const char *text, size_t length)
{
    if (!mp_vec_reserve(&tables->texts, length + 1) || !mp_vec_push(&tables->strings, tables->texts.count))
        return false;
    if (length) memcpy(tables->texts.at + tables->texts.count, text, length);
    tables->texts.at[tables->texts.count + length] = '\0';
    tables->texts.count += length + 1;
    return true;
}

static enum mp_status write_strings(struct mp_fold_tables *tables, struct mp_writer *writer, struct mp_error *error)
{
    size_t count = tables->strings.count - tables->strings_written;
    struct mp_string *strings = malloc((count + 1) * sizeof *strings);
    if (!strings) return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        size_t id = tables->strings_written + i;
        size_t end = id + 1 < tables->strings.count ? tables->strings.at[id + 1] : tables->texts.count;
        strings[i] = (struct mp_string){tables->texts.at + tables->strings.at[id], end - 1 - tables->strings.at[id]};
    }
    enum mp_status status = mp_writer_strings(writer, strings, count, error);
    free(strings);
    tables->strings_written = tables->strings.count;
    return status;
}

/* Writes the rows in order of kind: rows refer only to kinds with lower numbers. */
enum mp_status mp_fold_tables_flush(struct mp_fold_tables *tables, struct mp_writer *writer, struct mp_error *error)
{
    enum mp_status status = write_strings(tables, writer, error);
    for (unsigned kind = MP_CHUNK_DEVICES; !status && kind <= MP_CHUNK_STACKS; kind++) {
        if (tables->rows[kind].count)
            status = mp_writer_rows(writer, (enum mp_chunk_kind)kind, tables->rows[kind].bytes.at,
                                    tables->rows[kind].count, error);
        tables->rows[kind].bytes.count = tables->rows[kind].count = 0;
    }
    return status;
}

enum mp_status mp_fold_tables_take(struct mp_fold_tables *tables, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error)
{
    bool done = true;
    if (chunk->kind == MP_CHUNK_STRINGS) {
        for (size_t i = 0; done && i < chunk->count; i++)
            done = add_string(tables, chunk->strings[i].text, chunk->strings[i].length);
        return done ? MP_OK : no_memory(error);
    }
    size_t bytes = chunk->count * mp_table_of(chunk->kind)->row;
    if (!mp_vec_append(&tables->rows[chunk->kind].bytes, chunk->rows, bytes)) return no_memory(error);
    tables->rows[chunk->kind].count += chunk->count;
    return tables->rows[chunk->kind].count < ROWS_MAX ? MP_OK : mp_fold_tables_flush(tables, writer, error);
}

void mp_fold_tables_free(struct mp_fold_tables *tables)
{
    mp_vec_free(&tables->texts);
    mp_vec_free(&tables->strings);
    for (unsigned kind = 0; kind <= MP_CHUNK_STACKS; kind++)
        mp_vec_free(&tables->rows[kind].bytes);
}
