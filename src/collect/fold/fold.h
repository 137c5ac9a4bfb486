/*
 * Keeps a recording bounded: makes from a file that is being written a new one with only its newest events. Of the
 * older events these effects remain:
 *
 *     live blocks       with stack, birth and number
 *     peaks             each track's, with its time and its blocks by site
 *     allocators        their memory
 *     steps, regions    the current step and the open regions, repeated as events; the numbers of steps and events
 *     counters          the highest and the last sampled value
 *
 * For instance a file has 2000 events and keeps 1000. Event 700 allocated block X, which still lives, and event 800
 * allocated block Y, which event 900 freed. The new file has X among its live blocks, with number 700 and the stack of
 * event 700, and nothing of Y. If the peak was at event 850, the new file has its bytes, its time and both sites.
 *
 * Pure except for the files; one thread at a time, any thread.
 */
#ifndef MP_COLLECT_FOLD_H
#define MP_COLLECT_FOLD_H

#include "base/vec.h"
#include "format/writer.h"

struct mp_folded {
    struct mp_writer *writer; /* of the new file, positioned at its end */
    uint64_t events;          /* in the new file, repeated ones included */
    uint64_t next_offset;     /* the old file's chunks from here on are not in the new one yet */
};

/* Folds the file that `from` describes, which has `events` events, so that `keep` are left (or as many as must be
 * repeated, if that is more). Takes over `fd`, an empty file. The writer then stands at the end of what `from`
 * describes. */
enum mp_status mp_fold(const struct mp_written *from, uint64_t events, uint64_t keep, int fd, struct mp_folded *folded,
                       struct mp_error *error);

/*
 * The tables of a file on their way into another one: gathered, so that many small chunks become few. Texts stay known.
 * One thread at a time.
 */

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
