#include "exchange/rmm/rmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/common/import_calls.h"
#include "model/stack.h"

#define LINE_MAX_BYTES 1024
#define DAY_NS         (86400 * INT64_C(1000000000))

static const char header[] = "Thread,Time,Action";

struct rmm_reader {
    struct mp_input *input;
    struct mp_import_log log;
    uint64_t line, line_offset;
    int64_t day_ns, last_ns; /* whole days since the first line; the previous line's time with its day */
    uint64_t backwards;
    uint16_t track;
};

/* Reads at most 18 digits at *at, and moves *at behind them. */
static bool take_number(const char **at, int64_t *number)
{
    const char *begin = *at;
    for (*number = 0; **at >= '0' && **at <= '9' && *at - begin < 18; ++*at)
        *number = *number * 10 + (**at - '0');
    return *at != begin;
}

static bool take_char(const char **at, char wanted)
{
    return *(*at)++ == wanted;
}

/* Reads the part of a second, in any number of digits. */
static bool take_fraction(const char **at, int64_t *ns)
{
    const char *begin = *at;
    if (!take_number(at, ns) || *at - begin > 9) return false;
    for (ptrdiff_t digits = *at - begin; digits < 9; digits++)
        *ns *= 10;
    return true;
}

/* Reads "14:21:19.998533", "14:21:19:998533" in older versions, or seconds since 1970 "1634567890.123456". */
static bool take_time(const char **at, int64_t *ns, bool *dated)
{
    int64_t first, minutes, seconds, fraction;
    if (!take_number(at, &first)) return false;
    *dated = **at == '.';
    if (*dated) {
        ++*at;
        if (first > INT64_C(9000000000) || !take_fraction(at, &fraction)) return false;
        *ns = first * INT64_C(1000000000) + fraction;
        return take_char(at, ',');
    }
    if (!take_char(at, ':') || !take_number(at, &minutes) || !take_char(at, ':') || !take_number(at, &seconds) ||
        (**at != '.' && **at != ':'))
        return false;
    ++*at;
    if (first > 23 || minutes > 59 || seconds > 60 || !take_fraction(at, &fraction)) return false;
    *ns = ((first * 60 + minutes) * 60 + seconds) * INT64_C(1000000000) + fraction;
    return take_char(at, ',');
}

static bool take_action(const char **at, uint8_t *type)
{
    static const struct {
        const char *name;
        uint8_t type;
    } actions[] = {{"allocate,", MP_EVENT_ALLOC},
                   {"free,", MP_EVENT_FREE},
                   {"deallocate,", MP_EVENT_FREE},
                   {"allocate failure,", MP_EVENT_OOM}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        size_t length = strlen(actions[i].name);
        if (strncmp(*at, actions[i].name, length)) continue;
        *at += length;
        *type = actions[i].type;
        return true;
    }
    return false;
}

/* Reads a pointer such as "0x7f00"; "(nil)" and "0" are NULL. */
static bool take_pointer(const char **at, uint64_t *pointer)
{
    char *end;
    *pointer = 0;
    if (!strncmp(*at, "(nil)", 5)) {
        *at += 5;
    } else {
        if (!strchr("0123456789abcdefABCDEF", **at) || !**at) return false;
        *pointer = strtoull(*at, &end, 16);
        *at = end;
    }
    return take_char(at, ',');
}

static bool parse_line(const char *at, struct mp_import_call *call, int64_t *tid, bool *dated)
{
    int64_t bytes;
    if (!take_number(&at, tid) || !take_char(&at, ',') || !take_time(&at, &call->ns, dated) ||
        !take_action(&at, &call->type) || !take_pointer(&at, &call->address) || !take_number(&at, &bytes))
        return false;
    call->bytes = (uint64_t)bytes;
    return *at == ',' || !*at; /* old versions have no stream after it */
}

/* Adds the day, which times in the log lack: a time more than half a day back belongs to the next day. */
static int64_t add_day(struct rmm_reader *reader, int64_t ns, bool dated)
{
    if (dated) return ns;
    if (reader->log.calls.count && ns + reader->day_ns < reader->last_ns - DAY_NS / 2) reader->day_ns += DAY_NS;
    return ns + reader->day_ns;
}

static bool take_line(struct rmm_reader *reader, const char *line)
{
    struct mp_import_call call = {.track = reader->track, .kind = MP_KIND_DEVICE};
    int64_t tid;
    bool dated;
    if (!*line || !strncmp(line, header, sizeof header - 1)) return true;
    if (!parse_line(line, &call, &tid, &dated)) return false;
    call.ns = add_day(reader, call.ns, dated);
    if (reader->log.calls.count && call.ns < reader->last_ns) { /* the clock went back: keep the log's order */
        call.ns = reader->last_ns;
        reader->backwards++;
    }
    reader->last_ns = call.ns;
    reader->log.dated |= dated;
    call.thread = mp_import_thread(&reader->log, (uint32_t)tid);
    mp_import_call(&reader->log, &call);
    return true;
}

/* Reads the next line without its end; false at the file's end. */
static enum mp_status next_line(struct rmm_reader *reader, char line[LINE_MAX_BYTES], bool *more,
                                struct mp_error *error)
{
    struct mp_input *input = reader->input;
    enum mp_status status = mp_input_fill(input, LINE_MAX_BYTES, error);
    *more = !status && input->at < input->end;
    if (!*more) return status;
    size_t left = (size_t)(input->end - input->at);
    const unsigned char *end = memchr(input->at, '\n', left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES);
    size_t length = end ? (size_t)(end - input->at) : left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES - 1;
    reader->line++;
    reader->line_offset = mp_input_offset(input);
    memcpy(line, input->at, length);
    input->at += length + (end ? 1 : 0);
    while (length && (line[length - 1] == '\r' || line[length - 1] == ' '))
        length--;
    line[length] = '\0';
    return memchr(line, '\0', length)
               ? mp_fail(error, MP_DAMAGED, "%s: line %llu (byte %llu) holds a NUL byte", input->path,
                         (unsigned long long)reader->line, (unsigned long long)reader->line_offset)
               : MP_OK;
}

static enum mp_status read_lines(struct rmm_reader *reader, struct mp_error *error)
{
    char line[LINE_MAX_BYTES];
    bool more = true;
    while (more) {
        enum mp_status status = next_line(reader, line, &more, error);
        if (status) return status;
        if (more && !take_line(reader, line))
            return mp_fail(error, MP_DAMAGED,
                           "%s: line %llu (byte %llu) is no line of an RMM log: Thread,Time,Action,Pointer,Size,Stream",
                           reader->input->path, (unsigned long long)reader->line,
                           (unsigned long long)reader->line_offset);
    }
    return reader->log.calls.count
               ? MP_OK
               : mp_fail(error, MP_NOT_A_RECORDING, "%s is an RMM log without a line", reader->input->path);
}

/* Reads ".dev3" at the end of the name, or before a suffix that was added. */
static int device_of(const char *path, bool *known)
{
    const char *name = mp_path_short(path), *found = strstr(name, ".dev");
    *known = found && found[4] >= '0' && found[4] <= '9';
    return *known ? (int)(strtoul(found + 4, NULL, 10) & 0x7f) : 0;
}

bool mp_rmm_looks_like(const unsigned char *text, size_t size)
{
    char line[LINE_MAX_BYTES];
    struct mp_import_call call;
    int64_t tid;
    bool dated;
    if (size >= sizeof header - 1 && !memcmp(text, header, sizeof header - 1)) return true;
    const unsigned char *end = memchr(text, '\n', size < sizeof line ? size : sizeof line - 1);
    if (!end) return false;
    memcpy(line, text, (size_t)(end - text));
    line[end - text] = '\0';
    return parse_line(line, &call, &tid, &dated);
}

enum mp_status mp_rmm_load(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    struct rmm_reader reader = {.input = input, .log = {.format = "rmm"}};
    bool known;
    int device = device_of(input->path, &known);
    reader.track = mp_import_track(&reader.log, MP_DEVICE_CUDA, device, MP_LAYER_APP, "rmm");
    enum mp_status status = read_lines(&reader, error);
    if (!known) mp_import_note(&reader.log, "the log does not say which GPU it is of; it stands here as cuda:0");
    mp_import_note(&reader.log, "an RMM log has no stacks");
    if (reader.backwards)
        mp_import_note(&reader.log, "times that go back, and were moved to the line before: %llu",
                       (unsigned long long)reader.backwards);
    if (!status) status = mp_import_log_model(&reader.log, input->path, model, error);
    mp_import_log_free(&reader.log);
    return status;
}
