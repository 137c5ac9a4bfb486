#include "export/value_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "exchange/pytorch/pickle_opcodes.h"

#define FLUSH_BYTES (1 << 20)
#define BATCH       1000

static void put_byte(struct mp_value_out *value, unsigned byte)
{
    unsigned char at = (unsigned char)byte;
    mp_buffer_append(&value->text, &at, 1);
}

/* Writes an opcode and its argument, little-endian. */
static void put_op(struct mp_value_out *value, enum mp_pickle_opcode opcode, uint64_t argument, unsigned bytes)
{
    put_byte(value, opcode);
    for (unsigned i = 0; i < bytes; i++)
        put_byte(value, argument >> (8 * i) & 0xff);
}

static void drain(struct mp_value_out *value)
{
    size_t size = value->text.size;
    if (!value->sys_errno && size && fwrite(value->text.data, 1, size, value->out) != size)
        value->sys_errno = errno ? errno : EIO;
    mp_buffer_clear(&value->text);
}

void mp_value_out_start(struct mp_value_out *value, FILE *out, bool as_json)
{
    *value = (struct mp_value_out){.out = out, .as_json = as_json};
    mp_json_start(&value->json, &value->text);
    value->json.flat = true;
    if (!as_json) put_op(value, MP_OP_PROTO, 4, 1);
}

enum mp_status mp_value_out_finish(struct mp_value_out *value, struct mp_error *error)
{
    if (!value->as_json) put_byte(value, MP_OP_STOP);
    drain(value);
    mp_buffer_free(&value->text);
    mp_intern_free(&value->texts);
    mp_vec_free(&value->text_memos);
    errno = value->sys_errno;
    return value->sys_errno ? mp_fail_errno(error, "cannot write the snapshot") : MP_OK;
}

static void put_again(struct mp_value_out *value, uint32_t memo)
{
    put_op(value, memo < 256 ? MP_OP_BINGET : MP_OP_LONG_BINGET, memo, memo < 256 ? 1 : 4);
}

static size_t clean_length(const char *text, size_t length)
{
    size_t clean = 0;
    for (size_t at = 0; at < length;) {
        uint32_t point;
        size_t taken = mp_utf8_next((const unsigned char *)text + at, length - at, &point);
        clean += point == MP_UTF8_BAD ? 3 : taken;
        at += taken;
    }
    return clean;
}

static void put_text(struct mp_value_out *value, const char *text)
{
    uint32_t id = mp_intern_add_text(&value->texts, text);
    mp_vec_grow_to(&value->text_memos, (size_t)id + 1);
    uint32_t *memo = &value->text_memos.at[id];
    if (*memo) {
        put_again(value, *memo - 1);
        return;
    }
    size_t length = strlen(text), clean = clean_length(text, length);
    put_op(value, clean < 256 ? MP_OP_SHORT_BINUNICODE : MP_OP_BINUNICODE, clean, clean < 256 ? 1 : 4);
    mp_buffer_append_utf8(&value->text, text, length);
    put_byte(value, MP_OP_MEMOIZE);
    *memo = ++value->memo;
}

/* Begins an item. In a pickle an open mark must precede items: the list or dictionary takes all items after the last
 * mark. */
static void begin_item(struct mp_value_out *value, const char *key)
{
    if (value->text.size >= FLUSH_BYTES) drain(value);
    if (value->as_json || !value->depth) return;
    struct mp_value_level *level = &value->levels[value->depth - 1];
    if (level->count && level->count % BATCH == 0) put_byte(value, level->list ? MP_OP_APPENDS : MP_OP_SETITEMS);
    if (level->count % BATCH == 0) put_byte(value, MP_OP_MARK);
    level->count++;
    if (key) put_text(value, key);
}

static void begin_container(struct mp_value_out *value, const char *key, bool list)
{
    begin_item(value, key);
    if (value->as_json) {
        (list ? mp_json_array : mp_json_object)(&value->json, key);
        return;
    }
    put_byte(value, list ? MP_OP_EMPTY_LIST : MP_OP_EMPTY_DICT);
    if (value->share) {
        put_byte(value, MP_OP_MEMOIZE);
        *value->share = ++value->memo;
        value->share = NULL;
    }
    value->levels[value->depth++] = (struct mp_value_level){.list = list};
}

static void end_container(struct mp_value_out *value, bool list)
{
    if (value->as_json) {
        (list ? mp_json_end_array : mp_json_end_object)(&value->json);
        return;
    }
    if (value->levels[--value->depth].count) put_byte(value, list ? MP_OP_APPENDS : MP_OP_SETITEMS);
}

void mp_value_dict(struct mp_value_out *value, const char *key)
{
    begin_container(value, key, false);
}

void mp_value_end_dict(struct mp_value_out *value)
{
    end_container(value, false);
}

void mp_value_list(struct mp_value_out *value, const char *key)
{
    begin_container(value, key, true);
}

void mp_value_end_list(struct mp_value_out *value)
{
    end_container(value, true);
}

void mp_value_text(struct mp_value_out *value, const char *key, const char *text)
{
    begin_item(value, key);
    if (value->as_json)
        mp_json_text(&value->json, key, text);
    else
        put_text(value, text);
}

static void put_number(struct mp_value_out *value, uint64_t number)
{
    if (number < 256) {
        put_op(value, MP_OP_BININT1, number, 1);
    } else if (number < 65536) {
        put_op(value, MP_OP_BININT2, number, 2);
    } else if (number < UINT64_C(1) << 31) {
        put_op(value, MP_OP_BININT, number, 4);
    } else {
        /* Integers in a pickle are signed, so the top bit must be zero. */
        unsigned bytes = 5;
        while (bytes < 8 && number >> (8 * bytes - 1))
            bytes++;
        bool full = bytes == 8 && number >> 63;
        put_op(value, MP_OP_LONG1, bytes + full, 1);
        for (unsigned i = 0; i < bytes; i++)
            put_byte(value, number >> (8 * i) & 0xff);
        if (full) put_byte(value, 0);
    }
}

void mp_value_number(struct mp_value_out *value, const char *key, uint64_t number)
{
    begin_item(value, key);
    if (value->as_json)
        mp_json_number(&value->json, key, number);
    else
        put_number(value, number);
}

static void put_negative(struct mp_value_out *value, int64_t number)
{
    if (number >= INT32_MIN) {
        put_op(value, MP_OP_BININT, (uint32_t)number, 4);
    } else {
        put_op(value, MP_OP_LONG1, 8, 1);
        for (unsigned i = 0; i < 8; i++)
            put_byte(value, (uint64_t)number >> (8 * i) & 0xff);
    }
}

void mp_value_signed(struct mp_value_out *value, const char *key, int64_t number)
{
    begin_item(value, key);
    if (value->as_json)
        mp_json_signed(&value->json, key, number);
    else if (number < 0)
        put_negative(value, number);
    else
        put_number(value, (uint64_t)number);
}

/* Big-endian in a pickle, unlike all other numbers. */
void mp_value_float(struct mp_value_out *value, const char *key, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    begin_item(value, key);
    if (value->as_json)
        mp_json_real(&value->json, key, number);
    else
        put_op(value, MP_OP_BINFLOAT, __builtin_bswap64(bits), 8);
}

void mp_value_bool(struct mp_value_out *value, const char *key, bool is)
{
    begin_item(value, key);
    if (value->as_json)
        mp_json_bool(&value->json, key, is);
    else
        put_byte(value, is ? MP_OP_NEWTRUE : MP_OP_NEWFALSE);
}

void mp_value_pair(struct mp_value_out *value, const char *key, uint64_t first, uint64_t second)
{
    if (value->as_json) {
        mp_value_list(value, key);
        mp_value_number(value, NULL, first);
        mp_value_number(value, NULL, second);
        mp_value_end_list(value);
        return;
    }
    begin_item(value, key);
    put_number(value, first);
    put_number(value, second);
    put_byte(value, MP_OP_TUPLE2);
}

bool mp_value_again(struct mp_value_out *value, const char *key, uint32_t *memo)
{
    if (value->as_json) return false;
    if (!*memo) {
        value->share = memo;
        return false;
    }
    begin_item(value, key);
    put_again(value, *memo - 1);
    return true;
}
