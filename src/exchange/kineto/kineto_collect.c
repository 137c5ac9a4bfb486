#include <stdlib.h>

#include "base/hash.h"
#include "base/order.h"
#include "base/words.h"
#include "exchange/kineto/kineto_parts.h"

static bool is_text(const struct mp_kineto_event *event, enum mp_kineto_text which, const char *text)
{
    return !strcmp(event->texts[which], text);
}

static bool has(const struct mp_kineto_event *event, enum mp_kineto_fact first, enum mp_kineto_fact second)
{
    return mp_kineto_has(event, first) && mp_kineto_has(event, second);
}

static bool is_step(const struct mp_kineto_event *event)
{
    return !strncmp(event->texts[MP_KINETO_NAME], MP_PROFILER_STEP, strlen(MP_PROFILER_STEP));
}

/* True if an event of an old trace is a region. Old traces call every span "Operator"; PyTorch's own annotations have a
 * '#' in the name. */
static bool is_old_region(const struct mp_kineto_event *event)
{
    return is_text(event, MP_KINETO_CATEGORY, "Operator") && strchr(event->texts[MP_KINETO_NAME], '#');
}

static bool is_span(const struct mp_kineto_event *event)
{
    return is_text(event, MP_KINETO_PHASE, "X") && has(event, MP_KINETO_START_NS, MP_KINETO_DURATION_NS) &&
           has(event, MP_KINETO_PID, MP_KINETO_TID) && event->facts[MP_KINETO_DURATION_NS] >= 0 &&
           event->facts[MP_KINETO_START_NS] <= INT64_MAX - event->facts[MP_KINETO_DURATION_NS];
}

bool mp_kineto_is_operator(const struct mp_kineto_event *event)
{
    static const char *const categories[] = {"cpu_op", "Operator", "python_function"};
    if (!is_span(event) || is_old_region(event)) return false;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (is_text(event, MP_KINETO_CATEGORY, categories[i])) return true;
    return false;
}

static bool is_region(const struct mp_kineto_event *event)
{
    return is_span(event) && (is_text(event, MP_KINETO_CATEGORY, "user_annotation") || is_old_region(event));
}

static uint64_t key_of(int64_t first, int64_t second)
{
    const int64_t key[] = {first, second};
    uint64_t hash = mp_hash_bytes(key, sizeof key);
    return hash ? hash : 1;
}

uint64_t mp_kineto_thread_key(const struct mp_kineto_event *event)
{
    return key_of(event->facts[MP_KINETO_PID], event->facts[MP_KINETO_TID]);
}

static void set_in_map(struct mp_map *map, uint64_t key, uint64_t value)
{
    uint64_t *at = mp_map_at(map, key, NULL);
    *at = value;
}

/* The number of the event's thread. */
static uint32_t thread_of(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    bool added;
    uint64_t *id = mp_map_at(&kineto->thread_ids, mp_kineto_thread_key(event), &added);
    if (!added) return (uint32_t)*id;
    *id = kineto->owners.count;
    struct mp_kineto_owner owner = {event->facts[MP_KINETO_PID], event->facts[MP_KINETO_TID]};
    mp_vec_add(&kineto->owners, owner);
    return (uint32_t)*id;
}

/* No known trace has several processes in one file. */
static bool device_of(struct mp_kineto *kineto, const struct mp_kineto_event *event, uint16_t *device)
{
    int64_t type = mp_kineto_has(event, MP_KINETO_DEVICE_TYPE) ? event->facts[MP_KINETO_DEVICE_TYPE] : 0;
    int64_t id = mp_kineto_has(event, MP_KINETO_DEVICE_ID) ? event->facts[MP_KINETO_DEVICE_ID] : -1;
    bool added;
    uint64_t *at = mp_map_at(&kineto->device_ids, key_of(type, id), &added);
    if (added) {
        struct mp_kineto_device made = {.type = type, .id = id};
        *at = kineto->devices.count;
        if (kineto->devices.count < MP_DEVICES_MAX) mp_vec_add(&kineto->devices, made);
    }
    kineto->overlong |= *at >= MP_DEVICES_MAX;
    *device = (uint16_t)*at;
    return *at < MP_DEVICES_MAX;
}

static uint64_t total(const struct mp_kineto_event *event, enum mp_kineto_fact fact)
{
    bool known = mp_kineto_has(event, fact) && event->facts[fact] >= 0;
    return known ? (uint64_t)event->facts[fact] : MP_BYTES_UNKNOWN;
}

static void on_memory(struct mp_kineto *kineto, const struct mp_kineto_event *event, bool out_of_memory)
{
    if (!has(event, MP_KINETO_BYTES, MP_KINETO_START_NS) || !has(event, MP_KINETO_PID, MP_KINETO_TID)) return;
    int64_t bytes = event->facts[MP_KINETO_BYTES];
    if (!bytes) return;
    struct mp_kineto_memory memory = {
        .ns = event->facts[MP_KINETO_START_NS],
        .bytes = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes,
        .allocated = total(event, MP_KINETO_ALLOCATED),
        .reserved = total(event, MP_KINETO_RESERVED),
        .address = (uint64_t)event->facts[MP_KINETO_ADDRESS],
        .has_address = mp_kineto_has(event, MP_KINETO_ADDRESS) && !out_of_memory,
        .type = out_of_memory ? MP_EVENT_OOM
                : bytes < 0   ? MP_EVENT_FREE
                              : MP_EVENT_ALLOC,
        .order = (uint32_t)kineto->memory.count,
        .alloc = MP_NONE,
        .thread = thread_of(kineto, event),
    };
    /* The total does not include this alloc: PyTorch reports 0 for memory outside of its allocators. */
    if (memory.type == MP_EVENT_ALLOC && memory.allocated < memory.bytes) memory.allocated = MP_BYTES_UNKNOWN;
    if (!device_of(kineto, event, &memory.device)) return;
    if (memory.order >= MP_NONE - 1) mp_memory_lacks(0); /* events are numbered in four bytes */
    set_in_map(&kineto->pids, key_of(event->facts[MP_KINETO_PID], 0), 1);
    mp_vec_add(&kineto->memory, memory);
}

static void on_region(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    struct mp_kineto_region region = {
        .start_ns = event->facts[MP_KINETO_START_NS],
        .end_ns = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS],
        .thread = thread_of(kineto, event),
        .name = mp_import_text(&kineto->tables, event->texts[MP_KINETO_NAME], event->lengths[MP_KINETO_NAME]),
        .order = (uint32_t)kineto->regions.count,
        .step = is_step(event),
    };
    mp_vec_add(&kineto->regions, region);
}

/* Takes the name in the brackets of "thread 4711 (python)". */
static uint32_t thread_name(struct mp_kineto *kineto, const char *text)
{
    const char *open = strchr(text, '(');
    size_t length = strlen(text);
    if (!strncmp(text, "thread ", strlen("thread ")) && open && text[length - 1] == ')')
        return mp_import_text(&kineto->tables, open + 1, (size_t)(text + length - 1 - (open + 1)));
    return mp_import_text(&kineto->tables, text, length);
}

static void on_name(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    const char *name = event->texts[MP_KINETO_ARGUMENT_NAME];
    if (!*name || !mp_kineto_has(event, MP_KINETO_PID)) return;
    if (is_text(event, MP_KINETO_NAME, "process_name"))
        set_in_map(&kineto->process_names, key_of(event->facts[MP_KINETO_PID], 0),
                   mp_import_text(&kineto->tables, name, strlen(name)));
    else if (is_text(event, MP_KINETO_NAME, "thread_name") && mp_kineto_has(event, MP_KINETO_TID))
        set_in_map(&kineto->thread_names, mp_kineto_thread_key(event), thread_name(kineto, name));
}

/* The profiler's own span shows the time in which it ran. */
static void on_profiler(struct mp_kineto *kineto, const struct mp_kineto_event *event)
{
    kineto->window_ns[0] = event->facts[MP_KINETO_START_NS];
    kineto->window_ns[1] = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS];
    kineto->has_window = true;
}

static void on_event(void *context, const struct mp_kineto_event *event)
{
    struct mp_kineto *kineto = context;
    bool memory = is_text(event, MP_KINETO_NAME, "[memory]"), out = is_text(event, MP_KINETO_NAME, "[OutOfMemory]");
    if (memory || out)
        on_memory(kineto, event, out);
    else if (is_text(event, MP_KINETO_PHASE, "M"))
        on_name(kineto, event);
    else if (is_region(event))
        on_region(kineto, event);
    else if (is_text(event, MP_KINETO_PHASE, "X") && is_text(event, MP_KINETO_CATEGORY, "Trace") &&
             has(event, MP_KINETO_START_NS, MP_KINETO_DURATION_NS) && event->facts[MP_KINETO_DURATION_NS] >= 0)
        on_profiler(kineto, event);
}

static void on_device(void *context, const struct mp_kineto_event *device)
{
    struct mp_kineto *kineto = context;
    if (!mp_kineto_has(device, MP_KINETO_ID) || kineto->properties.count >= MP_DEVICES_MAX) return;
    struct mp_kineto_property property = {
        .id = device->facts[MP_KINETO_ID],
        .total_bytes = total(device, MP_KINETO_TOTAL_MEMORY),
        .name = mp_import_text(&kineto->tables, device->texts[MP_KINETO_NAME], device->lengths[MP_KINETO_NAME]),
    };
    mp_vec_add(&kineto->properties, property);
}

static void on_trace(void *context, const struct mp_kineto_event *trace)
{
    struct mp_kineto *kineto = context;
    kineto->has_base = mp_kineto_has(trace, MP_KINETO_BASE_NS);
    kineto->base_ns = kineto->has_base ? trace->facts[MP_KINETO_BASE_NS] : 0;
}

MP_ORDER(by_time, struct mp_kineto_memory, MP_RISING(ns) ?: MP_RISING(order))

/* The GPU's own events repeat the names of regions, with the device's number as their process. */
static void drop_other_processes(struct mp_kineto *kineto)
{
    size_t kept = 0;
    for (size_t i = 0; i < kineto->regions.count; i++) {
        int64_t pid = kineto->owners.at[kineto->regions.at[i].thread].pid;
        if (mp_map_find(&kineto->pids, key_of(pid, 0))) kineto->regions.at[kept++] = kineto->regions.at[i];
    }
    kineto->regions.count = kept;
}

static void name_threads(struct mp_kineto *kineto)
{
    mp_vec_each (const struct mp_kineto_owner, owner, &kineto->owners) {
        const uint64_t *name = mp_map_find(&kineto->thread_names, key_of(owner->pid, owner->tid));
        struct mp_thread_info thread = {(uint32_t)owner->tid, name ? (uint32_t)*name : 0};
        mp_vec_add(&kineto->tables.threads, thread);
    }
}

enum mp_status mp_kineto_collect(struct mp_kineto *kineto, const char *path, struct mp_error *error)
{
    const struct mp_kineto_sink sink = {on_event, on_device, on_trace, kineto};
    enum mp_status status = mp_kineto_read(path, &sink, error);
    if (status) return status;
    if (kineto->overlong) return mp_fail(error, MP_LIMIT, "%s has memory events of more than 1024 devices", path);
    if (!kineto->memory.count)
        return mp_fail(error, MP_NOT_A_RECORDING,
                       "%s is a Kineto trace without memory events; record it with "
                       "torch.profiler.profile(profile_memory=True)",
                       path);
    qsort(kineto->memory.at, kineto->memory.count, sizeof *kineto->memory.at, by_time);
    drop_other_processes(kineto);
    const uint64_t *name =
        mp_map_find(&kineto->process_names, key_of(kineto->owners.at[kineto->memory.at[0].thread].pid, 0));
    kineto->process_name = name ? (uint32_t)*name : 0;
    name_threads(kineto);
    return MP_OK;
}
