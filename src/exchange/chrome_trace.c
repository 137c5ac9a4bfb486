#include "exchange/chrome_trace.h"

#include <string.h>

#include "analysis/level.h"
#include "base/json.h"
#include "exchange/sink.h"
#include "model/spans.h"
#include "model/track.h"

/* Steps have a row of their own: regions on a thread's row may cross their borders, and rows must nest. */
#define STEPS_TID 0

#define POINTS_EXACT 1000000 /* changes of one counter that are written one by one */
#define THIN_PARTS   100000  /* parts of the recording's time, four points each, beyond that */

struct trace {
    struct mp_sink sink;
    bool any_event;
    uint32_t pid;
};

static void quote(struct trace *trace, const char *text)
{
    mp_json_quote(&trace->sink.text, text, strlen(text));
}

/* Begins an event up to its arguments: {"ph": ..., "pid": ..., "tid": ..., "ts": ..., "name": ... */
static void begin_event(struct trace *trace, const char *phase, uint32_t tid, uint64_t ns, const char *name)
{
    mp_sink_pass(&trace->sink);
    mp_buffer_printf(&trace->sink.text, "%s{\"ph\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": %llu.%03u, \"name\": ",
                     trace->any_event ? ",\n" : "", phase, trace->pid, tid, (unsigned long long)(ns / 1000),
                     (unsigned)(ns % 1000));
    quote(trace, name);
    trace->any_event = true;
}

static void name_event(struct trace *trace, const char *what, uint32_t tid, const char *name)
{
    begin_event(trace, "M", tid, 0, what);
    mp_buffer_append_text(&trace->sink.text, ", \"args\": {\"name\": ");
    quote(trace, name);
    mp_buffer_append_text(&trace->sink.text, "}}");
}

static void counter_event(struct trace *trace, const char *name, const char *key, uint64_t ns, uint64_t value)
{
    begin_event(trace, "C", 0, ns, name);
    mp_buffer_printf(&trace->sink.text, ", \"args\": {\"%s\": %llu}}", key, (unsigned long long)value);
}

static void slice_event(struct trace *trace, uint32_t tid, uint64_t start_ns, uint64_t end_ns, const char *name,
                        const char *category)
{
    uint64_t length = end_ns - start_ns;
    begin_event(trace, "X", tid, start_ns, name);
    mp_buffer_printf(&trace->sink.text, ", \"cat\": \"%s\", \"dur\": %llu.%03u}", category,
                     (unsigned long long)(length / 1000), (unsigned)(length % 1000));
}

struct point {
    uint64_t ns, value;
};

/* A counter on its way to the file: each change as it is, or, thinned, four of each part of time. */
struct counter {
    struct trace *trace;
    const char *name;
    uint64_t part_ns; /* 0: not thinned */
    uint64_t part;
    bool open;
    struct point first, high, low, last;
};

static void end_part(struct counter *counter)
{
    if (!counter->open) return;
    counter->open = false;
    bool high_first = counter->high.ns <= counter->low.ns;
    const struct point in_order[] = {counter->first, high_first ? counter->high : counter->low,
                                     high_first ? counter->low : counter->high, counter->last};
    for (size_t i = 0; i < 4; i++) {
        bool same = i && in_order[i].ns == in_order[i - 1].ns && in_order[i].value == in_order[i - 1].value;
        if (!same) counter_event(counter->trace, counter->name, "allocated", in_order[i].ns, in_order[i].value);
    }
}

static void put_point(struct counter *counter, uint64_t ns, uint64_t value)
{
    struct point point = {ns, value};
    if (!counter->part_ns) {
        counter_event(counter->trace, counter->name, "allocated", ns, value);
        return;
    }
    if (counter->open && ns / counter->part_ns != counter->part) end_part(counter);
    if (!counter->open) counter->first = counter->high = counter->low = point;
    counter->open = true;
    counter->part = ns / counter->part_ns;
    if (value > counter->high.value) counter->high = point;
    if (value < counter->low.value) counter->low = point;
    counter->last = point;
}

static void track_counter(struct trace *trace, const struct mp_model *model, uint16_t track)
{
    char id[MP_TRACK_ID_MAX], reserved[MP_TRACK_ID_MAX + 16];
    mp_track_id(model, track, id);
    snprintf(reserved, sizeof reserved, "%s reserved", id);
    struct counter counter = {.trace = trace, .name = id};
    if (model->sums.at[track].events > POINTS_EXACT) counter.part_ns = model->duration_ns / THIN_PARTS + 1;
    struct mp_level level = mp_level_start(model, track);
    put_point(&counter, 0, level.bytes);
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint64_t ns = model->events.time_ns[event];
        if (mp_level_apply(&level, model, track, event))
            put_point(&counter, ns, level.bytes);
        else if (model->events.type[event] == MP_EVENT_RESERVED && model->events.track[event] == track)
            counter_event(trace, reserved, "reserved", ns, model->notes.at[model->events.subject[event]].bytes);
    }
    end_part(&counter);
}

static uint32_t thread_tid(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count ? model->threads.at[thread].tid : 0;
}

static enum mp_status write_steps(struct trace *trace, const struct mp_model *model, struct mp_error *error)
{
    struct mp_steps steps = {0};
    if (!mp_steps_find(model, &steps)) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the steps");
    for (size_t i = 0; i < steps.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "step %zu", i + 1);
        slice_event(trace, STEPS_TID, steps.at[i].start_ns, steps.at[i].end_ns, name, "step");
    }
    mp_steps_free(&steps);
    return MP_OK;
}

static void write_closed(struct trace *trace, const struct mp_model *model, struct mp_open_regions *closed,
                         uint64_t end_ns)
{
    for (size_t i = 0; i < closed->count; i++)
        slice_event(trace, thread_tid(model, closed->at[i].thread), model->events.time_ns[closed->at[i].first], end_ns,
                    mp_model_text(model, closed->at[i].name), "region");
    closed->count = 0;
}

static enum mp_status write_regions(struct trace *trace, const struct mp_model *model, struct mp_error *error)
{
    struct mp_open_regions open = {0}, closed = {0};
    bool done = true;
    for (size_t i = 0; done && i < model->noted.count; i++) {
        done = mp_regions_follow(model, model->noted.at[i], &open, &closed);
        write_closed(trace, model, &closed, model->events.time_ns[model->noted.at[i]]);
    }
    write_closed(trace, model, &open, model->duration_ns);
    mp_open_regions_free(&open);
    mp_open_regions_free(&closed);
    return done ? MP_OK : mp_fail(error, MP_NO_MEMORY, "not enough memory for the regions");
}

static void write_process_name(struct trace *trace, const struct mp_model *model)
{
    struct mp_buffer name = {0};
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_buffer_printf(&name, "%s%s", name.size ? " " : "", *word);
    mp_buffer_append(&name, "", 1);
    if (name.failed)
        trace->sink.text.failed = true;
    else
        name_event(trace, "process_name", 0, (const char *)name.data);
    mp_buffer_free(&name);
}

static void write_names(struct trace *trace, const struct mp_model *model)
{
    write_process_name(trace, model);
    name_event(trace, "thread_name", STEPS_TID, "steps");
    for (size_t i = 0; i < model->threads.count; i++)
        name_event(trace, "thread_name", model->threads.at[i].tid, mp_model_text(model, model->threads.at[i].name));
}

static enum mp_status write_all(struct trace *trace, const struct mp_model *model, struct mp_error *error)
{
    mp_buffer_printf(&trace->sink.text,
                     "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %llu,\n"
                     "\"traceName\": \"memprof\",\n\"traceEvents\": [\n",
                     (unsigned long long)model->start.realtime_ns);
    write_names(trace, model);
    enum mp_status status = write_steps(trace, model, error);
    if (!status) status = write_regions(trace, model, error);
    for (size_t track = 0; !status && track < model->tracks.count; track++)
        track_counter(trace, model, (uint16_t)track);
    for (size_t i = 0; !status && i < model->samples.count; i++)
        counter_event(trace, mp_model_text(model, model->samples.at[i].counter), "bytes", model->samples.at[i].time_ns,
                      model->samples.at[i].value);
    mp_buffer_append_text(&trace->sink.text, "\n]\n}\n");
    return status;
}

enum mp_status mp_chrome_trace_write(const struct mp_model *model, bool compress, FILE *out, struct mp_error *error)
{
    struct trace trace = {.pid = model->start.pid};
    enum mp_status status = mp_sink_start(&trace.sink, out, compress, error);
    return status ? status : mp_sink_end(&trace.sink, write_all(&trace, model, error), error);
}
