/*
 * The tables of a file on their way into another one: gathered, so that many small chunks become few. Texts stay known.
 * One thread at a time.
 */
#ifndef MP_COLLECT_FOLD_TABLES_H
#define MP_COLLECT_FOLD_TABLES_H

#include "base/vec.h"
#include "format/writer.h"

struct mp_fold_tables {
    MP_VEC(char) texts;     /* of all strings, each NUL-terminated */
    MP_VEC(size_t) strings; /* the beginning of each */
    size_t strings_written;
    struct {
        MP_VEC(char) bytes;
        size_t count;
    } rows[MP_CHUNK_STACKS + 1]; /* by kind, not yet written */
};

/* Takes a chunk of kinds 1 to 7. */
enum mp_status mp_fold_tables_take(struct mp_fold_tables *tables, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error);
enum mp_status mp_fold_tables_flush(struct mp_fold_tables *tables, struct mp_writer *writer, struct mp_error *error);
/* "" where there is none. */
const char *mp_fold_tables_text(const struct mp_fold_tables *tables, uint32_t string);
void mp_fold_tables_free(struct mp_fold_tables *tables);

#endif
