/*
 * The values of a pickle or a JSON text, in a form that takes little memory: a stack of words, lists and dictionaries
 * as ranges of one array, and each text once. As soon as a dictionary of a known kind (a trace entry, a frame) is
 * complete, it becomes a record of the reader, and takes no room here any more. A value with two references is never
 * copied, and nothing recurses. One thread at a time.
 *
 * Functions that return bool return false if memory is short or the call makes no sense. `fault` then is the reason, or
 * NULL if memory is short.
 */
#pragma once

#include "base/intern.h"
#include "base/vec.h"

/* A value is one word: a tag in the low eight bits, and above it a number that depends on the tag. 0 is None. */
enum mp_value_tag {
    MP_VALUE_NONE = 0,
    MP_VALUE_FALSE,
    MP_VALUE_TRUE,
    MP_VALUE_INT,    /* signed, 56 bits */
    MP_VALUE_WIDE,   /* index into wide: a signed integer of 64 bits */
    MP_VALUE_WIDER,  /* index into wide: an unsigned integer of 64 bits, too large for a signed one */
    MP_VALUE_BIG,    /* an integer beyond 64 bits: the number is its offset in the input */
    MP_VALUE_FLOAT,  /* index into wide: the bits of a double */
    MP_VALUE_TEXT,   /* id in texts */
    MP_VALUE_OBJECT, /* index into objects */
    MP_VALUE_RECORD, /* this tag and those above: the reader's own records */
};

#define MP_VALUES_DEPTH 1000 /* most levels of containers inside containers */

enum mp_object_kind {
    MP_OBJECT_LIST,   /* also tuples */
    MP_OBJECT_DICT,   /* items are alternating keys and values */
    MP_OBJECT_SETTLED /* replaced by a record: start is its word */
};

struct mp_value_object {
    uint64_t start; /* in items */
    uint32_t count, room;
    uint8_t kind; /* enum mp_object_kind */
    bool used;    /* has been read, so it can no longer change */
};

struct mp_values;

/* Makes a record from a complete dictionary of `count` pairs, or leaves *record 0 if the reader does not want it. */
typedef bool mp_make_record(void *context, struct mp_values *values, const uint64_t *pairs, size_t count,
                            uint64_t *record);

struct mp_values {
    struct mp_intern texts;
    MP_VEC(uint64_t) stack;
    MP_VEC(size_t) marks; /* heights of the stack at which a pickle's MARK was set */
    MP_VEC(uint64_t) items;
    MP_VEC(struct mp_value_object) objects;
    MP_VEC(uint64_t) wide;
    mp_make_record *make_record;
    void *context;
    bool shared; /* objects may be referred to again: a pickle's memo */
    const char *fault;
};

static inline unsigned mp_value_tag(uint64_t value)
{
    return value & 0xff;
}

static inline uint64_t mp_value_payload(uint64_t value)
{
    return value >> 8;
}

static inline uint64_t mp_value_make(unsigned tag, uint64_t payload)
{
    return payload << 8 | tag;
}

/* False, with `fault`, if the values and `more` words take more memory than the values of any real snapshot after
 * `offset` bytes of input. Only a file that was made to fill memory has such values. */
bool mp_values_fit(struct mp_values *values, uint64_t more, uint64_t offset);
void mp_values_free(struct mp_values *values);
/* Frees all but the texts; other values can no longer be used. */
void mp_values_keep_texts(struct mp_values *values);

static inline void mp_values_push(struct mp_values *values, uint64_t value)
{
    mp_vec_add(&values->stack, value);
}

void mp_values_push_signed(struct mp_values *values, int64_t number);
void mp_values_push_unsigned(struct mp_values *values, uint64_t number);
void mp_values_push_float(struct mp_values *values, double number);
void mp_values_push_text(struct mp_values *values, const char *text, size_t length);
void mp_values_push_object(struct mp_values *values, enum mp_object_kind kind);
bool mp_values_mark(struct mp_values *values);

/* The number of values above the last mark, or above the bottom. */
static inline size_t mp_values_above(const struct mp_values *values)
{
    return values->stack.count - (values->marks.count ? values->marks.at[values->marks.count - 1] : 0);
}

/* Removes the last mark; *count is the number of values above it. */
bool mp_values_unmark(struct mp_values *values, size_t *count);
/* Pops `count` values into the list below them, or as pairs into the dictionary below them (`count` is then even). */
bool mp_values_append(struct mp_values *values, size_t count);
bool mp_values_set(struct mp_values *values, size_t count);
/* Replaces the top `count` values by a list (LIST) or a dictionary (DICT) of them. */
bool mp_values_gather(struct mp_values *values, enum mp_object_kind kind, size_t count);

/* The record that replaced an object, or the value itself. */
static inline uint64_t mp_values_resolve(const struct mp_values *values, uint64_t value)
{
    if (mp_value_tag(value) != MP_VALUE_OBJECT) return value;
    const struct mp_value_object *object = &values->objects.at[mp_value_payload(value)];
    return object->kind == MP_OBJECT_SETTLED ? object->start : value;
}

/* The items of a list or dictionary, which from then on cannot change; NULL if the value is of another kind. Valid
 * until something is appended. *count is the number of items: for a dictionary, twice the number of pairs. */
const uint64_t *mp_values_items(struct mp_values *values, uint64_t value, enum mp_object_kind kind, size_t *count);
/* Replaces an object by a record; the object's items are freed. */
void mp_values_settle(struct mp_values *values, uint64_t object, uint64_t record);

/* True if the value is an object that its reader has read and dropped: mp_values_settle() with MP_VALUE_NONE. */
static inline bool mp_values_is_gone(const struct mp_values *values, uint64_t value)
{
    return mp_value_tag(value) == MP_VALUE_OBJECT && mp_values_resolve(values, value) == MP_VALUE_NONE;
}

/* Reads a number that is not negative, without its fraction; false for all other values. */
bool mp_values_unsigned(const struct mp_values *values, uint64_t value, uint64_t *number);
bool mp_values_signed(const struct mp_values *values, uint64_t value, int64_t *number);
