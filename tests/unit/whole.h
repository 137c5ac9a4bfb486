/*
 * Whole results compared: every field of a row of a recording, of a live block, of an event, of a model. The fields of
 * each type are listed in whole.c, and an incomplete list does not compile, so new fields cannot be forgotten. String
 * ids are compared by their texts if both sides' texts are given, else as numbers.
 */
#pragma once

#include <check.h>

#include "base/intern.h"
#include "format/recording.h"
#include "model/model.h"

struct whole_field {
    const char *name;
    size_t offset, bytes;
    bool is_text; /* a string id */
};
struct whole_type {
    const char *name;
    const struct whole_field *fields;
    size_t count, bytes;
};

/* Facts about each `struct mp_...`. */
const struct whole_type *whole_mp_device(void);
const struct whole_type *whole_mp_track(void);
const struct whole_type *whole_mp_thread_info(void);
const struct whole_type *whole_mp_module(void);
const struct whole_type *whole_mp_frame(void);
const struct whole_type *whole_mp_stack_node(void);
const struct whole_type *whole_mp_symbol(void);
const struct whole_type *whole_mp_event(void);
const struct whole_type *whole_mp_request(void);
const struct whole_type *whole_mp_base_block(void);
const struct whole_type *whole_mp_block_request(void);
const struct whole_type *whole_mp_label(void);
const struct whole_type *whole_mp_block_holder(void);
const struct whole_type *whole_mp_model_holder(void);
const struct whole_type *whole_mp_block_use(void);
const struct whole_type *whole_mp_model_use(void);
const struct whole_type *whole_mp_block_metadata(void);
const struct whole_type *whole_mp_model_metadata(void);
const struct whole_type *whole_mp_model_look(void);
const struct whole_type *whole_mp_sample(void);
const struct whole_type *whole_mp_segment(void);
const struct whole_type *whole_mp_segment_part(void);
const struct whole_type *whole_mp_allocator_call(void);
const struct whole_type *whole_mp_aside(void);
const struct whole_type *whole_mp_past(void);
const struct whole_type *whole_mp_past_peak(void);
const struct whole_type *whole_mp_past_site(void);
const struct whole_type *whole_mp_ring_mark(void);
const struct whole_type *whole_mp_index_entry(void);
const struct whole_type *whole_mp_file_id(void);
const struct whole_type *whole_mp_model_label(void);
const struct whole_type *whole_mp_model_request(void);
const struct whole_type *whole_mp_model_resize(void);
const struct whole_type *whole_mp_model_note(void);
const struct whole_type *whole_mp_model_line(void);
const struct whole_type *whole_mp_model_track_sum(void);
const struct whole_type *whole_mp_job_process(void);
const struct whole_type *whole_mp_job_track(void);
const struct whole_type *whole_mp_job_site(void);
const struct whole_type *whole_mp_job_holding(void);
const struct whole_type *whole_mp_job_finding(void);
const struct whole_type *whole_mp_job_point(void);
const struct whole_type *whole_mp_job_trouble(void);

/* A sentence about the first field that differs, valid until the next call; NULL: none does. Texts may be NULL. */
const char *whole_difference(const struct whole_type *type, const void *got, const void *wanted,
                             const struct mp_intern *got_texts, const struct mp_intern *wanted_texts);

/* Every field of two `struct TYPE`s is the same. */
#define ck_whole_eq(TYPE, GOT, WANTED)                                                                                 \
    do {                                                                                                               \
        const struct TYPE *whole_got_ = (GOT), *whole_wanted_ = (WANTED);                                              \
        const char *differs_ = whole_difference(whole_##TYPE(), whole_got_, whole_wanted_, NULL, NULL);                \
        ck_assert_msg(!differs_, "%s", differs_ ? differs_ : "");                                                      \
    } while (0)

/* The writer's functions take rows by kind of chunk; NULL for kinds that are no plain rows. */
const struct whole_type *whole_of_chunk(enum mp_chunk_kind kind);

/* The differences allowed between two models of the same program. */
enum whole_model_but {
    WHOLE_BUT_FILE = 1,      /* how the file is cut into chunks, its size */
    WHOLE_BUT_START = 2,     /* its start: clocks, host, spool */
    WHOLE_BUT_COVERAGE = 4,  /* notes and counters of the recording's quality */
    WHOLE_BUT_EXIT = 8,      /* how the process ended, and when */
    WHOLE_BUT_ADDRESSES = 16 /* of blocks */
};
/* A sentence about what differs first between two models, or NULL. */
const char *whole_model_difference(const struct mp_model *got, const struct mp_model *wanted, unsigned but);

#define ck_whole_model_eq(GOT, WANTED, BUT)                                                                            \
    do {                                                                                                               \
        const char *differs_ = whole_model_difference(GOT, WANTED, BUT);                                               \
        ck_assert_msg(!differs_, "%s", differs_ ? differs_ : "");                                                      \
    } while (0)
