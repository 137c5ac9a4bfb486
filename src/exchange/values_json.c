#include "exchange/values_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

struct json_reader {
    struct mp_values *values;
    yajl_handle parser;
    uint64_t chunk_offset;
    uint64_t quiet; /* bytes since a value began or ended */
};

static int told(struct json_reader *reader, bool done)
{
    reader->quiet = 0;
    return done;
}

static int on_null(void *context)
{
    struct json_reader *reader = context;
    return told(reader, mp_values_push(reader->values, MP_VALUE_NONE));
}

static int on_boolean(void *context, int value)
{
    struct json_reader *reader = context;
    return told(reader, mp_values_push(reader->values, value ? MP_VALUE_TRUE : MP_VALUE_FALSE));
}

/* yajl has seen that it is a number by JSON's grammar. */
static int on_number(void *context, const char *digits, size_t length)
{
    struct json_reader *reader = context;
    reader->quiet = 0;
    char text[64], *end;
    uint64_t offset = reader->chunk_offset + yajl_get_bytes_consumed(reader->parser);
    bool whole = !memchr(digits, '.', length) && !memchr(digits, 'e', length) && !memchr(digits, 'E', length);
    if (length >= sizeof text && whole) return mp_values_push(reader->values, mp_value_make(MP_VALUE_BIG, offset));
    if (length >= sizeof text) length = sizeof text - 1; /* digits that no double holds */
    memcpy(text, digits, length);
    text[length] = '\0';
    if (!whole) return mp_values_push_float(reader->values, strtod(text, NULL));
    errno = 0;
    int64_t with_sign = strtoll(text, &end, 10);
    if (!errno) return mp_values_push_signed(reader->values, with_sign);
    errno = 0;
    uint64_t without = strtoull(text, &end, 10);
    if (!errno && *text != '-') return mp_values_push_unsigned(reader->values, without);
    return mp_values_push(reader->values, mp_value_make(MP_VALUE_BIG, offset));
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    struct json_reader *reader = context;
    size_t kept = length < MP_INPUT_WINDOW ? length : MP_INPUT_WINDOW;
    return told(reader, mp_values_push_text(reader->values, (const char *)text, kept));
}

static int on_start(struct json_reader *reader, enum mp_object_kind kind)
{
    return told(reader, mp_values_push_object(reader->values, kind) && mp_values_mark(reader->values));
}

static int on_start_map(void *context)
{
    return on_start(context, MP_OBJECT_DICT);
}

static int on_start_array(void *context)
{
    return on_start(context, MP_OBJECT_LIST);
}

static int on_end_map(void *context)
{
    struct json_reader *reader = context;
    size_t count;
    return told(reader, mp_values_unmark(reader->values, &count) && mp_values_set(reader->values, count));
}

static int on_end_array(void *context)
{
    struct json_reader *reader = context;
    size_t count;
    return told(reader, mp_values_unmark(reader->values, &count) && mp_values_append(reader->values, count));
}

static enum mp_status failed(struct json_reader *reader, const struct mp_input *input, yajl_status status,
                             struct mp_error *error)
{
    const char *fault = reader->values->fault;
    unsigned long long offset = reader->chunk_offset + yajl_get_bytes_consumed(reader->parser);
    if (status == yajl_status_client_canceled && !fault)
        return mp_fail(error, MP_NO_MEMORY, "not enough memory for %s", input->path);
    if (status == yajl_status_client_canceled)
        return mp_fail(error, MP_DAMAGED, "%s makes no sense as a snapshot: at byte %llu it %s", input->path, offset,
                       fault);
    unsigned char *text = yajl_get_error(reader->parser, 0, NULL, 0);
    int length = text ? (int)strcspn((const char *)text, "\n") : 0;
    enum mp_status result = mp_fail(error, MP_DAMAGED, "%s is no JSON from byte %llu on (%.*s)", input->path, offset,
                                    length, text ? (const char *)text : "");
    if (text) yajl_free_error(reader->parser, text);
    return result;
}

static enum mp_status parse(struct json_reader *reader, struct mp_input *input, struct mp_error *error)
{
    for (;;) {
        enum mp_status status = mp_input_fill(input, 1, error);
        if (status) return status;
        size_t size = (size_t)(input->end - input->at);
        reader->chunk_offset = mp_input_offset(input);
        reader->quiet += size;
        yajl_status parsed = size ? yajl_parse(reader->parser, input->at, size) : yajl_complete_parse(reader->parser);
        if (parsed != yajl_status_ok) {
            if (!size)
                return mp_fail(error, MP_DAMAGED, "%s is cut: the JSON ends at byte %llu, in the middle", input->path,
                               (unsigned long long)reader->chunk_offset);
            return failed(reader, input, parsed, error);
        }
        if (!size) return MP_OK;
        input->at = input->end;
        if (reader->quiet > MP_INPUT_TOKEN)
            return mp_fail(error, MP_LIMIT, "%s: a text or number of more than 16 MiB before byte %llu", input->path,
                           (unsigned long long)mp_input_offset(input));
    }
}

enum mp_status mp_values_read_json(struct mp_input *input, struct mp_values *values, uint64_t *top,
                                   struct mp_error *error)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_boolean,
        .yajl_number = on_number,
        .yajl_string = on_text,
        .yajl_map_key = on_text,
        .yajl_start_map = on_start_map,
        .yajl_end_map = on_end_map,
        .yajl_start_array = on_start_array,
        .yajl_end_array = on_end_array,
    };
    struct json_reader reader = {.values = values};
    reader.parser = yajl_alloc(&callbacks, NULL, &reader);
    if (!reader.parser) return mp_fail(error, MP_NO_MEMORY, "not enough memory for %s", input->path);
    enum mp_status status = parse(&reader, input, error);
    yajl_free(reader.parser);
    if (!status) *top = values->stack.at[0];
    return status;
}
