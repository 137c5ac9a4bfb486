#include "exchange/kineto/kineto_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yajl_parse.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "exchange/common/input.h"

/* Numbers of JSON. They are read from their text, so that none is rounded. Pure; any thread. */

/* Reads the number times 10^shift, cut to an integer: exact except for numbers with an exponent. False if the result
 * does not fit. */
static bool decimal_integer(const char *text, size_t length, unsigned shift, int64_t *number)
{
    bool negative = length && *text == '-', fraction = false;
    uint64_t value = 0, most = negative ? UINT64_C(1) << 63 : INT64_MAX;
    for (size_t i = negative; i < length; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9') {
            char copy[64];
            if (length >= sizeof copy) return false;
            memcpy(copy, text, length);
            copy[length] = '\0';
            long double wide = strtold(copy, NULL);
            for (unsigned power = shift; power; power--)
                wide *= 10;
            if (!(wide > -9.2e18L && wide < 9.2e18L)) return false;
            *number = (int64_t)wide;
            return true;
        }
        if (fraction && !shift) continue;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text[i] - '0', &value))
            return false;
        shift -= fraction;
    }
    for (; shift; shift--)
        if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (value > most) return false;
    *number = negative ? (int64_t)-value : (int64_t)value;
    return true;
}

/* Reads the 64 bits of an address. Some writers print it as a signed number. */
static bool decimal_address(const char *text, size_t length, int64_t *number)
{
    char copy[24], *end;
    if (length >= sizeof copy) return decimal_integer(text, length, 0, number);
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (copy[strspn(copy, "-0123456789")]) return decimal_integer(text, length, 0, number);
    errno = 0;
    unsigned long long value = strtoull(copy, &end, 10);
    *number = (int64_t)value;
    return !errno && !*end && (*copy != '-' || *number < 0 || !value);
}

#define DEPTH_MAX 128
#define TEXT_MAX  (64u << 10) /* bytes of a text that are kept */

/* The parts of the trace in which a key has a meaning. */
enum place { IN_TRACE = 1, IN_DEVICE, IN_EVENT, IN_ARGUMENTS };

enum form { A_NUMBER, A_TIME, A_TEXT, RAW, THE_EVENTS, THE_DEVICES, THE_ARGUMENTS };

static const struct key {
    const char *name;
    uint8_t place, form, to;
} keys[] = {
    {"traceEvents", IN_TRACE, THE_EVENTS, 0},
    {"deviceProperties", IN_TRACE, THE_DEVICES, 0},
    {"baseTimeNanoseconds", IN_TRACE, A_NUMBER, MP_KINETO_BASE_NS},
    {"id", IN_DEVICE, A_NUMBER, MP_KINETO_ID},
    {"name", IN_DEVICE, A_TEXT, MP_KINETO_NAME},
    {"totalGlobalMem", IN_DEVICE, A_NUMBER, MP_KINETO_TOTAL_MEMORY},
    {"ph", IN_EVENT, A_TEXT, MP_KINETO_PHASE},
    {"cat", IN_EVENT, A_TEXT, MP_KINETO_CATEGORY},
    {"name", IN_EVENT, A_TEXT, MP_KINETO_NAME},
    {"pid", IN_EVENT, A_NUMBER, MP_KINETO_PID},
    {"tid", IN_EVENT, A_NUMBER, MP_KINETO_TID},
    {"ts", IN_EVENT, A_TIME, MP_KINETO_START_NS},
    {"dur", IN_EVENT, A_TIME, MP_KINETO_DURATION_NS},
    {"args", IN_EVENT, THE_ARGUMENTS, 0},
    {"Bytes", IN_ARGUMENTS, A_NUMBER, MP_KINETO_BYTES},
    {"Addr", IN_ARGUMENTS, A_NUMBER, MP_KINETO_ADDRESS},
    {"Total Allocated", IN_ARGUMENTS, A_NUMBER, MP_KINETO_ALLOCATED},
    {"Total Reserved", IN_ARGUMENTS, A_NUMBER, MP_KINETO_RESERVED},
    {"Device Id", IN_ARGUMENTS, A_NUMBER, MP_KINETO_DEVICE_ID},
    {"Device Type", IN_ARGUMENTS, A_NUMBER, MP_KINETO_DEVICE_TYPE},
    {"name", IN_ARGUMENTS, A_TEXT, MP_KINETO_ARGUMENT_NAME},
    {"Input Dims", IN_ARGUMENTS, RAW, MP_KINETO_SHAPES},
    {"Call stack", IN_ARGUMENTS, A_TEXT, MP_KINETO_CALL_STACK},
};

struct trace_reader {
    const struct mp_kineto_sink *sink;
    struct mp_input input;
    yajl_handle yajl;
    struct mp_kineto_event event, trace;
    struct mp_buffer texts[MP_KINETO_TEXTS];
    const struct key *key;     /* key of the next value; NULL: a key that we do not need */
    const struct key *list;    /* the open list on level 2: of events or of devices */
    unsigned depth, raw_depth; /* raw_depth: depth at which the open RAW value began; 0: none is open */
    bool any_events, arguments;
    bool raw_follows;
    struct mp_buffer piece; /* bytes for yajl */
    uint64_t fed;           /* bytes given to yajl before the present piece */
    size_t quiet;           /* bytes since the last token */
    struct mp_error *error;
    enum mp_status status;
};

static uint64_t offset_of(const struct trace_reader *reader)
{
    return reader->fed + yajl_get_bytes_consumed(reader->yajl);
}

static int stop(struct trace_reader *reader, enum mp_status status, const char *reason)
{
    reader->status = mp_fail(reader->error, status, "%s: %s at byte %llu", reader->input.path, reason,
                             (unsigned long long)offset_of(reader));
    return 0;
}

static enum place place_of(const struct trace_reader *reader)
{
    if (reader->depth == 1) return IN_TRACE;
    if (reader->depth == 3 && reader->list) return reader->list->form == THE_EVENTS ? IN_EVENT : IN_DEVICE;
    return reader->depth == 4 && reader->arguments ? IN_ARGUMENTS : 0;
}

/* The event, device or trace to which a value of the present key belongs. */
static struct mp_kineto_event *owner(struct trace_reader *reader)
{
    return reader->key->place == IN_TRACE ? &reader->trace : &reader->event;
}

static void keep_text(struct trace_reader *reader, enum mp_kineto_text to, const void *text, size_t length)
{
    struct mp_buffer *kept = &reader->texts[to];
    if (kept->size < TEXT_MAX) mp_buffer_append(kept, text, length < TEXT_MAX ? length : TEXT_MAX);
}

/* Takes a value of a list whose text is stored unchanged. */
static void keep_raw(struct trace_reader *reader, const void *text, size_t length, bool value)
{
    if (value && reader->raw_follows) keep_text(reader, reader->key->to, ", ", 2);
    keep_text(reader, reader->key->to, text, length);
    reader->raw_follows = value || *(const char *)text == ']';
}

static int take_number(struct trace_reader *reader, const char *text, size_t length)
{
    const struct key *key = reader->key;
    struct mp_kineto_event *to = owner(reader);
    int64_t number;
    bool fits = key->place == IN_ARGUMENTS && key->to == MP_KINETO_ADDRESS
                    ? decimal_address(text, length, &number)
                    : decimal_integer(text, length, key->form == A_TIME ? 3 : 0, &number);
    if (!fits) return stop(reader, MP_DAMAGED, "a number does not fit into 64 bits");
    to->facts[key->to] = number;
    to->known |= 1u << key->to;
    return 1;
}

static int on_number(void *context, const char *text, size_t length)
{
    struct trace_reader *reader = context;
    reader->quiet = 0;
    if (reader->raw_depth) keep_raw(reader, text, length, true);
    if (reader->raw_depth || !reader->key || reader->key->form > A_TIME) return 1;
    return take_number(reader, text, length);
}

/* Thread ids are texts in old traces. */
static bool is_number(const unsigned char *text, size_t length)
{
    size_t i = length > 1 && *text == '-';
    while (i < length && text[i] >= '0' && text[i] <= '9')
        i++;
    return i && i == length;
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    struct trace_reader *reader = context;
    const struct key *key = reader->key;
    reader->quiet = 0;
    if (reader->raw_depth || !key) return 1;
    if (key->form == A_TEXT) {
        reader->texts[key->to].size = 0;
        keep_text(reader, key->to, text, length);
    }
    if (key->to == MP_KINETO_TID && key->form == A_NUMBER && is_number(text, length))
        return take_number(reader, (const char *)text, length);
    return 1;
}

static int on_nothing(void *context)
{
    ((struct trace_reader *)context)->quiet = 0;
    return 1;
}

static int on_bool(void *context, int value)
{
    (void)value;
    return on_nothing(context);
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
    struct trace_reader *reader = context;
    reader->quiet = 0;
    if (reader->raw_depth) return 1;
    enum place place = place_of(reader);
    reader->key = NULL;
    for (size_t i = 0; place && i < sizeof keys / sizeof *keys; i++) {
        if (keys[i].place != place || strlen(keys[i].name) != length || memcmp(keys[i].name, text, length)) continue;
        reader->key = &keys[i];
        break;
    }
    return 1;
}

static int open_level(struct trace_reader *reader)
{
    reader->quiet = 0;
    return ++reader->depth <= DEPTH_MAX ? 1 : stop(reader, MP_LIMIT, "lists and objects nest deeper than 128 levels");
}

static int on_map(void *context)
{
    struct trace_reader *reader = context;
    if (!open_level(reader)) return 0;
    if (reader->raw_depth) return 1;
    if (reader->depth == 3 && reader->list) {
        reader->event = (struct mp_kineto_event){0};
        for (size_t i = 0; i < MP_KINETO_TEXTS; i++)
            mp_buffer_clear(&reader->texts[i]);
    }
    if (reader->depth == 4) reader->arguments = reader->key && reader->key->form == THE_ARGUMENTS;
    reader->key = NULL;
    return 1;
}

static int on_array(void *context)
{
    struct trace_reader *reader = context;
    if (!open_level(reader)) return 0;
    const struct key *key = reader->key;
    if (!reader->raw_depth && key && key->form == RAW) {
        reader->raw_depth = reader->depth;
        mp_buffer_clear(&reader->texts[key->to]);
        reader->raw_follows = false;
    }
    if (reader->raw_depth) {
        keep_raw(reader, reader->raw_follows ? ", [" : "[", reader->raw_follows ? 3 : 1, false);
        reader->raw_follows = false;
        return 1;
    }
    if (reader->depth == 2) {
        reader->list = key && (key->form == THE_EVENTS || key->form == THE_DEVICES) ? key : NULL;
        if (reader->list && reader->list->form == THE_EVENTS && !reader->any_events) {
            reader->any_events = true;
            reader->trace.facts[MP_KINETO_EVENTS_AT] = (int64_t)offset_of(reader);
            reader->trace.known |= 1u << MP_KINETO_EVENTS_AT;
        }
    }
    reader->key = NULL;
    return 1;
}

static void hand_over(struct trace_reader *reader, struct mp_kineto_event *event,
                      void (*take)(void *, const struct mp_kineto_event *))
{
    for (size_t i = 0; i < MP_KINETO_TEXTS; i++) {
        struct mp_buffer *text = &reader->texts[i];
        event->texts[i] = mp_buffer_text(text);
        event->lengths[i] = text->size;
    }
    if (take) take(reader->sink->context, event);
}

static int on_map_end(void *context)
{
    struct trace_reader *reader = context;
    unsigned depth = reader->depth--;
    reader->quiet = 0;
    if (reader->raw_depth) return 1;
    reader->key = NULL;
    if (depth == 4) reader->arguments = false;
    if (depth != 3 || !reader->list) return 1;
    hand_over(reader, &reader->event, reader->list->form == THE_EVENTS ? reader->sink->event : reader->sink->device);
    return 1;
}

static int on_array_end(void *context)
{
    struct trace_reader *reader = context;
    unsigned depth = reader->depth--;
    reader->quiet = 0;
    if (reader->raw_depth) keep_raw(reader, "]", 1, false);
    if (depth == reader->raw_depth) {
        reader->raw_depth = 0;
        reader->key = NULL;
    }
    if (depth == 2) reader->list = NULL;
    return 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_nothing,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_text,
    .yajl_start_map = on_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_map_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_array_end,
};

static enum mp_status not_json(struct trace_reader *reader)
{
    unsigned char *why = yajl_get_error(reader->yajl, 0, NULL, 0);
    const char *text = why ? (const char *)why : "";
    const char *colon = strstr(text, ": ");
    text = colon ? colon + 2 : text;
    int length = (int)strcspn(text, "\n");
    while (length && text[length - 1] == '.')
        length--;
    enum mp_status status =
        mp_fail(reader->error, MP_DAMAGED, "%s is not JSON at byte %llu: %.*s%s", reader->input.path,
                (unsigned long long)offset_of(reader), length, text,
                reader->list ? " (some versions of PyTorch leave quotation marks in names unescaped)" : "");
    if (why) yajl_free_error(reader->yajl, why);
    return status;
}

static enum mp_status status_of(struct trace_reader *reader, yajl_status result)
{
    if (result == yajl_status_ok) return MP_OK;
    if (reader->status) return reader->status;
    return not_json(reader);
}

/* Copies text, with spaces in place of control characters, which some traces have in texts. Between values, JSON allows
 * some control characters, and they mean a space there, too. */
static void copy_clean(unsigned char *to, const unsigned char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] < ' ' ? ' ' : from[i];
}

static enum mp_status feed_piece(struct trace_reader *reader)
{
    size_t size = reader->piece.size;
    reader->quiet += size;
    enum mp_status status = status_of(reader, yajl_parse(reader->yajl, reader->piece.data, size));
    reader->fed += size;
    mp_buffer_clear(&reader->piece);
    if (!status && reader->quiet > MP_INPUT_TOKEN)
        status = mp_fail(reader->error, MP_LIMIT, "%s: a text or number of more than 16 MiB before byte %llu",
                         reader->input.path, (unsigned long long)reader->fed);
    return status;
}

/* yajl scans an incomplete token from its beginning with each piece. So pieces double in size until the token ends;
 * otherwise a long token would take quadratic time. */
static enum mp_status feed(struct trace_reader *reader)
{
    static const size_t most = 65536;
    size_t size = (size_t)(reader->input.end - reader->input.at);
    if (size > most) size = most;
    unsigned char *room = mp_buffer_room(&reader->piece, size);
    if (!room) return mp_fail(reader->error, MP_NO_MEMORY, "out of memory for %s", reader->input.path);
    copy_clean(room, reader->input.at, size);
    mp_buffer_grew(&reader->piece, size);
    reader->input.at += size;
    return reader->piece.size < reader->quiet ? MP_OK : feed_piece(reader);
}

/* Handles the file's end: if the outermost value is not whole, the file was cut. */
static enum mp_status finish_trace(struct trace_reader *reader)
{
    yajl_status result = yajl_complete_parse(reader->yajl);
    if (result != yajl_status_ok && !reader->status)
        return mp_fail(reader->error, MP_DAMAGED, "%s is cut: its JSON ends at byte %llu in the middle",
                       reader->input.path, (unsigned long long)reader->fed);
    enum mp_status status = status_of(reader, result);
    if (status) return status;
    if (!reader->any_events)
        return mp_fail(reader->error, MP_NOT_A_RECORDING, "%s is JSON, but no Kineto trace: it has no \"traceEvents\"",
                       reader->input.path);
    hand_over(reader, &reader->trace, reader->sink->trace);
    return MP_OK;
}

static enum mp_status skip_byte_order_mark(struct trace_reader *reader)
{
    enum mp_status status = mp_input_fill(&reader->input, 3, reader->error);
    if (status || reader->input.end - reader->input.at < 3 || memcmp(reader->input.at, "\xef\xbb\xbf", 3))
        return status;
    reader->input.at += 3;
    reader->fed = 3;
    return MP_OK;
}

static enum mp_status read_all(struct trace_reader *reader)
{
    enum mp_status status = MP_OK;
    yajl_config(reader->yajl, yajl_dont_validate_strings, 1);
    status = skip_byte_order_mark(reader);
    while (!status) {
        status = mp_input_fill(&reader->input, 1, reader->error);
        if (status || reader->input.at == reader->input.end) break;
        status = feed(reader);
    }
    if (!status && reader->piece.size) status = feed_piece(reader);
    return status ? status : finish_trace(reader);
}

enum mp_status mp_kineto_read(const char *path, const struct mp_kineto_sink *sink, struct mp_error *error)
{
    struct trace_reader reader = {.sink = sink, .error = error};
    enum mp_status status = mp_input_open(path, &reader.input, error);
    if (status) return status;
    reader.yajl = yajl_alloc(&callbacks, NULL, &reader);
    if (!reader.yajl) mp_memory_lacks(0);
    status = read_all(&reader);
    if (status == MP_DAMAGED && reader.any_events) hand_over(&reader, &reader.trace, sink->trace);
    yajl_free(reader.yajl);
    mp_buffer_free(&reader.piece);
    for (size_t i = 0; i < MP_KINETO_TEXTS; i++)
        mp_buffer_free(&reader.texts[i]);
    mp_input_close(&reader.input);
    return status;
}
