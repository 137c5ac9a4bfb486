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
/* If the object was written before, *memo has its number: writes a reference, and returns true. If *memo is 0, the
 * caller writes the object, a dictionary or list, and its number is stored in *memo. */
bool mp_value_again(struct mp_value_out *value, const char *key, uint32_t *memo);
