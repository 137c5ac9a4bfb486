/* The tables of a folded file: only what its events and base still name. One thread at a time. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "collect/fold/fold.h"
#include "format/chunk.h"

/* Takes a chunk of kinds 1 to 7. */
enum mp_status mp_fold_tables_take(struct mp_fold_tables *tables, const struct mp_chunk *chunk,
                                   struct mp_writer *writer, struct mp_error *error);
enum mp_status mp_fold_tables_flush(struct mp_fold_tables *tables, struct mp_writer *writer, struct mp_error *error);

/* The text of a string id; "" if there is none. */
const char *mp_fold_tables_text(const struct mp_fold_tables *tables, uint32_t string);
void mp_fold_tables_free(struct mp_fold_tables *tables);
