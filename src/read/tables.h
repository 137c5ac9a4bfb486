/* The tables of the reading library (memprof_read.h), row by row out of a model. Pure. */
#pragma once

#include <stddef.h>

#include "read/recording.h"

/* Fills the table with that number in the list of mp_read_table_name(). Code that cannot go on without memory. */
void mp_read_table_fill(struct memprof_recording *recording, size_t number, struct mp_read_table *table);

/* NULL after the last. */
const char *mp_read_table_name(size_t number);
