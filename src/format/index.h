/*
 * The index at the end of a finished file. Pure but for reading the file.
 */
#ifndef MP_FORMAT_INDEX_H
#define MP_FORMAT_INDEX_H

#include "base/vec.h"
#include "format/reader.h"
#include "format/scan.h"

struct mp_index {
    struct mp_index_entry *at;
    size_t count, room;
};

/* Reads it anew; *scan has looked at the file and is not changed. The first chunk begins at `start`. MP_NOT_FOUND where
 * there is none, or where it does not name every chunk, one after the other. */
enum mp_status mp_index_read(const struct mp_scan *scan, uint64_t start, struct mp_index *index,
                             struct mp_error *error);

#endif
