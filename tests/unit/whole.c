#include "unit/whole.h"

#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic error "-Wmissing-field-initializers"

/* ---- the fields of each type: V is a value, T a string id, N a structure or an array
 * -------------------------------------------------------- */

#define FIELDS_mp_device(V, T, N)         T(name) T(uuid) T(model) V(total_bytes)
#define FIELDS_mp_track(V, T, N)          V(device) V(layer) V(size_basis) T(name)
#define FIELDS_mp_thread_info(V, T, N)    V(tid) T(name)
#define FIELDS_mp_module(V, T, N)         T(path) V(start) V(end) V(bias) N(file)
#define FIELDS_mp_frame(V, T, N)          V(language) V(module) V(address) T(function) T(file) V(line) T(more)
#define FIELDS_mp_stack_node(V, T, N)     V(parent) V(frame)
#define FIELDS_mp_symbol(V, T, N)         V(frame) T(function) T(file) V(line)
#define FIELDS_mp_event(V, T, N)          MP_EVENT_FIELDS(V, T)
#define FIELDS_mp_request(V, T, N)        V(bytes) V(stream) V(pool)
#define FIELDS_mp_base_block(V, T, N)     V(block) V(birth_ns) MP_BLOCK_FIELDS(V) V(role) T(module) T(label) N(request)
#define FIELDS_mp_block_request(V, T, N)  V(block) N(request)
#define FIELDS_mp_label(V, T, N)          V(time_ns) V(block) V(role) T(name)
#define FIELDS_mp_block_holder(V, T, N)   V(time_ns) V(block) V(kind) V(certain) T(path) T(file) V(line)
#define FIELDS_mp_block_use(V, T, N)      V(time_ns) V(block) T(operator) T(node) T(shape) T(module) V(how)
#define FIELDS_mp_block_metadata(V, T, N) V(time_ns) V(block) V(kind) T(text)
#define FIELDS_mp_sample(V, T, N)         V(time_ns) T(counter) V(value)
#define FIELDS_mp_segment(V, T, N)                                                                                     \
    V(address) V(bytes) V(stream) V(pool) V(track) V(small) V(expandable) V(keys) V(stack)
#define FIELDS_mp_segment_part(V, T, N)   V(bytes) V(requested) V(segment) V(state)
#define FIELDS_mp_allocator_call(V, T, N) V(address) V(bytes) V(stream) V(pool) V(track) V(keys) V(action)
#define FIELDS_mp_aside(V, T, N)          T(text) V(kind)
#define FIELDS_mp_past(V, T, N)           V(events) V(steps) V(time_ns)
#define FIELDS_mp_past_peak(V, T, N)      V(bytes) V(blocks) V(time_ns) V(step) V(reserved_bytes) V(track)
#define FIELDS_mp_past_site(V, T, N)      V(bytes) V(blocks) V(stack) T(module) V(track) V(kind)
#define FIELDS_mp_ring_mark(V, T, N)      V(ring) V(sequence)
#define FIELDS_mp_index_entry(V, T, N)    V(offset) V(kind) V(sequence) V(count) V(time_ns) V(end_ns)
#define FIELDS_mp_file_id(V, T, N)        V(size) V(inode) V(mtime_ns) V(build_id_size) N(build_id)
#define FIELDS_mp_model_label(V, T, N)    V(block) V(event) V(role) T(name)
#define FIELDS_mp_model_request(V, T, N)  V(block) N(request)
#define FIELDS_mp_model_holder(V, T, N)   V(block) V(look) V(since) T(path) T(file) V(line) V(kind) V(certain)
#define FIELDS_mp_model_look(V, T, N)     V(time_ns) T(note) V(complete)
#define FIELDS_mp_model_use(V, T, N)      V(time_ns) V(block) T(operator) T(node) T(shape) T(module) V(how)
#define FIELDS_mp_model_metadata(V, T, N) V(time_ns) V(block) T(text) V(kind) V(again)
#define FIELDS_mp_model_resize(V, T, N)   V(block) V(event) V(bytes)
#define FIELDS_mp_model_note(V, T, N)     V(bytes) V(stack) T(name)
#define FIELDS_mp_model_line(V, T, N)     T(function) T(file) V(line)
#define FIELDS_mp_model_track_sum(V, T, N)                                                                             \
    V(events)                                                                                                          \
    V(allocs)                                                                                                          \
    V(frees)                                                                                                           \
    V(ooms)                                                                                                            \
    V(base_bytes)                                                                                                      \
    V(peak_bytes)                                                                                                      \
    V(end_bytes)                                                                                                       \
    V(peak_blocks)                                                                                                     \
    V(end_blocks) V(unknown_blocks) V(peak_event) V(peak_ns) V(reserved_peak_bytes) N(past) V(peak_in_past)

#define FIELDS_mp_job_process(V, T, N)                                                                                 \
    V(start_unix_ns)                                                                                                   \
    V(duration_ns)                                                                                                     \
    V(events)                                                                                                          \
    V(dropped) V(steps) V(growth) T(path) T(command) T(host) T(role) T(job) T(exit) T(missing) T(reason)               \
        T(step_source) V(pid) V(parent) V(rank) V(local_rank) V(world_size) V(node) V(verdict) V(limited) V(helper)
#define FIELDS_mp_job_track(V, T, N)                                                                                   \
    V(events)                                                                                                          \
    V(peak_bytes)                                                                                                      \
    V(peak_ns)                                                                                                         \
    V(peak_blocks) V(peak_step) V(end_bytes) V(end_blocks) V(reserved_bytes) V(device_bytes) V(process) T(id) T(kind)  \
        T(device) T(uuid) V(layer) V(size_basis) V(chosen) V(memory)
#define FIELDS_mp_job_site(V, T, N)                                                                                    \
    V(bytes) V(blocks) V(least) V(most) V(stack) T(kind) V(processes) V(least_process) V(most_process) V(sense)
#define FIELDS_mp_job_holding(V, T, N) V(bytes) V(blocks) V(process) V(stack)
#define FIELDS_mp_job_finding(V, T, N)                                                                                 \
    V(bytes)                                                                                                           \
    V(blocks)                                                                                                          \
    V(bytes_per_step) V(eta_oom_steps) V(process) T(track) V(stack) V(first_step) T(holder) V(class) V(certain)
#define FIELDS_mp_job_point(V, T, N)   V(at) V(most) V(last) V(process) T(track) V(shift) V(curve)
#define FIELDS_mp_job_trouble(V, T, N) T(path) T(text) V(kind)

/* clang-format off */
#define TYPES(X)                                                                                                       \
    X(mp_device) X(mp_track) X(mp_thread_info) X(mp_module) X(mp_frame) X(mp_stack_node) X(mp_symbol) X(mp_event)      \
    X(mp_request) X(mp_base_block) X(mp_block_request) X(mp_label) X(mp_block_holder) X(mp_model_holder) X(mp_model_look) X(mp_block_use) X(mp_model_use) X(mp_block_metadata) X(mp_model_metadata) X(mp_sample) X(mp_segment) X(mp_segment_part)       \
    X(mp_allocator_call) X(mp_aside) X(mp_past) X(mp_past_peak) X(mp_past_site) X(mp_ring_mark) \
    X(mp_index_entry) X(mp_file_id) X(mp_model_label) X(mp_model_request) X(mp_model_resize)           \
    X(mp_model_note) X(mp_model_line) X(mp_model_track_sum) X(mp_job_process) X(mp_job_track) X(mp_job_site)          \
    X(mp_job_holding) X(mp_job_finding) X(mp_job_point) X(mp_job_trouble)
/* clang-format on */

/* One initialiser for each field that is listed: with one too few, or one too many, this does not compile. */
#define ZERO(...)     0,
#define ZEROES(field) {0},
#define ALL_LISTED(type)                                                                                               \
    __attribute__((unused)) static const struct type every_##type = {FIELDS_##type(ZERO, ZERO, ZEROES)};
TYPES(ALL_LISTED)

#define VALUE(field, ...) {#field, offsetof(of, field), sizeof((of *)0)->field, false},
#define TEXT(field, ...)  {#field, offsetof(of, field), sizeof((of *)0)->field, true},
#define DEFINE(type)                                                                                                   \
    const struct whole_type *whole_##type(void)                                                                        \
    {                                                                                                                  \
        typedef struct type of;                                                                                        \
        static const struct whole_field fields[] = {FIELDS_##type(VALUE, TEXT, VALUE)};                                \
        static const struct whole_type whole = {#type, fields, sizeof fields / sizeof *fields, sizeof(of)};            \
        return &whole;                                                                                                 \
    }
TYPES(DEFINE)

static uint64_t number_at(const void *row, const struct whole_field *field)
{
    uint64_t number = 0; /* little-endian machines only, as the program */
    memcpy(&number, (const char *)row + field->offset, field->bytes < sizeof number ? field->bytes : sizeof number);
    return number;
}

/* Compares members, since structures inside have padding with any contents. */
static bool same_file(const void *got, const void *wanted)
{
    return !whole_difference(whole_mp_file_id(), got, wanted, NULL, NULL);
}

static bool same_field(const struct whole_type *type, const struct whole_field *field, const void *got,
                       const void *wanted)
{
    const char *a = (const char *)got + field->offset, *b = (const char *)wanted + field->offset;
    if (type == whole_mp_module() && !strcmp(field->name, "file")) return same_file(a, b);
    if (type == whole_mp_model_track_sum() && !strcmp(field->name, "past"))
        return !whole_difference(whole_mp_past_peak(), a, b, NULL, NULL);
    return !memcmp(a, b, field->bytes);
}

static const char *text_at(const struct mp_intern *texts, const void *row, const struct whole_field *field)
{
    uint64_t id = number_at(row, field);
    return id < texts->count ? mp_intern_get(texts, (uint32_t)id, NULL) : "no such text";
}

const char *whole_difference(const struct whole_type *type, const void *got, const void *wanted,
                             const struct mp_intern *got_texts, const struct mp_intern *wanted_texts)
{
    static char said[512];
    for (size_t i = 0; i < type->count; i++) {
        const struct whole_field *field = &type->fields[i];
        if (field->is_text && got_texts && wanted_texts) {
            const char *a = text_at(got_texts, got, field), *b = text_at(wanted_texts, wanted, field);
            if (!strcmp(a, b)) continue;
            snprintf(said, sizeof said, "%s.%s is \"%s\", should be \"%s\"", type->name, field->name, a, b);
            return said;
        }
        if (same_field(type, field, got, wanted)) continue;
        snprintf(said, sizeof said, "%s.%s is %#llx, should be %#llx", type->name, field->name,
                 (unsigned long long)number_at(got, field), (unsigned long long)number_at(wanted, field));
        return said;
    }
    return NULL;
}

const struct whole_type *whole_of_chunk(enum mp_chunk_kind kind)
{
    switch (kind) {
    case MP_CHUNK_DEVICES:
        return whole_mp_device();
    case MP_CHUNK_TRACKS:
        return whole_mp_track();
    case MP_CHUNK_THREADS:
        return whole_mp_thread_info();
    case MP_CHUNK_MODULES:
        return whole_mp_module();
    case MP_CHUNK_FRAMES:
        return whole_mp_frame();
    case MP_CHUNK_STACKS:
        return whole_mp_stack_node();
    case MP_CHUNK_SYMBOLS:
        return whole_mp_symbol();
    case MP_CHUNK_BASE:
        return whole_mp_base_block();
    case MP_CHUNK_SAMPLES:
        return whole_mp_sample();
    case MP_CHUNK_SEGMENTS:
        return whole_mp_segment();
    case MP_CHUNK_SEGMENT_PARTS:
        return whole_mp_segment_part();
    case MP_CHUNK_CALLS:
    case MP_CHUNK_TRACE:
        return whole_mp_allocator_call();
    case MP_CHUNK_ASIDES:
        return whole_mp_aside();
    case MP_CHUNK_LABELS:
        return whole_mp_label();
    case MP_CHUNK_HOLDERS:
        return whole_mp_block_holder();
    case MP_CHUNK_METADATA:
        return whole_mp_block_metadata();
    case MP_CHUNK_USES:
        return whole_mp_block_use();
    case MP_CHUNK_PAST:
        return whole_mp_past();
    case MP_CHUNK_PAST_PEAKS:
        return whole_mp_past_peak();
    case MP_CHUNK_PAST_SITES:
        return whole_mp_past_site();
    case MP_CHUNK_REQUESTS:
        return whole_mp_block_request();
    case MP_CHUNK_JOB_PROCESSES:
        return whole_mp_job_process();
    case MP_CHUNK_JOB_TRACKS:
        return whole_mp_job_track();
    case MP_CHUNK_JOB_SITES:
        return whole_mp_job_site();
    case MP_CHUNK_JOB_HOLDINGS:
        return whole_mp_job_holding();
    case MP_CHUNK_JOB_FINDINGS:
        return whole_mp_job_finding();
    case MP_CHUNK_JOB_POINTS:
        return whole_mp_job_point();
    case MP_CHUNK_JOB_TROUBLES:
        return whole_mp_job_trouble();
    default:
        return NULL;
    }
}
