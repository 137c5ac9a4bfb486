/*
 * The recording behind memprof_read.h, for the parts of the library. See there for threads and ownership.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/intern.h"
#include "base/map.h"
#include "memprof_read.h"
#include "model/stack.h"

#define MP_READ_COLUMNS 24
#define MP_READ_TABLES  24

struct mp_read_table {
    struct memprof_table shown; /* .name NULL: not made yet */
    struct memprof_column columns[MP_READ_COLUMNS];
    void *owned[MP_READ_COLUMNS]; /* by column; NULL: the values are the model's */
};

struct memprof_recording {
    atomic_int users;     /* the opener, and Arrow arrays */
    pthread_mutex_t lock; /* for all below */
    struct mp_model *model;
    /* Texts that are not in the model. Their numbers follow those of the model's. Each text has one number. */
    struct mp_intern words;
    MP_VEC(char *) copies; /* of `words`, which move when one is added; by number in `words` */
    struct mp_map known;   /* pointers of texts that stay where they are, to their numbers */
    struct mp_read_table tables[MP_READ_TABLES];
    struct mp_stack_lines lines; /* of memprof_read_stack() */
    MP_VEC(struct memprof_line) shown_lines;
};

/* Ends one use. */
void mp_read_release(struct memprof_recording *recording);

/* The number of a text; 0 for NULL and "". Code that cannot go on without memory. */
uint32_t mp_read_number(struct memprof_recording *recording, const char *text);

/* Does the same for a text that lives as long as the recording. Much quicker for one that was asked for before. */
uint32_t mp_read_number_kept(struct memprof_recording *recording, const char *text);

/* The text of a number; NULL for 0 and unknown numbers. */
const char *mp_read_text(const struct memprof_recording *recording, uint32_t number, size_t *length);

/* One more than the highest number of a text. */
uint32_t mp_read_texts(const struct memprof_recording *recording);
