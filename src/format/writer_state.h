/* Only for the writer's own files: writer.c writes chunks, writer_copy.c copies chunks of another file. */
#pragma once

#include "base/vec.h"
#include "format/chunk_out.h"
#include "format/layout.h"
#include "format/tables.h"
#include "format/writer.h"

struct mp_writer {
    int fd;
    uint64_t offset; /* bytes of whole objects in the file */
    uint32_t sequence;
    uint64_t next_block;
    struct mp_table_counts counts;
    uint64_t text_bytes; /* bytes of all strings together */
    struct mp_chunk_out chunk;
    struct mp_events_out *events;
    MP_VEC(struct mp_index_entry) index;
    uint64_t *scratch;       /* MP_CHUNK_ENTRIES values */
    struct mp_error failure; /* the first write's failure; every later call repeats it */
};

enum mp_status mp_writer_failure(const struct mp_writer *writer, struct mp_error *error);
/* Writes all `size` bytes. If that fails, truncates the file to its former length. */
enum mp_status mp_writer_put(struct mp_writer *writer, const void *data, size_t size, struct mp_error *error);
