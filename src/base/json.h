/*
 * Writes one JSON value into a buffer. The writer takes care of commas and nesting; the caller must give every value
 * inside an object a key. Strings may hold any bytes: invalid UTF-8 becomes U+FFFD. Numbers are exact 64-bit integers.
 * One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct mp_json {
    struct mp_buffer *out;
    unsigned depth;
    bool follows; /* a value precedes the next one, so a comma is needed */
    bool flat;    /* set by the caller: everything from here on stays on one line */
};

void mp_json_start(struct mp_json *json, struct mp_buffer *out);
void mp_json_object(struct mp_json *json, const char *key); /* key NULL: an element, or the outermost value */
void mp_json_end_object(struct mp_json *json);
void mp_json_array(struct mp_json *json, const char *key);
void mp_json_end_array(struct mp_json *json);

/* An array of `count` values. `put` writes the value with index `i`, without a key. */
#define MP_JSON_LIST(json, key, i, count, put)                                                                         \
    do {                                                                                                               \
        mp_json_array(json, key);                                                                                      \
        for (size_t i = 0; i < (count); i++)                                                                           \
            put;                                                                                                       \
        mp_json_end_array(json);                                                                                       \
    } while (0)

void mp_json_text(struct mp_json *json, const char *key, const char *text); /* NULL: null */
void mp_json_bytes_of_text(struct mp_json *json, const char *key, const char *text, size_t length);
void mp_json_number(struct mp_json *json, const char *key, uint64_t number);
void mp_json_signed(struct mp_json *json, const char *key, int64_t number);
void mp_json_real(struct mp_json *json, const char *key, double number);        /* with a fraction (".0" at least) or
                                                                                 * exponent */
void mp_json_digits(struct mp_json *json, const char *key, const char *number); /* a number in JSON, copied as it is */
void mp_json_known(struct mp_json *json, const char *key, uint64_t number); /* UINT64_MAX (MP_BYTES_UNKNOWN): null */
void mp_json_share(struct mp_json *json, const char *key, uint64_t part, uint64_t whole); /* 0 to 1; whole 0: null */
void mp_json_bool(struct mp_json *json, const char *key, bool value);
void mp_json_null(struct mp_json *json, const char *key);

/* Appends the text as a JSON string with its quotes. */
void mp_json_quote(struct mp_buffer *out, const char *text, size_t length);

/* Appends the text of member `key` of a JSON object, which this writer must have made, on one line. False if the object
 * has no such member, or if the member is no text. */
bool mp_json_member(const char *object, const char *key, struct mp_buffer *out);
