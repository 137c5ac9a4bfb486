#include "capture/torch/operators.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "capture/core/recorder.h"
#include "capture/core/tables.h"
#include "capture/stack/stack.h"

#define DEPTH_MOST   64   /* operators within operators; further ones are not logged */
#define TENSORS_MOST 8192 /* tensors of all running operators of a thread: an optimizer's step has some thousands */
#define NAMES        512  /* entries of the caches, which replace the table's lock */
#define SHAPES       2048
#define DIMS_MOST    16

struct tensor {
    uint64_t address; /* of its storage */
    uint32_t shape;   /* string id */
    uint32_t how;     /* enum mp_use_how */
};

struct running {
    uint32_t name, first; /* string id; index of its first tensor */
    uint64_t begun_ns;
    bool is_factory;
};

/* Facts about a schema. */
struct schema {
    const void *at;
    uint32_t name;
    bool is_factory;
    uint64_t writes, views; /* bit N: the operator writes to its argument N, or its result may be a view of it */
};

struct operators_thread {
    uint32_t generation; /* of the session whose string ids the caches have */
    uint32_t depth, nodes, count;
    uint8_t number;    /* of the last operator that was sent */
    bool module_known; /* `module` is that of the outermost operator that runs, and of all within it */
    uint32_t module;   /* string id of its path */
    struct running running[DEPTH_MOST];
    uint32_t node[DEPTH_MOST]; /* names of the nodes that run */
    struct schema schemas[NAMES];
    struct {
        uint64_t hash;
        uint32_t id;
    } shapes[SHAPES];
    struct tensor tensors[TENSORS_MOST];
};

static size_t thread_place;
const struct mp_front mp_operators_front = {.thread_bytes = sizeof(struct operators_thread),
                                            .thread_place = &thread_place};

static struct mp_torch_layout layout;
static atomic_bool begun;
__thread bool mp_operators_probing;

static uint64_t word_at(const void *at, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)at + offset, sizeof word);
    return word;
}

static const void *pointer_at(const void *at, uint64_t offset)
{
    return (const void *)(uintptr_t)word_at(at, offset);
}

static struct operators_thread *own_of(struct mp_thread *thread)
{
    struct operators_thread *own = mp_thread_part(thread, thread_place);
    if (own->generation != thread->generation) {
        memset(own, 0, offsetof(struct operators_thread, tensors));
        own->generation = thread->generation;
    }
    return own;
}

/* ---- tensors -------------------------------------------------------------------------------------------------- */

static bool is_contiguous(const int64_t *sizes, const int64_t *strides, uint64_t dims)
{
    int64_t expected = 1;
    for (uint64_t i = dims; i-- > 0;) {
        if (sizes[i] != 1 && strides[i] != expected) return false;
        expected *= sizes[i];
    }
    return true;
}

static size_t put_numbers(char *text, size_t room, const int64_t *numbers, uint64_t count)
{
    size_t used = 0;
    for (uint64_t i = 0; i < count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    return used < room ? used : room - 1;
}

/* The string id of "float32 [8, 128]", or of "float32 [8, 128] strides [1, 8]". */
static uint32_t shape_of(struct operators_thread *own, const void *tensor)
{
    const char *at = (const char *)tensor + layout.tensor_dims;
    uint64_t dims = word_at(at, 0);
    uint16_t dtype;
    memcpy(&dtype, (const char *)tensor + layout.tensor_dtype, sizeof dtype);
    if (dims > DIMS_MOST || dtype >= sizeof layout.dtypes / sizeof *layout.dtypes) return 0;
    const int64_t *sizes = dims <= layout.dims_inline ? (const int64_t *)(const void *)(at + 8) : pointer_at(at, 8);
    const int64_t *strides = sizes + (dims <= layout.dims_inline ? layout.dims_inline : dims);
    uint64_t hash = mp_hash_mix(dims << 16 | dtype);
    for (uint64_t i = 0; i < dims; i++)
        hash = mp_hash_mix(hash ^ (uint64_t)sizes[i]) + (uint64_t)strides[i] * 31;
    hash = mp_hash_mix(hash) | 1;
    uint32_t slot = (uint32_t)(hash >> 32) % SHAPES;
    if (own->shapes[slot].hash == hash) return own->shapes[slot].id;
    char text[64 + 2 * DIMS_MOST * 22];
    size_t used = (size_t)snprintf(text, sizeof text, "%.23s [", layout.dtypes[dtype]);
    used += put_numbers(text + used, sizeof text - used, sizes, dims);
    if (!is_contiguous(sizes, strides, dims)) {
        used += (size_t)snprintf(text + used, sizeof text - used, "] strides [");
        used += put_numbers(text + used, sizeof text - used, strides, dims);
    }
    text[used++] = ']';
    own->shapes[slot].id = mp_table_string(text, used);
    own->shapes[slot].hash = own->shapes[slot].id ? hash : 0;
    return own->shapes[slot].id;
}

static void take_tensor(struct operators_thread *own, const void *tensor, uint32_t how)
{
    const void *storage = tensor ? pointer_at(tensor, layout.tensor_storage) : NULL;
    uint64_t address = storage ? word_at(storage, layout.storage_data) : 0;
    if (address && own->count < TENSORS_MOST)
        own->tensors[own->count++] = (struct tensor){address, shape_of(own, tensor), how};
}

static void take_value(struct operators_thread *own, const char *value, uint32_t how)
{
    uint32_t tag;
    memcpy(&tag, value + layout.value_tag, sizeof tag);
    if (tag == layout.tag_tensor) take_tensor(own, pointer_at(value, 0), how);
    if (tag != layout.tag_list) return;
    const char *list = pointer_at(value, 0);
    const char *at = pointer_at(list, layout.list_values), *end = pointer_at(list, layout.list_values + 8);
    for (; at < end; at += layout.value_bytes) {
        memcpy(&tag, at + layout.value_tag, sizeof tag);
        if (tag == layout.tag_tensor) take_tensor(own, pointer_at(at, 0), how);
    }
}

/* ---- operators ------------------------------------------------------------------------------------------------ */

/* The schema of an operator; NULL for other code that PyTorch names, such as a node of backward. The word is then a
 * text, or the length of one. */
static const void *schema_of(const void *run, const char *name)
{
    uint64_t word = word_at(run, layout.run_schema);
    if (word < 1 << 16 || word & 7 || (const char *)(uintptr_t)word == name) return NULL;
    const void *schema = (const void *)(uintptr_t)word;
    return pointer_at(schema, 0) == name ? schema : NULL;
}

static void read_arguments(const void *schema, struct schema *known)
{
    const char *at = pointer_at(schema, layout.schema_arguments);
    const char *end = pointer_at(schema, layout.schema_arguments + 8);
    for (unsigned i = 0; at < end && i < 64; at += layout.argument_bytes, i++) {
        const char *alias = pointer_at(at, layout.argument_alias);
        bool writes = alias && alias[layout.alias_write] == 1;
        if (alias) *(writes ? &known->writes : &known->views) |= UINT64_C(1) << i;
    }
}

/* Operators that only allocate: the one that calls them says more. */
static bool is_factory(const char *name)
{
    return !strncmp(name, "empty", 5) || !strncmp(name, "new_empty", 9) || !strncmp(name, "resize", 6) ||
           !strncmp(name, "set_", 4);
}

static const struct schema *known_schema(struct operators_thread *own, const void *schema, const char *name)
{
    struct schema *known = &own->schemas[mp_hash_mix((uintptr_t)schema) % NAMES];
    if (known->at == schema) return known;
    if (!strncmp(name, "aten::", 6)) name += 6; /* PyTorch's own operators */
    *known = (struct schema){schema, mp_record_name(name), is_factory(name), 0, 0};
    read_arguments(schema, known);
    return known;
}

/* If an operator that may return a view copies instead, the operator that copies reads. */
static uint32_t how_of(const struct schema *known, uint64_t argument)
{
    if (argument > 63) return MP_USE_READ;
    return known->writes >> argument & 1  ? MP_USE_READ | MP_USE_WRITTEN
           : known->views >> argument & 1 ? 0
                                          : MP_USE_READ;
}

static void begin_operator(struct mp_thread *thread, const void *run, const void *schema, const char *name)
{
    struct operators_thread *own = own_of(thread);
    uint32_t depth = own->depth++;
    if (!depth) own->module_known = false;
    if (depth >= DEPTH_MOST) return;
    const struct schema *known = known_schema(own, schema, name);
    own->running[depth] = (struct running){known->name, own->count, mp_session_clock_ns(), known->is_factory};
    const char *value = pointer_at(run, layout.run_inputs);
    uint64_t count = word_at(run, layout.run_inputs + 8);
    for (uint64_t i = 0; i < count; i++, value += layout.value_bytes)
        take_value(own, value, how_of(known, i));
}

/* An output in the storage of an input that is not written to is a view. A view reads nothing. */
static void mark_views(struct tensor *tensors, uint32_t inputs, uint32_t count)
{
    for (uint32_t out = inputs; out < count; out++)
        for (uint32_t in = 0; in < inputs && in < 16; in++)
            if (tensors[in].address == tensors[out].address && !(tensors[in].how & MP_USE_WRITTEN))
                tensors[in].how = 0, tensors[out].how |= MP_USE_VIEW;
}

static void send_operator(struct mp_thread *thread, struct operators_thread *own, const struct running *running)
{
    uint32_t count = own->count - running->first;
    const struct tensor *at = own->tensors + running->first;
    if (!count) return;
    if (!own->module_known) own->module = mp_stack_module(thread);
    own->module_known = true;
    own->number++;
    struct mp_record record = {.address = own->module,
                               .bytes = count,
                               .stack = own->nodes ? own->node[own->nodes - 1] : 0,
                               .name = running->name,
                               .type = MP_RECORD_OPERATOR,
                               .kind = own->number,
                               .moment_ns = running->begun_ns};
    mp_record_prepared(thread, &record);
    for (; count; at += MP_TENSORS_A_RECORD) {
        struct tensor four[MP_TENSORS_A_RECORD] = {{0}};
        uint32_t here = count < MP_TENSORS_A_RECORD ? count : MP_TENSORS_A_RECORD;
        memcpy(four, at, here * sizeof *at);
        count -= here;
        record = (struct mp_record){
            .address = four[0].address,
            .bytes = four[1].address,
            .total_allocated = four[2].address,
            .total_reserved = four[3].address,
            .name = four[0].shape,
            .stack = four[1].shape,
            .moment_ns = (uint64_t)four[3].shape << 32 | four[2].shape,
            .track = (uint16_t)(four[0].how | four[1].how << 4 | four[2].how << 8 | four[3].how << 12),
            .type = MP_RECORD_TENSORS,
            .kind = own->number,
        };
        mp_record_prepared(thread, &record);
    }
}

static void end_operator(struct mp_thread *thread, const void *run)
{
    struct operators_thread *own = own_of(thread);
    if (!own->depth || own->depth-- > DEPTH_MOST) return;
    const struct running *running = &own->running[own->depth];
    uint32_t inputs = own->count - running->first;
    const char *at = pointer_at(run, layout.run_outputs), *end = pointer_at(run, layout.run_outputs + 8);
    for (; at < end; at += layout.value_bytes)
        take_value(own, at, MP_USE_OUTPUT);
    mark_views(own->tensors + running->first, inputs, own->count - running->first);
    send_operator(thread, own, running);
    own->count = running->first;
}

void mp_operators_kernel(const char *name, const void *const *tensors, const unsigned char *how, unsigned count)
{
    bool logs = atomic_load_explicit(&begun, memory_order_acquire) && mp_session_recording();
    struct mp_thread *thread = logs ? mp_hook_enter() : NULL;
    if (!thread) return;
    struct operators_thread *own = own_of(thread);
    struct running running = {mp_record_name(name), own->count, mp_session_clock_ns(), false};
    if (!own->depth) own->module_known = false;
    for (unsigned i = 0; i < count; i++)
        take_tensor(own, tensors[i], how[i]);
    send_operator(thread, own, &running);
    own->count = running.first;
    mp_hook_leave(thread);
}

uint64_t mp_operators_running(struct mp_thread *thread)
{
    if (!atomic_load_explicit(&begun, memory_order_relaxed)) return 0;
    struct operators_thread *own = own_of(thread);
    uint32_t depth = own->depth < DEPTH_MOST ? own->depth : DEPTH_MOST;
    uint64_t name = 0;
    while (depth) {
        name = own->running[--depth].name;
        if (!own->running[depth].is_factory) break;
    }
    return name | (uint64_t)(own->nodes ? own->node[own->nodes - 1] : 0) << 32;
}

/* ---- callbacks: std::unique_ptr<ObserverContext> begin(const RecordFunction &), void end(..., ObserverContext *) ----
 */

static void **begin(void **context, const void *run)
{
    *context = NULL;
    const char *name = mp_session_recording() ? layout.name(run) : NULL;
    const void *schema = name ? schema_of(run, name) : NULL;
    struct mp_thread *thread = schema ? mp_hook_enter() : NULL;
    if (!thread) return context;
    begin_operator(thread, run, schema, name);
    mp_hook_leave(thread);
    return context;
}

static void end(const void *run, void *context)
{
    (void)context;
    const char *name = mp_session_recording() ? layout.name(run) : NULL;
    struct mp_thread *thread = name && schema_of(run, name) ? mp_hook_enter() : NULL;
    if (!thread) return;
    end_operator(thread, run);
    mp_hook_leave(thread);
}

static void **node_begin(void **context, const void *run)
{
    *context = NULL;
    const char *name = mp_session_recording() ? layout.name(run) : NULL;
    struct mp_thread *thread = name ? mp_hook_enter() : NULL;
    if (!thread) return context;
    struct operators_thread *own = own_of(thread);
    if (own->nodes < DEPTH_MOST) own->node[own->nodes++] = mp_record_name(name);
    mp_hook_leave(thread);
    return context;
}

static void node_end(const void *run, void *context)
{
    (void)run, (void)context;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct operators_thread *own = own_of(thread);
    if (own->nodes) own->nodes--;
    mp_hook_leave(thread);
}

static void *address_of(const void *function)
{
    void *at;
    memcpy(&at, function, sizeof at);
    return at;
}

int mp_operators_begin(void *given)
{
    struct mp_torch_layout *from = given;
    mp_operators_probing = false;
#if defined(__x86_64__)
    if (!mp_session_recording() || !mp_session.config.operators || from->bytes != sizeof *from) return -1;
    void **(*const begins[])(void **, const void *) = {begin, node_begin};
    void (*const ends[])(const void *, void *) = {end, node_end};
    from->begin = address_of(&begins[0]), from->node_begin = address_of(&begins[1]);
    from->end = address_of(&ends[0]), from->node_end = address_of(&ends[1]);
    mp_operators_probing = !from->name;
    if (!from->name) return 0;
    layout = *from;
    atomic_store(&begun, true);
    return 0;
#else
    (void)from; /* another ABI returns a context in another way */
    return -1;
#endif
}
