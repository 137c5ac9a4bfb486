#include "export/chrome_trace.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/level.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/words.h"
#include "export/sink.h"
#include "model/spans.h"
#include "model/track.h"

/*
 * Writes the events of a Chrome trace into a sink. Events that Kineto has, too, have its form. Times are nanoseconds on
 * the trace's clock. One thread at a time.
 */

struct mp_chrome {
    struct mp_sink sink;
    bool any_event;
    uint64_t memory_events; /* number written so far; Kineto counts them, too */
};

/* The contents of an event "[memory]" or "[OutOfMemory]". The latter has no address. */
struct chrome_memory {
    uint64_t ns, address, bytes; /* address 0: unknown */
    bool freed, out_of_memory;
    bool totals;                  /* allocated and reserved are known */
    uint64_t allocated, reserved; /* after the event; reserved is 0 if it was never reported */
    unsigned device_type;
    int device;
    uint32_t pid, tid;
};

#define DEVICE_TYPES 32 /* c10 has fewer */

/* c10's type and number of a device by its name; "cpu" has type 0 and number -1, as in Kineto. */
static void chrome_device(const char *name, unsigned *type, int *index)
{
    size_t length = strcspn(name, ":");
    *type = MP_DEVICE_CPU;
    *index = -1;
    for (unsigned i = 0; i < DEVICE_TYPES; i++) {
        const char *known = mp_device_type_name(i);
        if (strlen(known) != length || strncmp(known, name, length)) continue;
        *type = i;
        *index = name[length] ? atoi(name + length + 1) : -1;
        return;
    }
}

/* True if a device has a row of its own. As in Kineto, a GPU's counters are in the row of its number, others in the row
 * of the process. */
static bool chrome_has_row(const char *device)
{
    unsigned type;
    int index;
    chrome_device(device, &type, &index);
    return type != MP_DEVICE_CPU && index >= 0;
}

static uint32_t chrome_row(const char *device, uint32_t pid)
{
    unsigned type;
    int index;
    chrome_device(device, &type, &index);
    return chrome_has_row(device) ? (uint32_t)index : pid;
}

static void quote(struct mp_chrome *chrome, const char *text)
{
    mp_json_quote(&chrome->sink.text, text, strlen(text));
}

static void put_time(struct mp_chrome *chrome, const char *key, uint64_t ns)
{
    mp_buffer_printf(&chrome->sink.text, ", \"%s\": %llu.%03u", key, (unsigned long long)(ns / 1000),
                     (unsigned)(ns % 1000));
}

/* Begins an event up to its arguments: {"ph": ..., "pid": ..., "tid": ..., "ts": ..., "name": ... */
static void begin_event(struct mp_chrome *chrome, const char *phase, uint32_t pid, uint32_t tid, uint64_t ns,
                        const char *name)
{
    mp_sink_pass(&chrome->sink);
    mp_buffer_printf(&chrome->sink.text, "%s{\"ph\": \"%s\", \"pid\": %u, \"tid\": %u", chrome->any_event ? ",\n" : "",
                     phase, pid, tid);
    put_time(chrome, "ts", ns);
    mp_buffer_append_text(&chrome->sink.text, ", \"name\": ");
    quote(chrome, name);
    chrome->any_event = true;
}

static void chrome_name(struct mp_chrome *chrome, const char *subject, uint32_t pid, uint32_t tid, const char *key,
                        const char *name)
{
    begin_event(chrome, "M", pid, tid, 0, subject);
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"%s\": ", key);
    quote(chrome, name);
    mp_buffer_append_text(&chrome->sink.text, "}}");
}

static void chrome_sort(struct mp_chrome *chrome, uint32_t pid, uint32_t place)
{
    begin_event(chrome, "M", pid, 0, 0, "process_sort_index");
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"sort_index\": %u}}", place);
}

static void chrome_counter(struct mp_chrome *chrome, uint32_t pid, const char *name, const char *key, uint64_t ns,
                           uint64_t value)
{
    begin_event(chrome, "C", pid, 0, ns, name);
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"%s\": %llu}}", key, (unsigned long long)value);
}

/* A span of PyTorch's kind "user_annotation". */
static void chrome_slice(struct mp_chrome *chrome, uint32_t pid, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
                         const char *name)
{
    begin_event(chrome, "X", pid, tid, start_ns, name);
    mp_buffer_append_text(&chrome->sink.text, ", \"cat\": \"user_annotation\"");
    put_time(chrome, "dur", end_ns - start_ns);
    mp_buffer_append_text(&chrome->sink.text, "}");
}

/* Writes the time of recording in the form of the profiler's own span. */
static void chrome_window(struct mp_chrome *chrome, uint64_t start_ns, uint64_t end_ns)
{
    mp_buffer_printf(&chrome->sink.text,
                     "%s{\"ph\": \"X\", \"cat\": \"Trace\", \"pid\": \"Spans\", \"tid\": \"memprof\"",
                     chrome->any_event ? ",\n" : "");
    put_time(chrome, "ts", start_ns);
    put_time(chrome, "dur", end_ns - start_ns);
    mp_buffer_append_text(&chrome->sink.text,
                          ", \"name\": \"memprof (0)\"},\n{\"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", "
                          "\"tid\": \"\"");
    put_time(chrome, "ts", end_ns);
    mp_buffer_append_text(&chrome->sink.text, ", \"name\": \"Record Window End\"}");
    chrome->any_event = true;
}

static void chrome_memory(struct mp_chrome *chrome, const struct chrome_memory *memory)
{
    struct mp_buffer *out = &chrome->sink.text;
    begin_event(chrome, "i", memory->pid, memory->tid, memory->ns,
                memory->out_of_memory ? "[OutOfMemory]" : "[memory]");
    mp_buffer_printf(
        out,
        ", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"args\": {\"Ev Idx\": %llu, \"Device Type\": %u, "
        "\"Device Id\": %d",
        (unsigned long long)chrome->memory_events++, memory->device_type, memory->device);
    if (!memory->out_of_memory && memory->address)
        mp_buffer_printf(out, ", \"Addr\": %lld", (long long)memory->address);
    mp_buffer_printf(out, ", \"Bytes\": %s%llu", memory->freed ? "-" : "", (unsigned long long)memory->bytes);
    if (memory->totals)
        mp_buffer_printf(out, ", \"Total Allocated\": %llu, \"Total Reserved\": %llu",
                         (unsigned long long)memory->allocated, (unsigned long long)memory->reserved);
    mp_buffer_append_text(out, "}}");
}

/* The "[memory]" and "[OutOfMemory]" events of a recording, in the form that PyTorch's profiler gives its
 * allocators. */

struct follower {
    bool drawn; /* true if this track's events are written */
    struct mp_level level;
    uint64_t reserved;
    unsigned device_type;
    int device;
};

struct instants {
    const struct mp_chrome_query *query;
    const struct mp_model *model;
    struct mp_chrome *chrome;
    struct follower *tracks;
    uint32_t pid;
    uint64_t shift_ns;
    bool memory, out_of_memory; /* kinds of events to write */
};

/* True if the track is the uppermost of its device. PyTorch's layer is above all others, then the layer with the
 * highest number. Within a layer the unnamed track is the main one. */
static bool is_upper(const struct mp_model *model, size_t track)
{
    const struct mp_track *mine = &model->tracks.at[track];
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *other = &model->tracks.at[i];
        bool torch = other->layer == MP_LAYER_TORCH;
        if (i == track || other->device != mine->device || !model->sums.at[i].events) continue;
        if (mine->layer != MP_LAYER_TORCH && (torch || other->layer > mine->layer)) return false;
        if (other->layer == mine->layer && (other->name ? 1 : 0) < (mine->name ? 1 : 0)) return false;
        if (other->layer == mine->layer && !other->name == !mine->name && i < track) return false;
    }
    return model->sums.at[track].events;
}

static uint64_t count_events(const struct instants *instants)
{
    uint64_t count = 0;
    for (size_t i = 0; i < instants->model->tracks.count; i++)
        if (instants->tracks[i].drawn) count += instants->model->sums.at[i].events;
    return count;
}

static void write_one(struct instants *instants, uint32_t event, uint64_t address, uint64_t bytes, bool freed,
                      uint64_t allocated)
{
    const struct mp_model *model = instants->model;
    const struct follower *track = &instants->tracks[model->events.track[event]];
    uint32_t thread = model->events.thread[event];
    struct chrome_memory memory = {.ns = model->events.time_ns[event] + instants->shift_ns,
                                   .address = address,
                                   .bytes = bytes,
                                   .freed = freed,
                                   .out_of_memory = model->events.type[event] == MP_EVENT_OOM,
                                   .totals = !model->sums.at[model->events.track[event]].unknown_blocks,
                                   .allocated = allocated,
                                   .reserved = track->reserved,
                                   .device_type = track->device_type,
                                   .device = track->device,
                                   .pid = instants->pid,
                                   .tid = thread < model->threads.count ? model->threads.at[thread].tid : 0};
    if (bytes != MP_BYTES_UNKNOWN && bytes) chrome_memory(instants->chrome, &memory);
}

/* A block that changes its size is written as a free and an alloc at the same address. */
static void write_block(struct instants *instants, uint32_t event, const struct follower *before)
{
    const struct mp_model *model = instants->model;
    uint32_t block = model->events.subject[event];
    unsigned type = model->events.type[event];
    uint64_t address = model->blocks.address[block];
    uint64_t had = event ? mp_model_bytes_at(model, block, event - 1) : model->blocks.bytes[block];
    uint64_t has = mp_model_bytes_at(model, block, event);
    uint64_t now = instants->tracks[model->events.track[event]].level.bytes;
    if (type == MP_EVENT_ALLOC) has = model->blocks.bytes[block];
    if (type == MP_EVENT_FREE || (type == MP_EVENT_RESIZE && had != MP_BYTES_UNKNOWN))
        write_one(instants, event, address, had, true, type == MP_EVENT_FREE ? now : before->level.bytes - had);
    if (type != MP_EVENT_FREE) write_one(instants, event, address, has, false, now);
}

static void follow_event(struct instants *instants, uint32_t event)
{
    const struct mp_model *model = instants->model;
    unsigned type = model->events.type[event];
    uint16_t at = model->events.track[event];
    bool on_track = type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE ||
                    type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
    if (!on_track || !instants->tracks[at].drawn) return;
    struct follower *track = &instants->tracks[at], before = *track;
    bool shown = event >= instants->query->window.first;
    if (mp_level_apply(&track->level, model, at, event)) {
        if (shown && instants->memory) write_block(instants, event, &before);
    } else if (type == MP_EVENT_RESERVED) {
        track->reserved = model->notes.at[model->events.subject[event]].bytes;
    } else if (shown && instants->out_of_memory) {
        write_one(instants, event, 0, model->notes.at[model->events.subject[event]].bytes, false, track->level.bytes);
    }
}

static void start(struct instants *instants)
{
    const struct mp_model *model = instants->model;
    for (size_t i = 0; i < model->tracks.count; i++) {
        struct follower *track = &instants->tracks[i];
        track->drawn = is_upper(model, i);
        if (track->drawn) track->level = mp_level_start(model, (uint16_t)i);
        chrome_device(mp_track_device(model, (uint16_t)i), &track->device_type, &track->device);
    }
}

/* Writes memory events of the uppermost layer of each device, as the format has one allocator per device. Blocks of
 * unknown size are left out. An out-of-memory is written with the total. If the other trace of a merge has one of these
 * kinds of events, that kind is left out. */
static void chrome_instants(const struct mp_chrome_query *query, uint32_t pid, uint64_t shift_ns,
                            struct mp_chrome *chrome, uint64_t *left_out)
{
    const struct mp_chrome_input *merge = query->merge;
    struct instants instants = {.query = query,
                                .model = query->model,
                                .chrome = chrome,
                                .pid = pid,
                                .shift_ns = shift_ns,
                                .tracks = mp_alloc_zeroed(query->model->tracks.count + 1, sizeof *instants.tracks),
                                .memory = !merge || !merge->any_memory,
                                .out_of_memory = !merge || !merge->any_out_of_memory};
    start(&instants);
    uint64_t count = count_events(&instants);
    *left_out = instants.memory && count > MP_CHROME_MEMORY_MAX ? count : 0;
    if (*left_out) instants.memory = false;
    for (uint32_t event = 0; event < query->window.last; event++)
        follow_event(&instants, event);
    free(instants.tracks);
}

/* Steps have a row of their own. Spans in one row must nest, but regions of a thread may cross the borders of steps. */
#define STEPS_TID 0

#define POINTS_EXACT 1000000 /* changes of one counter that are written one by one */
#define THIN_PARTS   100000  /* thinned: the recording's time has this many parts, with four points each */
#define GPU_PLACE    5000000 /* sort index of a GPU's row less the GPU's number, as in Kineto */

struct trace {
    struct mp_chrome chrome;
    const struct mp_chrome_query *query;
    const struct mp_model *model;
    uint64_t shift_ns; /* offset from the recording's clock to the trace's, modulo 2^64 */
    uint32_t pid;
};

struct point {
    uint64_t ns, value;
};

/* A counter that is being written: each change, or if it is thinned, four points for each part of time. */
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
    chrome_counter(&counter->trace->chrome, counter->row, counter->name, "allocated",
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

/* True if the event gives the bytes that the track's allocator holds from now on. */
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
                              .row = chrome_row(mp_track_device(model, track), trace->pid)};
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
        chrome_counter(&trace->chrome, counter.row, reserved, "reserved", window->from_ns + trace->shift_ns, held);
    for (; event < window->last; event++) {
        uint64_t ns = model->events.time_ns[event];
        if (mp_level_apply(&level, model, track, event))
            put_point(&counter, ns, level.bytes);
        else if (holds(model, track, event, &held))
            chrome_counter(&trace->chrome, counter.row, reserved, "reserved", ns + trace->shift_ns, held);
    }
    end_part(&counter);
}

static uint32_t thread_tid(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count ? model->threads.at[thread].tid : 0;
}

/* Readers add microseconds as doubles. Their sum for a step must not lie behind the next step's start, or they take the
 * steps for crossing; so a step may end a nanosecond early. */
static uint64_t step_end(uint64_t start_ns, uint64_t end_ns)
{
    uint64_t end = end_ns;
    while (end > start_ns && (double)start_ns / 1e3 + (double)(end - start_ns) / 1e3 > (double)end_ns / 1e3)
        end--;
    return end;
}

/* Writes the part of a span inside of the window. */
static void put_span(struct trace *trace, uint32_t tid, uint64_t start_ns, uint64_t end_ns, const char *name)
{
    const struct mp_window *window = &trace->query->window;
    if (start_ns < window->from_ns) start_ns = window->from_ns;
    if (end_ns > window->to_ns) end_ns = window->to_ns;
    if (tid == STEPS_TID && start_ns < end_ns) end_ns = step_end(start_ns, end_ns);
    if (start_ns <= end_ns)
        chrome_slice(&trace->chrome, trace->pid, tid, start_ns + trace->shift_ns, end_ns + trace->shift_ns, name);
}

/* Writes steps under the names of PyTorch's profiler; the profiler's own steps are among the regions already. */
static void write_steps(struct trace *trace)
{
    struct mp_steps steps = {0};
    mp_steps_marked(trace->model, &steps);
    for (size_t i = 0; i < steps.count; i++) {
        char name[40];
        snprintf(name, sizeof name, MP_PROFILER_STEP "%zu", steps.before + i + 1);
        if (!mp_step_is_region(trace->model, &steps.at[i]))
            put_span(trace, STEPS_TID, steps.at[i].start_ns, steps.at[i].end_ns, name);
    }
    mp_steps_free(&steps);
}

static void write_regions(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    struct mp_regions regions;
    mp_regions_find(model, &regions);
    mp_vec_each (const struct mp_region, region, &regions)
        put_span(trace, thread_tid(model, region->begun.thread), model->events.time_ns[region->begun.first],
                 region->end_ns, mp_model_text(model, region->begun.name));
    mp_vec_free(&regions);
}

static void write_process_names(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    struct mp_buffer name = {0};
    mp_model_command(model, &name);
    chrome_name(&trace->chrome, "process_name", trace->pid, 0, "name", mp_buffer_text(&name));
    mp_buffer_free(&name);
}

/* Writes the rows of GPUs, with Kineto's names. */
static void write_device_names(struct trace *trace, const struct mp_chrome_input *merge)
{
    for (size_t i = 0; i < trace->model->devices.count; i++) {
        const char *device = mp_model_text(trace->model, trace->model->devices.at[i].name);
        uint32_t row = chrome_row(device, trace->pid);
        char label[32];
        if (!chrome_has_row(device) || (merge && mp_map_find(&merge->named, (uint64_t)row + 1))) continue;
        snprintf(label, sizeof label, "GPU %u", row);
        chrome_name(&trace->chrome, "process_name", row, 0, "name", device);
        chrome_name(&trace->chrome, "process_labels", row, 0, "labels", label);
        chrome_sort(&trace->chrome, row, GPU_PLACE + row);
    }
}

static void write_names(struct trace *trace)
{
    const struct mp_model *model = trace->model;
    write_process_names(trace);
    chrome_name(&trace->chrome, "thread_name", trace->pid, STEPS_TID, "name", "steps");
    for (size_t i = 0; i < model->threads.count; i++)
        chrome_name(&trace->chrome, "thread_name", trace->pid, model->threads.at[i].tid, "name",
                    mp_model_text(model, model->threads.at[i].name));
}

/* Writes the devices' main facts, for readers that show capacity. */
static void write_properties(struct trace *trace)
{
    struct mp_buffer *out = &trace->chrome.sink.text;
    bool any = false;
    mp_buffer_append_text(out, "\"deviceProperties\": [");
    mp_vec_each (const struct mp_device, device, &trace->model->devices) {
        const char *model = mp_model_text(trace->model, device->model);
        const char *name = mp_model_text(trace->model, device->name);
        if (!chrome_has_row(name) || device->total_bytes == MP_BYTES_UNKNOWN) continue;
        mp_buffer_printf(out, "%s\n  {\"id\": %u, \"name\": ", any ? "," : "", chrome_row(name, trace->pid));
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
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        const char *counter = mp_model_text(model, sample->counter);
        if (sample->time_ns >= window->from_ns && sample->time_ns <= window->to_ns)
            chrome_counter(&trace->chrome, chrome_row(counter, trace->pid), counter, "bytes",
                           sample->time_ns + trace->shift_ns, sample->value);
    }
}

static void write_own(struct trace *trace)
{
    struct mp_buffer *out = &trace->chrome.sink.text;
    mp_buffer_append_text(out, "{\n\"schemaVersion\": 1,\n");
    write_properties(trace);
    mp_buffer_printf(out,
                     "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %llu,\n"
                     "\"traceName\": \"memprof\",\n\"traceEvents\": [\n",
                     (unsigned long long)trace->model->start.realtime_ns);
    write_names(trace);
    write_steps(trace);
    write_regions(trace);
}

static enum mp_status write_all(struct trace *trace, uint64_t *left_out, struct mp_error *error)
{
    const struct mp_chrome_input *merge = trace->query->merge;
    enum mp_status status = MP_OK;
    if (merge)
        status = mp_chrome_copy_head(merge, &trace->chrome.sink, error);
    else
        write_own(trace);
    if (!status) write_device_names(trace, merge);
    for (size_t track = 0; !status && track < trace->model->tracks.count; track++)
        track_counter(trace, (uint16_t)track);
    if (!status) write_samples(trace);
    if (!status) chrome_instants(trace->query, trace->pid, trace->shift_ns, &trace->chrome, left_out);
    if (status) return status;
    if (merge) return mp_chrome_copy_rest(merge, trace->chrome.any_event, &trace->chrome.sink, error);
    chrome_window(&trace->chrome, trace->query->window.from_ns, trace->query->window.to_ns);
    mp_buffer_append_text(&trace->chrome.sink.text, "\n]\n}\n");
    return MP_OK;
}

enum mp_status mp_chrome_trace_write(const struct mp_chrome_query *query, FILE *out, uint64_t *left_out,
                                     struct mp_error *error)
{
    const struct mp_model *model = query->model;
    struct trace trace = {.query = query, .model = model, .pid = model->start.pid};
    if (query->merge) trace.shift_ns = model->start.realtime_ns - (uint64_t)query->merge->base_ns;
    mp_sink_start(&trace.chrome.sink, out, query->compress);
    return mp_sink_end(&trace.chrome.sink, write_all(&trace, left_out, error), error);
}
