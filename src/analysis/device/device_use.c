#include "analysis/device/device_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/stack.h"
#include "model/track.h"

/* The meaning of a track's bytes for its device's memory. */
enum device_role {
    MP_DEVICE_ROLE_NONE,
    MP_DEVICE_ROLE_BLOCKS,   /* physical memory, block by block */
    MP_DEVICE_ROLE_POOL,     /* blocks within the track's reserved total */
    MP_DEVICE_ROLE_TORCH,    /* blocks within the reserved total of a framework's allocator */
    MP_DEVICE_ROLE_CONTEXTS, /* handles: objects with memory of their own */
    MP_DEVICE_ROLE_MODULES,
    MP_DEVICE_ROLE_HANDLES,
};

static inline bool device_role_made(unsigned role)
{
    return role >= MP_DEVICE_ROLE_CONTEXTS;
}

/* Bytes of one device's tracks, event by event. */
struct device_level {
    uint64_t blocks, pool_blocks, pool_reserved, torch_blocks, torch_reserved;
    bool sampled; /* torch_blocks is an estimate; the reserved total is its upper bound */
};

/* A pool without a reported reserved total holds at least its blocks. */
static inline uint64_t device_pools(const struct device_level *level)
{
    return level->pool_reserved > level->pool_blocks ? level->pool_reserved : level->pool_blocks;
}

/* The bytes of a framework's allocator: its reserved total, or at least its blocks. */
static inline uint64_t device_torch(const struct device_level *level)
{
    bool has_reserved = level->torch_reserved > level->torch_blocks || (level->sampled && level->torch_reserved);
    return has_reserved ? level->torch_reserved : level->torch_blocks;
}

/* PyTorch's memory came from the driver, even if only a part of the driver's side was recorded. */
static inline uint64_t device_handed_out(const struct device_level *level)
{
    uint64_t driver = level->blocks + device_pools(level), torch = device_torch(level);
    return driver > torch ? driver : torch;
}

/* True if a block lives after `moment` events. */
static inline bool device_is_live(const struct mp_model *model, size_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], died = model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && (died == MP_NONE || died >= moment);
}

static void device_add_part(struct mp_device_use *use, enum mp_part_kind kind, const char *name, uint64_t bytes);

/*
 * Allocators that take large pieces from the driver and divide them where memprof cannot see it. Frames of a request to
 * the driver show which allocator made it. Each allocator has a switch that makes its blocks visible.
 */

/* a use gets a line from 1/LEAST_SHARE of the driver's memory on */
#define LEAST_SHARE 20

static const struct {
    const char *name, *module, *function; /* `module`: begin of a frame's shared object; `function`: a part of the
                                           * frame's function; "": any; NULL: none */
    bool pools;                           /* only blocks of the driver's pools */
    const char *advice;
} rules[] = {
    {"PyTorch's pluggable allocator", NULL, "CUDAPluggableAllocator", false,
     "memprof cannot see tensors in it; without change_current_allocator() they are on the torch track"},
    {"PyTorch's cudaMallocAsync backend", "libc10_cuda", "CudaMallocAsync", true,
     "tensors are the blocks of the driver's pool; PYTORCH_CUDA_ALLOC_CONF=backend:native shows them as torch"},
    {"RMM's pool", NULL, "pool_memory_resource", false,
     "memprof cannot see its blocks; rmm.reinitialize(pool_allocator=False) shows each"},
    {"RMM's arena", NULL, "arena_memory_resource", false,
     "memprof cannot see its blocks; another memory resource, such as cuda_async_memory_resource, shows each"},
    {"XLA's arena", "xla_", "", false,
     "memprof cannot see its buffers; XLA_PYTHON_CLIENT_PREALLOCATE=false lets it grow as needed, "
     "XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each"},
    {"XLA's arena", NULL, "BFCAllocator", false,
     "memprof cannot see its buffers; XLA_PYTHON_CLIENT_PREALLOCATE=false (TF_FORCE_GPU_ALLOW_GROWTH=true) lets it "
     "grow as "
     "needed, XLA_PYTHON_CLIENT_ALLOCATOR=platform shows each"},
    {"CuPy's pool", NULL, "cupy.cuda.memory.MemoryPool", false,
     "memprof cannot see its blocks; cupy.cuda.set_allocator(None) shows each"},
    {"CuPy's pool", NULL, "SingleDeviceMemoryPool", false,
     "memprof cannot see its blocks; cupy.cuda.set_allocator(None) shows each"},
};
#define RULES (sizeof rules / sizeof *rules)

static bool line_matches(const struct mp_stack_line *line, size_t rule)
{
    const char *module = line->module ? mp_path_short(line->module) : "";
    if (rules[rule].module && (!strncmp(module, rules[rule].module, strlen(rules[rule].module))) &&
        (!*rules[rule].function || (line->function && strstr(line->function, rules[rule].function))))
        return true;
    return !rules[rule].module && line->function && strstr(line->function, rules[rule].function);
}

/* 1 + the rule that applies to a stack; 0: none. */
static unsigned char rule_of(const struct mp_stack_lines *lines, bool in_pool)
{
    for (size_t rule = 0; rule < RULES; rule++)
        for (size_t i = 0; i < lines->count && (in_pool || !rules[rule].pools); i++)
            if (line_matches(&lines->at[i], rule)) return (unsigned char)(rule + 1);
    return 0;
}

static void add_all(const struct mp_model *model, const unsigned char *roles, const struct mp_device_use *use,
                    uint64_t bytes[RULES])
{
    enum { NOT_ASKED = 255 };
    struct mp_stack_lines lines = {0};
    size_t stacks = model->stacks.count + 1;
    unsigned char *known = mp_alloc(2 * stacks); /* rules of a stack outside of pools, then inside */
    memset(known, NOT_ASKED, 2 * stacks);
    for (size_t i = 0; i < model->blocks.count; i++) {
        unsigned role = roles[model->blocks.track[i]];
        if ((role != MP_DEVICE_ROLE_BLOCKS && role != MP_DEVICE_ROLE_POOL) || !device_is_live(model, i, use->moment))
            continue;
        unsigned char *rule = &known[model->blocks.stack[i] + (role == MP_DEVICE_ROLE_POOL ? stacks : 0)];
        if (*rule == NOT_ASKED) {
            mp_stack_resolve(model, model->blocks.stack[i], &lines);
            *rule = rule_of(&lines, role == MP_DEVICE_ROLE_POOL);
        }
        uint64_t size = mp_model_bytes_at(model, (uint32_t)i, use->moment ? use->moment - 1 : 0);
        if (*rule && size != MP_BYTES_UNKNOWN) bytes[*rule - 1] += size;
    }
    mp_stack_lines_free(&lines);
    free(known);
}

/* Fills use->hidden. */
static void device_find_hidden(const struct mp_model *model, const unsigned char *roles, struct mp_device_use *use)
{
    uint64_t bytes[RULES] = {0};
    add_all(model, roles, use, bytes);
    for (size_t i = 0; i < RULES; i++) {
        struct mp_hidden_allocator hidden = {rules[i].name, rules[i].advice, bytes[i]};
        if (bytes[i] && bytes[i] >= use->handed_out_bytes / LEAST_SHARE) mp_vec_add(&use->hidden, hidden);
    }
}

/* Shared objects that only pass requests on: the driver, its runtime, the recorder. */
static const char *const passing_on[] = {"libcuda.so", "libcudart", "libcupti", "libmemprof",
                                         "libnvidia",  "libc.so",   "ld-linux"};
/* Names that people use for libraries. */
static const struct {
    const char *beginning, *name;
} libraries[] = {{"libc10", "PyTorch"},
                 {"libtorch", "PyTorch"},
                 {"libnccl", "NCCL"},
                 {"libcublas", "cuBLAS"},
                 {"libcudnn", "cuDNN"},
                 {"libcufft", "cuFFT"},
                 {"libcusparse", "cuSPARSE"},
                 {"libcusolver", "cuSOLVER"},
                 {"libcurand", "cuRAND"},
                 {"libnvinfer", "TensorRT"},
                 {"librmm", "RMM"},
                 {"libcudf", "cuDF"},
                 {"xla_", "XLA"},
                 {"libjax", "XLA"},
                 {"libtensorflow", "TensorFlow"},
                 {"libnvshmem", "NVSHMEM"},
                 {"libucx", "UCX"},
                 {"cydriver.", "cuda-python"}};

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* The library that made the request, from the modules of the stack, innermost first; NULL: unknown. */
static const char *asker(const struct mp_model *model, uint32_t stack)
{
    const char *name = NULL;
    for (; stack && !name; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_NATIVE) continue;
        uint32_t module = model->frames.at[frame].raw.module;
        if (!module) continue;
        const char *path = mp_model_text(model, model->modules.at[module].path), *slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        for (size_t i = 0; i < sizeof passing_on / sizeof *passing_on; i++)
            if (name && (!*name || begins(name, passing_on[i]))) name = NULL;
    }
    for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++)
        if (begins(name, libraries[i].beginning)) return libraries[i].name;
    return name;
}

MP_ORDER(largest_first, struct mp_device_part, MP_FALLING(bytes) ?: strcmp(a->name, b->name))

/* Bytes of live blocks by requesting library, the largest first. */
static void gather_callers(const struct mp_model *model, const unsigned char *roles, uint32_t moment,
                           struct mp_device_use *found)
{
    const char **askers = mp_alloc_zeroed(model->stacks.count + 1, sizeof *askers); /* by stack, filled on demand */
    unsigned char *asked = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 0; i < model->blocks.count; i++) {
        unsigned role = roles[model->blocks.track[i]];
        if ((role != MP_DEVICE_ROLE_BLOCKS && role != MP_DEVICE_ROLE_POOL) || !device_is_live(model, i, moment))
            continue;
        uint32_t stack = model->blocks.stack[i];
        if (!asked[stack]) askers[stack] = asker(model, stack);
        asked[stack] = 1;
        uint64_t bytes = mp_model_bytes_at(model, (uint32_t)i, moment ? moment - 1 : 0);
        device_add_part(found, MP_PART_LIBRARY, askers[stack] ? askers[stack] : "unknown callers", bytes);
    }
    free(askers);
    free(asked);
    if (found->parts.count) qsort(found->parts.at, found->parts.count, sizeof *found->parts.at, largest_first);
}

/* Adds the driver's `bytes` at use->moment by requesting library, without segments of PyTorch's allocator. */
static void device_add_libraries(const struct mp_model *model, const unsigned char *roles, uint64_t bytes,
                                 struct mp_device_use *use)
{
    static const char torch[] = "PyTorch";
    struct mp_device_use found = {.parts = {0}};
    bool has_torch = false;
    gather_callers(model, roles, use->moment, &found);
    mp_vec_each (const struct mp_device_part, part, &found.parts) {
        /* PyTorch's part includes its allocator's segments, which `bytes` lacks. So PyTorch gets the bytes that remain
         * after all other libraries. */
        bool is_torch = !strcmp(part->name, torch);
        uint64_t share = is_torch ? 0 : part->bytes < bytes ? part->bytes : bytes;
        has_torch |= is_torch;
        device_add_part(use, MP_PART_LIBRARY, part->name, share);
        bytes -= share;
    }
    mp_vec_free(&found.parts);
    device_add_part(use, MP_PART_LIBRARY, has_torch ? torch : "unknown callers", bytes);
}

#define QUIET_NS (2 * MP_NS_PER_MS)

/* By index of model->tracks, freed by the caller. */
static unsigned char *device_roles(const struct mp_model *model, uint32_t device)
{
    static const unsigned char of_part[] = {
        [MP_DRIVER_NOTHING] = MP_DEVICE_ROLE_NONE,    [MP_DRIVER_BLOCKS] = MP_DEVICE_ROLE_BLOCKS,
        [MP_DRIVER_POOLED] = MP_DEVICE_ROLE_POOL,     [MP_DRIVER_CONTEXTS] = MP_DEVICE_ROLE_CONTEXTS,
        [MP_DRIVER_MODULES] = MP_DEVICE_ROLE_MODULES, [MP_DRIVER_HANDLES] = MP_DEVICE_ROLE_HANDLES};
    unsigned char *roles = mp_alloc_zeroed(model->tracks.count + 1, 1);
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *track = &model->tracks.at[i];
        if (track->device != device) continue;
        if (track->layer == MP_LAYER_TORCH) roles[i] = MP_DEVICE_ROLE_TORCH;
        if (track->layer == MP_LAYER_DRIVER)
            roles[i] = of_part[mp_driver_track(mp_model_text(model, track->name))->part];
    }
    return roles;
}

/* A reading of the device's total, and the recording's numbers at that moment. */
struct reading {
    uint64_t at_ns, in_use, process, others;
    uint32_t moment;
    struct device_level level;
    bool made[MP_DEVICE_ROLE_HANDLES + 1]; /* by role: objects were made since the previous reading */
    bool quiet;
};

struct readings {
    struct reading *at;
    size_t count, room;
    uint64_t before, system;               /* bytes in use before the command ran: in all; and those of no process */
    bool made[MP_DEVICE_ROLE_HANDLES + 1]; /* objects that were made before the recording's first event, at an unknown
                                            * time */
    uint64_t base_ns;                      /* before this, the driver's memory is unknown; 0: always known */
};

static uint32_t string_of(const struct mp_model *model, const char *device, const char *counter)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s", device, counter);
    for (uint32_t id = 1; id < model->strings.count; id++)
        if (!strcmp(mp_model_text(model, id), name)) return id;
    return MP_NONE;
}

/* Values that were read together have the same time; the device's comes first
 * (collect/recording/recording_devices.c). */
static void gather(const struct mp_model *model, uint32_t device, struct readings *readings)
{
    const char *name = mp_model_text(model, model->devices.at[device].name);
    uint32_t in_use = string_of(model, name, "device"), process = string_of(model, name, "process"),
             others = string_of(model, name, "others"), before = string_of(model, name, "before"),
             system = string_of(model, name, "system");
    readings->before = readings->system = MP_BYTES_UNKNOWN;
    mp_vec_each (const struct mp_sample, sample, &model->samples) {
        struct reading *last = readings->count ? &readings->at[readings->count - 1] : NULL;
        if (sample->counter == before) readings->before = sample->value;
        if (sample->counter == system) readings->system = sample->value;
        if (sample->counter == process && last && last->at_ns == sample->time_ns) last->process = sample->value;
        if (sample->counter == others && last && last->at_ns == sample->time_ns) last->others = sample->value;
        if (sample->counter != in_use) continue;
        struct reading fresh = {
            .at_ns = sample->time_ns, .in_use = sample->value, .process = MP_BYTES_UNKNOWN, .others = MP_BYTES_UNKNOWN};
        mp_vec_add(readings, fresh);
    }
}

/* ---- the recording and the readings ---- */

struct sweep {
    const struct mp_model *model;
    const unsigned char *roles;
    struct device_level level, highest;
    uint32_t highest_moment;
    uint64_t *reserved; /* by track */
    struct readings *readings;
    size_t next;          /* the next reading */
    size_t unsettled;     /* readings from here on may not be quiet: a change may follow within QUIET_NS */
    uint64_t last_change; /* 0: none */
    bool made[MP_DEVICE_ROLE_HANDLES + 1];
};

static void start_level(struct sweep *sweep)
{
    const struct mp_model *model = sweep->model;
    sweep->level.sampled = model->sample_bytes;
    for (size_t i = 0; i < model->tracks.count; i++) {
        uint64_t base = model->sums.at[i].base_bytes;
        if (sweep->roles[i] == MP_DEVICE_ROLE_BLOCKS) sweep->level.blocks += base;
        if (sweep->roles[i] == MP_DEVICE_ROLE_POOL) sweep->level.pool_blocks += base;
        if (sweep->roles[i] == MP_DEVICE_ROLE_TORCH) sweep->level.torch_blocks += base;
    }
    sweep->highest = sweep->level;
    if (device_handed_out(&sweep->level) && model->events.count) sweep->readings->base_ns = model->events.time_ns[0];
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.alloc_event[i] == MP_NONE && device_role_made(sweep->roles[model->blocks.track[i]]))
            sweep->readings->made[sweep->roles[model->blocks.track[i]]] = true;
}

/* The change of the level by an event about a block. */
static uint64_t difference(const struct mp_model *model, uint32_t event)
{
    uint32_t block = model->events.subject[event];
    uint64_t before = event ? mp_model_bytes_at(model, block, event - 1) : 0;
    if (model->events.type[event] == MP_EVENT_ALLOC) return mp_known(model->blocks.bytes[block]);
    if (model->events.type[event] == MP_EVENT_FREE) return -mp_known(before);
    return mp_known(mp_model_bytes_at(model, block, event)) - mp_known(before);
}

static bool concerns(const struct sweep *sweep, uint32_t event)
{
    unsigned type = sweep->model->events.type[event];
    return (type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE || type == MP_EVENT_RESERVED) &&
           sweep->roles[sweep->model->events.track[event]] != MP_DEVICE_ROLE_NONE;
}

static void apply(struct sweep *sweep, uint32_t event)
{
    const struct mp_model *model = sweep->model;
    unsigned type = model->events.type[event];
    uint16_t track = model->events.track[event];
    unsigned role = sweep->roles[track];
    struct device_level *level = &sweep->level;
    if (type == MP_EVENT_RESERVED) {
        uint64_t bytes = model->notes.at[model->events.subject[event]].bytes;
        uint64_t *total = role == MP_DEVICE_ROLE_TORCH ? &level->torch_reserved : &level->pool_reserved;
        if (role == MP_DEVICE_ROLE_TORCH || role == MP_DEVICE_ROLE_POOL) *total += bytes - sweep->reserved[track];
        sweep->reserved[track] = bytes;
        return;
    }
    if (role == MP_DEVICE_ROLE_BLOCKS) level->blocks += difference(model, event);
    if (role == MP_DEVICE_ROLE_POOL) level->pool_blocks += difference(model, event);
    if (role == MP_DEVICE_ROLE_TORCH) level->torch_blocks += difference(model, event);
    if (type == MP_EVENT_ALLOC && device_role_made(role)) sweep->made[role] = true;
}

static void meet_readings(struct sweep *sweep, uint64_t until, uint32_t event)
{
    struct readings *readings = sweep->readings;
    for (; sweep->next < readings->count && readings->at[sweep->next].at_ns < until; sweep->next++) {
        struct reading *reading = &readings->at[sweep->next];
        reading->moment = event;
        reading->level = sweep->level;
        reading->quiet = !sweep->last_change || reading->at_ns - sweep->last_change >= QUIET_NS;
        memcpy(reading->made, sweep->made, sizeof reading->made);
        memset(sweep->made, 0, sizeof sweep->made);
    }
}

static void note_change(struct sweep *sweep, uint64_t now)
{
    struct readings *readings = sweep->readings;
    for (; sweep->unsettled < sweep->next; sweep->unsettled++)
        if (now - readings->at[sweep->unsettled].at_ns < QUIET_NS) readings->at[sweep->unsettled].quiet = false;
    sweep->last_change = now ? now : 1;
}

/* True if `level` has more memory from the driver than `highest`, or the same amount with more of it explained. */
static bool knows_more(const struct device_level *level, const struct device_level *highest)
{
    uint64_t now = device_handed_out(level), before = device_handed_out(highest);
    if (now != before) return now > before;
    if (level->torch_blocks != highest->torch_blocks) return level->torch_blocks > highest->torch_blocks;
    return level->torch_reserved > highest->torch_reserved;
}

static void run(struct sweep *sweep)
{
    const struct mp_model *model = sweep->model;
    sweep->reserved = mp_alloc_zeroed(model->tracks.count + 1, sizeof *sweep->reserved);
    start_level(sweep);
    for (uint32_t i = 0; i < model->events.count; i++) {
        if (!concerns(sweep, i)) continue;
        uint64_t now = model->events.time_ns[i], before = device_handed_out(&sweep->level);
        meet_readings(sweep, now, i);
        apply(sweep, i);
        uint64_t after = device_handed_out(&sweep->level);
        if (after != before) note_change(sweep, now);
        if (!knows_more(&sweep->level, &sweep->highest)) continue;
        sweep->highest = sweep->level;
        sweep->highest_moment = i + 1;
    }
    meet_readings(sweep, UINT64_MAX, (uint32_t)model->events.count);
    free(sweep->reserved);
}

/* ---- the moment, and its parts ---- */

static uint64_t ours(const struct readings *readings, const struct reading *reading)
{
    if (reading->process != MP_BYTES_UNKNOWN) return reading->process;
    uint64_t before = readings->before == MP_BYTES_UNKNOWN ? 0 : readings->before;
    return reading->in_use > before ? reading->in_use - before : 0;
}

/* False for a reading from after the process's end: it is below the lowest recorded bytes, or no longer names the
 * process. A reading from before the process had memory does not count either. */
static bool says_something(const struct reading *reading, bool is_named, bool had_memory)
{
    if (had_memory && !device_handed_out(&reading->level)) return false;
    return reading->in_use >= device_handed_out(&reading->level) && (!is_named || reading->process != MP_BYTES_UNKNOWN);
}

static const struct reading *choose(const struct readings *readings, bool had_memory)
{
    const struct reading *best = NULL;
    bool is_named = false;
    for (size_t i = 0; i < readings->count; i++)
        is_named |= readings->at[i].process != MP_BYTES_UNKNOWN;
    for (size_t i = 0; i < readings->count; i++) {
        const struct reading *reading = &readings->at[i];
        if (!says_something(reading, is_named, had_memory) || (best && best->quiet > reading->quiet)) continue;
        if (!best || reading->quiet > best->quiet || ours(readings, reading) > ours(readings, best)) best = reading;
    }
    return best;
}

/* Divides the unexplained rest's growth between two readings among contexts and modules made in between. `rest` is the
 * amount to divide; returns the remainder. */
static uint64_t book(const struct readings *readings, const struct reading *until, uint64_t rest,
                     struct mp_device_use *use)
{
    static const struct {
        enum device_role role;
        enum mp_part_kind part;
        const char *name;
    } causes[] = {{MP_DEVICE_ROLE_CONTEXTS, MP_PART_CONTEXT, "context"},
                  {MP_DEVICE_ROLE_MODULES, MP_PART_MODULES, "modules"},
                  {MP_DEVICE_ROLE_HANDLES, MP_PART_HANDLES, "streams and graphs"}};
    uint64_t grown[MP_DEVICE_ROLE_HANDLES + 1] = {0}, before = 0;
    bool made[MP_DEVICE_ROLE_HANDLES + 1];
    memcpy(made, readings->made, sizeof made);
    for (const struct reading *reading = readings->at; reading <= until; reading++) {
        for (size_t i = 0; i < sizeof made / sizeof *made; i++)
            made[i] |= reading->made[i];
        if ((!reading->quiet || reading->at_ns < readings->base_ns) && reading != until) continue;
        uint64_t handed_out = device_handed_out(&reading->level), all = ours(readings, reading);
        uint64_t now = all > handed_out ? all - handed_out : 0;
        size_t cause = 0;
        while (cause < sizeof causes / sizeof *causes && !made[causes[cause].role])
            cause++;
        if (now > before && cause < sizeof causes / sizeof *causes) grown[causes[cause].role] += now - before;
        if (now)
            memset(made, 0, sizeof made); /* with 0, the new objects have no memory yet, or no reading shows it: they
                                           * wait for the next reading */
        before = now;
    }
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        uint64_t bytes = grown[causes[i].role] < rest ? grown[causes[i].role] : rest;
        device_add_part(use, causes[i].part, causes[i].name, bytes);
        rest -= bytes;
    }
    return rest;
}

/* Adds bytes to the part of that name, or a new part; ignores 0 bytes. */
static void device_add_part(struct mp_device_use *use, enum mp_part_kind kind, const char *name, uint64_t bytes)
{
    if (!bytes || bytes == MP_BYTES_UNKNOWN) return;
    for (size_t i = 0; i < use->parts.count; i++) {
        if (use->parts.at[i].kind != kind || strcmp(use->parts.at[i].name, name)) continue;
        use->parts.at[i].bytes += bytes;
        return;
    }
    struct mp_device_part part = {kind, name, bytes};
    mp_vec_add(&use->parts, part);
}

static void add_known(const struct mp_model *model, const unsigned char *roles, const struct device_level *level,
                      struct mp_device_use *use)
{
    uint64_t reserved = device_torch(level);
    uint64_t tensors = level->torch_blocks < reserved ? level->torch_blocks : reserved;
    uint64_t pool_free = device_pools(level) - level->pool_blocks;
    uint64_t other = device_handed_out(level) - reserved;
    if (pool_free > other) pool_free = other;
    device_add_part(use, MP_PART_TENSORS, "tensors", tensors);
    device_add_part(use, MP_PART_CACHED, "cached, free", reserved - tensors);
    device_add_libraries(model, roles, other - pool_free, use);
    device_add_part(use, MP_PART_POOL_FREE, "in pools, free", pool_free);
}

static void add_rest(const struct readings *readings, const struct reading *reading, struct mp_device_use *use)
{
    uint64_t all = ours(readings, reading), unattributed = 0;
    use->in_use_bytes = reading->in_use;
    use->process_bytes = reading->process;
    use->others_bytes = reading->others;
    if (use->handed_out_bytes > all) use->beyond_bytes = use->handed_out_bytes - all;
    if (all > use->handed_out_bytes) unattributed = book(readings, reading, all - use->handed_out_bytes, use);
    uint64_t rest = reading->in_use - (all < reading->in_use ? all : reading->in_use);
    if (reading->process == MP_BYTES_UNKNOWN) {
        device_add_part(use, MP_PART_BEFORE, "in use before", rest);
        rest = 0;
    } else if (reading->others != MP_BYTES_UNKNOWN) {
        uint64_t others = reading->others < rest ? reading->others : rest;
        device_add_part(use, MP_PART_OTHERS, "other processes", others);
        rest -= others;
    }
    uint64_t system = readings->system == MP_BYTES_UNKNOWN ? rest : readings->system;
    if (reading->others == MP_BYTES_UNKNOWN || system > rest) system = rest;
    device_add_part(use, MP_PART_SYSTEM, "driver", system);
    use->unattributed_bytes = unattributed + rest - system;
    device_add_part(use, MP_PART_UNATTRIBUTED, "unattributed", use->unattributed_bytes);
}

/* False: nothing is known about the device's memory. */
static bool find_one(const struct mp_model *model, uint32_t device, struct mp_device_use *use)
{
    struct readings readings = {0};
    unsigned char *roles = device_roles(model, device);
    struct sweep sweep = {.model = model, .roles = roles, .readings = &readings};
    gather(model, device, &readings);
    run(&sweep);
    const struct reading *reading = choose(&readings, device_handed_out(&sweep.highest) > 0);
    const struct device_level *level = reading ? &reading->level : &sweep.highest;
    *use = (struct mp_device_use){.device = device,
                                  .sampled = reading,
                                  .quiet = reading && reading->quiet,
                                  .moment = reading ? reading->moment : sweep.highest_moment,
                                  .in_use_bytes = MP_BYTES_UNKNOWN,
                                  .process_bytes = MP_BYTES_UNKNOWN,
                                  .others_bytes = MP_BYTES_UNKNOWN,
                                  .handed_out_bytes = device_handed_out(level),
                                  .most_bytes = device_handed_out(&sweep.highest),
                                  .unattributed_bytes = MP_BYTES_UNKNOWN};
    if (sweep.highest_moment) use->most_ns = model->events.time_ns[sweep.highest_moment - 1];
    use->at_ns = reading ? reading->at_ns : use->most_ns;
    add_known(model, roles, level, use);
    if (reading) add_rest(&readings, reading, use);
    device_find_hidden(model, roles, use);
    free(roles);
    mp_vec_free(&readings);
    return reading || use->handed_out_bytes;
}

static void free_use(struct mp_device_use *use)
{
    mp_vec_free(&use->parts);
    mp_vec_free(&use->hidden);
}

void mp_device_uses_find(const struct mp_model *model, struct mp_device_uses *uses)
{
    for (uint32_t i = 0; i < model->devices.count && i < MP_DEVICES_MAX;
         i++) { /* each device takes a pass over all events */
        struct mp_device_use use;
        if (strncmp(mp_model_text(model, model->devices.at[i].name), "cuda:", 5)) continue;
        if (find_one(model, i, &use))
            mp_vec_add(uses, use);
        else
            free_use(&use);
    }
}

uint64_t mp_device_unattributed(const struct mp_device_uses *uses)
{
    uint64_t sum = MP_BYTES_UNKNOWN;
    for (size_t i = 0; i < uses->count; i++) {
        uint64_t bytes = uses->at[i].unattributed_bytes;
        if (bytes != MP_BYTES_UNKNOWN) sum = (sum == MP_BYTES_UNKNOWN ? 0 : sum) + bytes;
    }
    return sum;
}

void mp_device_uses_free(struct mp_device_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++)
        free_use(&uses->at[i]);
    mp_vec_free(uses);
}
