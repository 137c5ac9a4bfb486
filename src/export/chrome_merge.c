#include "export/chrome_merge.h"

#include <string.h>

#include "base/units.h"
#include "exchange/common/input.h"
#include "exchange/kineto/kineto_events.h"

#define PIECE 65536

static void mark(struct mp_map *map, int64_t pid)
{
    if ((uint64_t)pid + 1) mp_map_at(map, (uint64_t)pid + 1, NULL);
}

static bool is(const struct mp_kineto_event *event, enum mp_kineto_text which, const char *text)
{
    return !strcmp(event->texts[which], text);
}

static void widen(struct mp_chrome_input *input, int64_t ns)
{
    if (!input->any_time || ns < input->first_ns) input->first_ns = ns;
    if (!input->any_time || ns > input->last_ns) input->last_ns = ns;
    input->any_time = true;
}

static void on_event(void *context, const struct mp_kineto_event *event)
{
    struct mp_chrome_input *input = context;
    int64_t pid = mp_kineto_has(event, MP_KINETO_PID) ? event->facts[MP_KINETO_PID] : -1;
    if (is(event, MP_KINETO_PHASE, "M")) {
        if (is(event, MP_KINETO_NAME, "process_name")) mark(&input->named, pid);
        return;
    }
    input->any_memory |= is(event, MP_KINETO_NAME, "[memory]");
    input->any_out_of_memory |= is(event, MP_KINETO_NAME, "[OutOfMemory]");
    if (!mp_kineto_has(event, MP_KINETO_START_NS)) return;
    int64_t start = event->facts[MP_KINETO_START_NS], length = event->facts[MP_KINETO_DURATION_NS];
    widen(input, start);
    if (mp_kineto_has(event, MP_KINETO_DURATION_NS) && length > 0 && start <= INT64_MAX - length)
        widen(input, start + length);
    mark(&input->pids, pid);
}

static void on_trace(void *context, const struct mp_kineto_event *trace)
{
    struct mp_chrome_input *input = context;
    if (mp_kineto_has(trace, MP_KINETO_BASE_NS)) input->base_ns = trace->facts[MP_KINETO_BASE_NS];
    if (mp_kineto_has(trace, MP_KINETO_EVENTS_AT)) input->events_at = (uint64_t)trace->facts[MP_KINETO_EVENTS_AT];
}

enum mp_status mp_chrome_input_read(const char *path, struct mp_chrome_input *input, struct mp_error *error)
{
    *input = (struct mp_chrome_input){.path = path};
    const struct mp_kineto_sink sink = {.event = on_event, .trace = on_trace, .context = input};
    enum mp_status status = mp_kineto_read(path, &sink, error);
    if (status == MP_DAMAGED && input->events_at && input->any_time) {
        input->damaged = true;
        input->damage = *error;
        return MP_OK;
    }
    if (status) mp_chrome_input_free(input);
    return status;
}

void mp_chrome_input_free(struct mp_chrome_input *input)
{
    mp_map_free(&input->pids);
    mp_map_free(&input->named);
}

/* Times that are counted from 1970 are larger than this; other times are smaller. */
#define UNIX_MIN INT64_C(1000000000000000000)

static enum mp_status apart(const struct mp_chrome_input *input, bool trace_first, uint64_t ns, struct mp_error *error)
{
    char text[MP_UNIT_TEXT];
    return mp_fail(
        error, MP_INVALID,
        "%s and the recording have no moment in common: the %s ends %s before the %s begins; were they made in "
        "the same run, on the same clock?",
        input->path, trace_first ? "trace" : "recording", mp_format_duration(text, ns),
        trace_first ? "recording" : "trace");
}

enum mp_status mp_chrome_align(const struct mp_chrome_input *input, const struct mp_model *model,
                               struct mp_window *window, struct mp_error *error)
{
    int64_t start = (int64_t)model->start.realtime_ns;
    if (!input->any_time || (!input->base_ns && input->last_ns < UNIX_MIN))
        return mp_fail(error, MP_INVALID, "%s does not say when it was made: its times count from nowhere",
                       input->path);
    if (start < UNIX_MIN) return mp_fail(error, MP_INVALID, "the recording does not say when it was made");
    /* Times are on the recording's clock. Sums of times wrap if the trace's base is very large. */
    int64_t shift, first, last;
    if (__builtin_sub_overflow(input->base_ns, start, &shift) ||
        __builtin_add_overflow(input->first_ns, shift, &first) || __builtin_add_overflow(input->last_ns, shift, &last))
        return mp_fail(error, MP_INVALID, "%s has times that no clock shows", input->path);
    if (last < 0) return apart(input, true, -(uint64_t)last, error);
    if (first > 0 && (uint64_t)first > model->duration_ns)
        return apart(input, false, (uint64_t)first - model->duration_ns, error);
    mp_window_between(model, first > 0 ? (uint64_t)first : 0,
                      (uint64_t)last < model->duration_ns ? (uint64_t)last : model->duration_ns, window);
    return MP_OK;
}

/* Copies from the current offset up to offset `end`, or the file's end. */
static enum mp_status copy(struct mp_input *from, uint64_t end, struct mp_sink *sink, struct mp_error *error)
{
    while (mp_input_offset(from) < end) {
        enum mp_status status = mp_input_fill(from, 1, error);
        if (status || from->at == from->end) return status;
        uint64_t left = end - mp_input_offset(from);
        size_t size = (size_t)(from->end - from->at);
        if (size > PIECE) size = PIECE;
        if (size > left) size = (size_t)left;
        mp_buffer_append(&sink->text, from->at, size);
        from->at += size;
        mp_sink_pass(sink);
    }
    return MP_OK;
}

static enum mp_status skip(struct mp_input *from, uint64_t to, struct mp_error *error)
{
    while (mp_input_offset(from) < to) {
        enum mp_status status = mp_input_fill(from, 1, error);
        if (status || from->at == from->end) return status;
        uint64_t left = to - mp_input_offset(from);
        size_t size = (size_t)(from->end - from->at);
        from->at += size < left ? size : (size_t)left;
    }
    return MP_OK;
}

enum mp_status mp_chrome_copy_head(const struct mp_chrome_input *input, struct mp_sink *sink, struct mp_error *error)
{
    struct mp_input from;
    enum mp_status status = mp_input_open(input->path, &from, error);
    if (status) return status;
    status = copy(&from, input->events_at, sink, error);
    if (!status) mp_buffer_append_text(&sink->text, "\n");
    mp_input_close(&from);
    return status;
}

/* True if another event follows in the list. */
static enum mp_status look(struct mp_input *from, bool *event, struct mp_error *error)
{
    enum mp_status status = mp_input_fill(from, MP_INPUT_WINDOW, error);
    const unsigned char *at = from->at;
    while (at < from->end && *at <= ' ')
        at++;
    *event = at == from->end || *at != ']';
    return status;
}

enum mp_status mp_chrome_copy_rest(const struct mp_chrome_input *input, bool any_event, struct mp_sink *sink,
                                   struct mp_error *error)
{
    struct mp_input from;
    bool event;
    enum mp_status status = mp_input_open(input->path, &from, error);
    if (status) return status;
    status = skip(&from, input->events_at, error);
    if (!status) status = look(&from, &event, error);
    if (!status && event && any_event) mp_buffer_append_text(&sink->text, ",");
    if (!status) status = copy(&from, UINT64_MAX, sink, error);
    mp_input_close(&from);
    return status;
}
