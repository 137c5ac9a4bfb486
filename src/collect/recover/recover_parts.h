/* Shared by the parts of recovery: the file's contents (recover_copy.c), and the rest (recover.c). Not for others. */
#ifndef MP_COLLECT_RECOVER_PARTS_H
#define MP_COLLECT_RECOVER_PARTS_H

#include "collect/recover/recover.h"

struct mp_recovering {
    struct mp_reader *reader;       /* NULL: there is no file */
    struct mp_recording *recording; /* NULL: there is no spool */
    struct mp_writer *writer;       /* without a spool; else the recording's */
    struct mp_recovery *result;
    struct mp_event *events; /* room for a chunk's events in the writer's form */
    struct mp_schedule schedule;
    uint64_t lost_chunks;  /* of the file, so far */
    struct mp_state alone; /* without a spool, for the parts of bases; else the recording's */
    bool coverage_copied, exit_copied;
};

/* Copies the file's contents into the new one, and into the recording's state where there is one. Losses of the file
 * are losses of the new one, too. */
enum mp_status mp_recover_copy(struct mp_recovering *recovering, struct mp_writer *writer, struct mp_error *error);

#endif
