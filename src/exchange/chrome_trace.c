#include "exchange/chrome_trace.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/level.h"
#include "base/json.h"
#include "exchange/chrome_instants.h"
#include "model/spans.h"
#include "model/track.h"

/* Steps have a row of their own: regions on a thread's row may cross their borders, and rows must nest. */
#define STEPS_TID 0

#define POINTS_EXACT 1000000 /* changes of one counter that are written one by one */
#define THIN_PARTS   100000  /* parts of the recording's time, four points each, beyond that */
#define GPU_PLACE    5000000 /* Kineto sorts the rows of GPUs from here on */

struct trace {
    struct mp_chrome chrome;
    const struct mp_chrome_query *query;
    const struct mp_model *model;
    uint64_t shift_ns; /* from the recording's clock to the trace's; wraps */
    uint32_t pid;
};

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for the trace");
}

struct point {
    uint64_t ns, value;
};

/* A counter on its way to the file: each change as it is, or, thinned, four of each part of time. */
struct counter {
    struct trace *trace;
    const char *name;
    uint32_t row;
    uint64_t part_ns; /* 0: not thinned */
    uint64_t part;
    bool open;
    struct point first, high, low, last;
};

static void write_point(const struct counter *counter, const struct point *point)
{
    mp_chrome_counter(&counter->trace->chrome, counter->row, counter->name, "allocated",
                      point->ns + counter->trace->shift_ns, point->value);
}

static void end_part(struct counter *counter)
{
    if (!counter->open) return;
    counter->open = false;
    bool high_first = counter->high.ns <= counter->low.ns;
    const struct point in_order[] = {counter->first, high_first ? counter->high : counter->low,
                                     high_first ? counter->low : counter->high, counter->last};
    for (size_t i = 0; i < 4; i++) {
        bool same = i && in_order[i].ns == in_order[i - 1].ns && in_order[i].value == in_order[i - 1].value;
        if (!same) write_point(counter, &in_order[i]);
    }
}

static void put_point(struct counter *counter, uint64_t ns, uint64_t value)
{
    struct point point = {ns, value};
    if (!counter->part_ns) {
        write_point(counter, &point);
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

/* Whether an event says what the track's allocator holds from now on. */
static bool holds(const struct mp_model *model, uint16_t track, uint32_t event, uint64_t *held)
{
    if (model->events.type[event] != MP_EVENT_RESERVED || model->events.track[event] != track) return false;
    *held = model->notes.at[model->events.subject[event]].bytes;
    return true;
}

static void track_counter(struct trace *trace, uint16_t track)
{
    const struct mp_model *model = trace->model;
    const struct mp_window *window = &trace->query->window;
    char id[MP_TRACK_ID_MAX], reserved[MP_TRACK_ID_MAX + 16];
    struct counter counter = {.trace = trace,
                              .name = mp_track_id(model, track, id),
                              .row = mp_chrome_row(mp_track_device(model, track), trace->pid)};
    snprintf(reserved, sizeof reserved, "%s reserved", id);
    if (model->sums.at[track].events > POINTS_EXACT)
        counter.part_ns = (window->to_ns - window->from_ns) / THIN_PARTS + 1;
    struct mp_level level = mp_level_start(model, track);
    uint64_t held = MP_BYTES_UNKNOWN;
    uint32_t event = 0;
    for (; event < window->first; event++)
        if (!mp_level_apply(&level, model, track, event)) holds(model, track, event, &held);
    put_point(&counter, window->from_ns, level.bytes);
    if (held != MP_BYTES_UNKNOWN)
        mp_chrome_counter(&trace->chrome, counter.row, reserved, "reserved", window->from_ns + trace->shift_ns, held);
    for (; event < window->last; event++) {
        uint64_t ns = model->events.time_ns[event];
        if (mp_level_apply(&level, model, track, event))
            put_point(&counter, ns, level.bytes);
        else if (holds(model, track, event, &held))
            mp_chrome_counter(&trace->chrome, counter.row, reserved, "reserved", ns + trace->shift_ns, held);
    }
    end_part(&counter);
}

static uint32_t thread_tid(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count ? model->threads.at[thread].tid : 0;
}

/* A span as far as it lies in the window. */
static void put_span(struct trace *trace, uint32_t tid, uint64_t start_ns, uint64_t end_ns, const char *name)
{
    const struct mp_window *window = &trace->query->window;
    if (start_ns < window->from_ns) start_ns = window->from_ns;
    if (end_ns > window->to_ns) end_ns = window->to_ns;
    if (start_ns <= end_ns)
        mp_chrome_slice(&trace->chrome, trace->pid, tid, start_ns + trace->shift_ns, end_ns + trace->shift_ns, name);
}

/* By the names that PyTorch's profiler gives them; those that are its own stand among the regions already. */
static enum mp_status write_steps(struct trace *trace, struct mp_error *error)
{
    struct mp_steps steps = {0};
    if (!mp_steps_marked(trace->model, &steps)) return no_memory(error);
    for (size_t i = 0; i < steps.count; i++) {
        char name[40];
        snprintf(name, sizeof name, "ProfilerStep#%zu", steps.before + i + 1);
        if (!mp_step_is_region(trace->model, &steps.at[i]))
            put_span(trace, STEPS_TID, steps.at[i].start_ns, steps.at[i].end_ns, name);
    }
    mp_steps_free(&steps);
    return MP_OK;
}

static void write_closed(struct trace *trace, struct mp_open_regions *closed, uint64_t end_ns)
{
    const struct mp_model *model = trace->model;
    for (size_t i = 0; i < closed->count; i++)
        put_span(trace, thread_tid(model, closed->at[i].thread), model->events.time_ns[closed->at[i].first], end_ns,
                 mp_model_text(model, closed->at[i].name));
    closed->count = 0;
}

static enum mp_status write_regions(struct trace *trace, struct mp_error *error)
{
    const struct mp_model *model = trace->model;
    struct mp_open_regions open = {0}, closed = {0};
    bool done = true;
    for (size_t i = 0; done && i < model->noted.count; i++) {
        done = mp_regions_follow(model, model->noted.at[i], &open, &closed);
        write_closed(trace, &closed, model->events.time_ns[model->noted.at[i]]);
    }
    write_closed(trace, &open, model->duration_ns);
    mp_open_regions_free(&open);
    mp_open_regions_free(&closed);
    return done ? MP_OK : no_memory(error);
}

static void write_process_names(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    struct mp_buffer name = {0};
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_buffer_printf(&name, "%s%s", name.size ? " " : "", *word);
    mp_buffer_append(&name, "", 1);
    if (name.failed)
        trace->chrome.sink.text.failed = true;
    else
        mp_chrome_name(&trace->chrome, "process_name", trace->pid, 0, "name", (const char *)name.data);
    mp_buffer_free(&name);
}

/* The rows of GPUs, as Kineto names them. */
static void write_device_names(struct trace *trace, const struct mp_chrome_input *merge)
{
    for (size_t i = 0; i < trace->model->devices.count; i++) {
        const char *device = mp_model_text(trace->model, trace->model->devices.at[i].name);
        uint32_t row = mp_chrome_row(device, trace->pid);
        char label[32];
        if (!mp_chrome_has_row(device) || (merge && mp_map_find(&merge->named, (uint64_t)row + 1))) continue;
        snprintf(label, sizeof label, "GPU %u", row);
        mp_chrome_name(&trace->chrome, "process_name", row, 0, "name", device);
        mp_chrome_name(&trace->chrome, "process_labels", row, 0, "labels", label);
        mp_chrome_sort(&trace->chrome, row, GPU_PLACE + row);
    }
}

static void write_names(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    write_process_names(trace);
    mp_chrome_name(&trace->chrome, "thread_name", trace->pid, STEPS_TID, "name", "steps");
    for (size_t i = 0; i < model->threads.count; i++)
        mp_chrome_name(&trace->chrome, "thread_name", trace->pid, model->threads.at[i].tid, "name",
                       mp_model_text(model, model->threads.at[i].name));
}

/* The devices' main facts, for readers that show how much there is. */
static void write_properties(struct trace *trace)
{
    struct mp_buffer *out = &trace->chrome.sink.text;
    bool any = false;
    mp_buffer_append_text(out, "\"deviceProperties\": [");
    for (size_t i = 0; i < trace->model->devices.count; i++) {
        const struct mp_device *device = &trace->model->devices.at[i];
        const char *model = mp_model_text(trace->model, device->model);
        const char *name = mp_model_text(trace->model, device->name);
        if (!mp_chrome_has_row(name) || device->total_bytes == MP_BYTES_UNKNOWN) continue;
        mp_buffer_printf(out, "%s\n  {\"id\": %u, \"name\": ", any ? "," : "", mp_chrome_row(name, trace->pid));
        mp_json_quote(out, model, strlen(model));
        mp_buffer_printf(out, ", \"totalGlobalMem\": %llu}", (unsigned long long)device->total_bytes);
        any = true;
    }
    mp_buffer_append_text(out, "],\n");
}

static void write_samples(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    const struct mp_window *window = &trace->query->window;
    for (size_t i = 0; i < model->samples.count; i++) {
        const struct mp_sample *sample = &model->samples.at[i];
        const char *counter = mp_model_text(model, sample->counter);
        if (sample->time_ns >= window->from_ns && sample->time_ns <= window->to_ns)
            mp_chrome_counter(&trace->chrome, mp_chrome_row(counter, trace->pid), counter, "bytes",
                              sample->time_ns + trace->shift_ns, sample->value);
    }
}

static enum mp_status write_own(struct trace *trace, struct mp_error *error)
{
    struct mp_buffer *out = &trace->chrome.sink.text;
    mp_buffer_append_text(out, "{\n\"schemaVersion\": 1,\n");
    write_properties(trace);
    mp_buffer_printf(out,
                     "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %llu,\n"
                     "\"traceName\": \"memprof\",\n\"traceEvents\": [\n",
                     (unsigned long long)trace->model->start.realtime_ns);
    write_names(trace);
    enum mp_status status = write_steps(trace, error);
    return status ? status : write_regions(trace, error);
}

static enum mp_status write_all(struct trace *trace, uint64_t *left_out, struct mp_error *error)
{
    const struct mp_chrome_input *merge = trace->query->merge;
    enum mp_status status = merge ? mp_chrome_copy_head(merge, &trace->chrome.sink, error) : write_own(trace, error);
    if (!status) write_device_names(trace, merge);
    for (size_t track = 0; !status && track < trace->model->tracks.count; track++)
        track_counter(trace, (uint16_t)track);
    if (!status) write_samples(trace);
    if (!status)
        status = mp_chrome_instants(trace->query, trace->pid, trace->shift_ns, &trace->chrome, left_out, error);
    if (status) return status;
    if (merge) return mp_chrome_copy_rest(merge, trace->chrome.any_event, &trace->chrome.sink, error);
    mp_chrome_window(&trace->chrome, trace->query->window.from_ns, trace->query->window.to_ns);
    mp_buffer_append_text(&trace->chrome.sink.text, "\n]\n}\n");
    return MP_OK;
}

enum mp_status mp_chrome_trace_write(const struct mp_chrome_query *query, FILE *out, uint64_t *left_out,
                                     struct mp_error *error)
{
    const struct mp_model *model = query->model;
    struct trace trace = {.query = query, .model = model, .pid = model->start.pid};
    if (query->merge) trace.shift_ns = model->start.realtime_ns - (uint64_t)query->merge->base_ns;
    enum mp_status status = mp_sink_start(&trace.chrome.sink, out, query->compress, error);
    return status ? status : mp_sink_end(&trace.chrome.sink, write_all(&trace, left_out, error), error);
}
