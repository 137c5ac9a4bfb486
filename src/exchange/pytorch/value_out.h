/*
 * Writes one value (of dictionaries, lists, texts and numbers) as a Python pickle of protocol 4, or as JSON. Callers
 * need not know the difference. Pickles stay within what PyTorch's own viewer can read: lists and dictionaries grow by
 * at most 1000 items at a time, and an object with several references is written once. Texts become UTF-8. One thread
 * at a time.
 */
#pragma once

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/model.h"

/*
 * Stacks of a recording as lists of frames in a PyTorch snapshot: {"name", "filename", "line"}, innermost first. A
 * pickle holds each line and each stack once. One thread at a time.
 */

struct mp_stack_out {
    const struct mp_model *model;
    struct mp_value_out *value;
    uint32_t *line_memos, *frame_memos, *stack_memos; /* memo numbers of written objects, by line, frame, stack */
    uint32_t cut_memo;
};

/* The caller frees `out` in any case. */
void mp_stack_out_init(struct mp_stack_out *out, const struct mp_model *model, struct mp_value_out *value);
/* Writes the stack under "frames". */
void mp_stack_out_put(struct mp_stack_out *out, uint32_t stack);
void mp_stack_out_free(struct mp_stack_out *out);

#define MP_VALUE_DEPTH 24

struct mp_value_out {
    FILE *out;
    bool as_json;
    struct mp_buffer text; /* not yet written to out */
    struct mp_json json;
    struct mp_value_level {
        bool list;
        size_t count;
    } levels[MP_VALUE_DEPTH];
    unsigned depth;
    uint32_t memo; /* number of objects so far that a pickle can refer to */
    struct mp_intern texts;
    MP_VEC(uint32_t) text_memos; /* by id in texts: number in the memo + 1 */
    uint32_t *share;             /* where to store the next container's number */
    int sys_errno;               /* errno of a failed write */
};

/* The caller keeps `out`. *value must not move until it is finished. */
void mp_value_out_start(struct mp_value_out *value, FILE *out, bool as_json);
/* Writes the rest. MP_IO: a write failed. Frees everything in any case. */
enum mp_status mp_value_out_finish(struct mp_value_out *value, struct mp_error *error);

/* `key` is NULL in a list and for the outermost value. */
void mp_value_dict(struct mp_value_out *value, const char *key);
void mp_value_end_dict(struct mp_value_out *value);
void mp_value_list(struct mp_value_out *value, const char *key);
void mp_value_end_list(struct mp_value_out *value);
void mp_value_text(struct mp_value_out *value, const char *key, const char *text);
void mp_value_number(struct mp_value_out *value, const char *key, uint64_t number);
void mp_value_signed(struct mp_value_out *value, const char *key, int64_t number);
void mp_value_float(struct mp_value_out *value, const char *key, double number);
void mp_value_bool(struct mp_value_out *value, const char *key, bool is);
/* A tuple of two numbers; in JSON a list. */
void mp_value_pair(struct mp_value_out *value, const char *key, uint64_t first, uint64_t second);
