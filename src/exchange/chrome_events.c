#include "exchange/chrome_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define DEVICE_TYPES 32 /* c10 has fewer */

void mp_chrome_device(const char *name, unsigned *type, int *index)
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

bool mp_chrome_has_row(const char *device)
{
    unsigned type;
    int index;
    mp_chrome_device(device, &type, &index);
    return type != MP_DEVICE_CPU && index >= 0;
}

uint32_t mp_chrome_row(const char *device, uint32_t pid)
{
    unsigned type;
    int index;
    mp_chrome_device(device, &type, &index);
    return mp_chrome_has_row(device) ? (uint32_t)index : pid;
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

void mp_chrome_name(struct mp_chrome *chrome, const char *what, uint32_t pid, uint32_t tid, const char *key,
                    const char *name)
{
    begin_event(chrome, "M", pid, tid, 0, what);
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"%s\": ", key);
    quote(chrome, name);
    mp_buffer_append_text(&chrome->sink.text, "}}");
}

void mp_chrome_sort(struct mp_chrome *chrome, uint32_t pid, uint32_t place)
{
    begin_event(chrome, "M", pid, 0, 0, "process_sort_index");
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"sort_index\": %u}}", place);
}

void mp_chrome_counter(struct mp_chrome *chrome, uint32_t pid, const char *name, const char *key, uint64_t ns,
                       uint64_t value)
{
    begin_event(chrome, "C", pid, 0, ns, name);
    mp_buffer_printf(&chrome->sink.text, ", \"args\": {\"%s\": %llu}}", key, (unsigned long long)value);
}

void mp_chrome_slice(struct mp_chrome *chrome, uint32_t pid, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
                     const char *name)
{
    begin_event(chrome, "X", pid, tid, start_ns, name);
    mp_buffer_append_text(&chrome->sink.text, ", \"cat\": \"user_annotation\"");
    put_time(chrome, "dur", end_ns - start_ns);
    mp_buffer_append_text(&chrome->sink.text, "}");
}

void mp_chrome_window(struct mp_chrome *chrome, uint64_t start_ns, uint64_t end_ns)
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

void mp_chrome_memory(struct mp_chrome *chrome, const struct mp_chrome_memory *memory)
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
