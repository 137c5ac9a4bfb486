#include "capture/stack/stack.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/step_function.h"
#include "capture/core/session.h"
#include "capture/core/tables.h"
#include "capture/core/tag_cache.h"
#include "capture/core/thread.h"
#include "capture/native/loaded.h"
#include "capture/python/module_paths.h"

static struct mp_tag_cache stacks, frames;
/* No frame has this id, because the table of frames has fewer. */
#define FRAME_LEFT_OUT ((UINT32_C(1) << MP_TAG_ID_BITS) - 1)
/* Ranges of code whose frames at the inner end of a stack are left out: the recorder's own, and wrappers between it and
 * the program. */
#define LEFT_OUT_MAX 4
static struct left_out {
    uint64_t start, end;
} left_out[LEFT_OUT_MAX];
static _Atomic uint32_t left_out_count;
static _Atomic uint64_t code_generation; /* counts unloads; part of every hash over addresses */

void mp_stack_leave_out(uintptr_t address)
{
    struct mp_module_facts module;
    uint32_t count = atomic_load(&left_out_count);
    if (count == LEFT_OUT_MAX || !mp_module_of(address, &module)) return;
    left_out[count] = (struct left_out){module.start, module.end};
    atomic_store_explicit(&left_out_count, count + 1, memory_order_release);
}

static bool start(void)
{
    mp_module_start();
    mp_native_walk_start();
    mp_stack_leave_out((uintptr_t)start);
    return true;
}

static void end(void)
{
    mp_tag_cache_end(&stacks);
    mp_tag_cache_end(&frames);
}

static bool reset(void)
{
    return mp_tag_cache_reset(&stacks) && mp_tag_cache_reset(&frames);
}

static size_t thread_place;
const struct mp_front mp_stack_front = {.start = start,
                                        .reset = reset,
                                        .end = end,
                                        .memory = {&stacks.memory, &frames.memory},
                                        .thread_bytes = sizeof(struct mp_stack_thread),
                                        .thread_place = &thread_place};

struct mp_stack_thread *mp_stack_thread(struct mp_thread *thread)
{
    return mp_thread_part(thread, thread_place);
}

bool mp_stack_same(struct mp_thread *thread, uintptr_t inner, uintptr_t outer)
{
    return mp_native_same_stack(&mp_stack_thread(thread)->room.known, inner, outer);
}

void mp_stack_code_unloaded(void)
{
    atomic_fetch_add(&code_generation, 1);
    mp_native_walk_forget();
}

/* The modules of the last frames. They are kept because reading a module's facts from the loader takes some 15 system
 * calls. Under the table lock; if a jump interrupts a change, the id is 0. */
static struct known_module {
    uint64_t start, end, generation, session, bias;
    _Atomic uint32_t id;
} known_modules[64];

static uint32_t read_module(uintptr_t address, struct mp_module_facts *facts)
{
    static char path[PATH_MAX]; /* under the table lock */
    if (!mp_module_of(address, facts)) return 0;
    struct mp_wire_module module;
    memset(&module, 0, sizeof module);
    module.start = facts->start;
    module.end = facts->end;
    module.bias = facts->bias;
    module.file = facts->file;
    mp_module_path(facts, path, sizeof path);
    module.path = mp_table_string_locked(path, strlen(path));
    return mp_table_module_locked(&module);
}

static uint32_t module_id(uintptr_t address, uint64_t *bias)
{
    uint64_t generation = atomic_load(&code_generation), session = atomic_load(&mp_session.page->generation);
    struct mp_module_place place;
    *bias = 0;
    if (!mp_module_place(address, &place)) return 0;
    struct known_module *known = &known_modules[(place.start >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
    if (!atomic_load(&known->id) || known->start != place.start || known->end != place.end ||
        known->generation != generation || known->session != session) {
        struct mp_module_facts facts;
        uint32_t id = read_module(address, &facts);
        if (!id) return 0;
        atomic_store(&known->id, 0);
        known->start = place.start;
        known->end = place.end;
        known->generation = generation;
        known->session = session;
        known->bias = facts.bias;
        atomic_store(&known->id, id);
    }
    *bias = known->bias;
    return atomic_load(&known->id);
}

static uint32_t native_frame(uintptr_t address)
{
    uint64_t hash = mp_hash_mix(mp_hash_step(atomic_load(&code_generation), address));
    uint32_t id = mp_tag_cache_find(&frames, hash);
    if (id != MP_TAG_NONE) return id;
    uint64_t bias;
    struct mp_wire_frame frame = {.language = MP_NATIVE, .module = module_id(address, &bias)};
    frame.address = address - bias;
    id = mp_table_frame_locked(&frame);
    if (id != MP_WIRE_FRAME_CUT) mp_tag_cache_put(&frames, hash, id);
    return id;
}

/* Remembers a function of --step-at. The caller holds the table lock. */
static void note_function(const struct mp_python_frame *python, const struct mp_python_description *names)
{
    static char called[sizeof names->file + sizeof names->function];
    int length = snprintf(called, sizeof called, "%s:%s", names->file, names->function);
    if (mp_step_function_means(mp_session.config.step_at, called))
        mp_python_calls_add(python->code, python->identity, mp_table_string_locked(called, (size_t)length));
}

static uint32_t python_frame(const struct mp_python_frame *python)
{
    uint64_t hash = mp_hash_mix(mp_hash_step(python->identity, python->instruction + UINT64_C(0x100000000)));
    uint32_t id = mp_tag_cache_find(&frames, hash);
    if (id != MP_TAG_NONE) return id;
    static struct mp_python_description names; /* under the table lock */
    struct mp_wire_frame frame = {.language = MP_PYTHON};
    if (mp_python_describe(python, &names)) {
        /* The shims and what starts them are not the program's code. */
        if (strstr(names.file, "/libmemprof_torch/") || strstr(names.file, "/libmemprof_plan/") ||
            strstr(names.file, "/python/start/sitecustomize.py")) {
            mp_tag_cache_put(&frames, hash, FRAME_LEFT_OUT);
            return FRAME_LEFT_OUT;
        }
        if (*mp_session.config.step_at) note_function(python, &names);
        frame.function = mp_table_string_locked(names.function, strlen(names.function));
        frame.file = mp_table_string_locked(names.file, strlen(names.file));
        frame.line = names.line;
    }
    id = mp_table_frame_locked(&frame);
    if (id != MP_WIRE_FRAME_CUT) mp_tag_cache_put(&frames, hash, id);
    return id;
}

static uint32_t frame_id(const struct mp_stack_room *room, const struct mp_merged_frame *frame)
{
    return frame->python == MP_MERGED_NATIVE ? native_frame(frame->address)
                                             : python_frame(&room->python[frame->python]);
}

static size_t leave_out_frames(struct mp_stack_room *room, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (frame_id(room, &room->merged[i]) != FRAME_LEFT_OUT) room->merged[kept++] = room->merged[i];
    return kept;
}

static void count_in_header(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Adds a merged path (innermost first) to the tables, from its outer end, below node `root`. A stack deeper than
 * `depth` frames keeps its innermost 3/4 `depth` and its outermost 1/4 `depth`, with a mark between. `lost`: the outer
 * end is unknown, and is marked, too. */
static uint32_t enter_path(struct mp_stack_room *room, size_t count, bool cut, bool lost, uint32_t root)
{
    count = leave_out_frames(room, count);
    size_t depth = mp_session.config.depth, inner = count, outer_from = count;
    if (count > depth) {
        inner = depth - depth / 4;
        outer_from = count - depth / 4;
        cut = true;
    }
    if (cut) count_in_header(&mp_session.header->losses.truncated_stacks);
    uint32_t node = root;
    for (size_t i = count; i-- > outer_from;)
        node = mp_table_node_locked(node, frame_id(room, &room->merged[i]));
    if (cut || lost) node = mp_table_node_locked(node, MP_WIRE_FRAME_CUT);
    for (size_t i = inner; i-- > 0;)
        node = mp_table_node_locked(node, frame_id(room, &room->merged[i]));
    return node;
}

static bool is_left_out(const void *address)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    uint32_t count = atomic_load_explicit(&left_out_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (at - left_out[i].start < left_out[i].end - left_out[i].start) return true;
    return false;
}

/* True for the recorder's own code. */
static bool is_own(const void *address)
{
    return (uint64_t)(uintptr_t)address - left_out[0].start < left_out[0].end - left_out[0].start;
}

/* Removes the recorder's own inner frames. Its definitions of PyTorch's functions lie between two functions of PyTorch;
 * their frames are removed, too. If the walk went past the call that runs a node, cuts it at that call. */
static void leave_out_own(const struct mp_backward *root, struct mp_native_stack *native, void **addresses)
{
    uint32_t from = 0, kept = 0;
    while (from < native->count && is_left_out(addresses[from]))
        from++;
    for (uint32_t i = from; i < native->count; i++) {
        if (root && native->whole && is_own(addresses[i])) {
            native->cut = false;
            break;
        }
        if (!is_own(addresses[i])) addresses[kept++] = addresses[i];
    }
    native->count = kept;
}

/* Walks the native stack. `frame`: a frame of a function that stays on the stack. `root`: the node whose call ends the
 * walk. */
static struct mp_native_stack walk_native(struct mp_stack_room *room, const void *frame, const struct mp_backward *root,
                                          uint64_t *hash)
{
    struct mp_native_stack native = {.addresses = room->native};
    *hash = 0;
    if (!mp_session.config.native_stacks) return native;
    uint64_t generation = atomic_load_explicit(&code_generation, memory_order_relaxed);
    uintptr_t end = root ? root->frame : UINTPTR_MAX;
    struct mp_walked walked = mp_native_walk(&room->known, generation, frame, end, room->native, MP_WALK_MAX);
    *hash = walked.hash;
    native.count = (uint32_t)walked.count;
    native.whole = walked.end == MP_WALK_PASSED;
    native.cut = walked.end == MP_WALK_FULL;
    native.lost = walked.end == MP_WALK_LOST;
    return native;
}

/* Walks the Python stack. False: its frames are unknown. */
static bool walk_python(struct mp_stack_room *room, const struct mp_backward *root, bool may_call_python,
                        struct mp_python_stack *python)
{
    *python = (struct mp_python_stack){.frames = room->python,
                                       .markers = room->markers,
                                       .room = MP_PYTHON_FRAMES_MAX,
                                       .end = root ? root->python_frame : NULL};
    return mp_session.config.python_stacks && mp_python_walk(python, may_call_python);
}

/* Finds the code of the interpreter loop. The search needs the whole stack, but `python` may have ended early. So the
 * whole stack is walked again. */
static bool learn_loop(struct mp_known_frames *known, const struct mp_python_stack *python)
{
    struct mp_python_stack whole = *python;
    whole.end = NULL;
    if (python->end && !mp_python_walk(&whole, false)) return false;
    uint64_t generation = atomic_load_explicit(&code_generation, memory_order_relaxed);
    return mp_interpreter_range_learn(known, generation, &whole);
}

static uint32_t root_node(const struct mp_backward *root)
{
    if (!root) return 0;
    const char *text = root->root == MP_BACKWARD_OF ? "backward of" : "autograd thread";
    struct mp_wire_frame frame = {.language = MP_BACKWARD, .function = mp_table_string_locked(text, strlen(text))};
    return mp_table_node_locked(root->creation.stack, mp_table_frame_locked(&frame));
}

static uint64_t lost_so_far(void)
{
    return atomic_load_explicit(&mp_session.header->losses.lost_stacks, memory_order_relaxed) +
           atomic_load_explicit(&mp_session.header->losses.lost_strings, memory_order_relaxed);
}

/* Adds a new path to the tables. MP_TAG_NONE: no room or no lock now. Only the last part holds the table lock, since
 * the earlier parts may take the loader's lock. */
static uint32_t enter_stack(struct mp_stack_room *room, const struct mp_backward *root, struct mp_native_stack *native,
                            const struct mp_python_stack *python, uint64_t hash)
{
    leave_out_own(root, native, room->native);
    struct mp_pairing pairing = mp_merge_pair(&mp_interpreter_ranges, native, python);
    if (pairing.unequal && native->count && learn_loop(&room->known, python))
        pairing = mp_merge_pair(&mp_interpreter_ranges, native, python);
    if (pairing.unequal && native->count) count_in_header(&mp_session.header->losses.unmatched_stacks);
    uint32_t count = mp_merge(&mp_interpreter_ranges, native, python, &pairing, room->merged, MP_MERGED_MAX);
    if (!mp_tables_lock()) return MP_TAG_NONE;
    uint64_t lost = lost_so_far();
    uint32_t id = enter_path(room, count, native->cut || (python && python->cut), native->lost, root_node(root));
    /* A path that lost frames is not cached, since there may be room for them the next time. */
    if (lost == lost_so_far() && mp_lock_is_own(&mp_session.page->table_lock)) mp_tag_cache_put(&stacks, hash, id);
    mp_tables_unlock();
    const char *note = mp_session.config.python_stacks ? mp_python_note() : NULL;
    if (note) mp_session_note(note);
    return id;
}

static uint64_t hash_of(const struct mp_thread *thread, const struct mp_backward *root, uint64_t native_hash,
                        uint64_t python_hash)
{
    uint64_t session = thread->generation;
    if (root) session += ((uint64_t)root->root << 32 | root->creation.stack) * UINT64_C(0xd6e8feb86659fd93);
    return mp_hash_mix(mp_hash_step(native_hash, python_hash + session));
}

static struct mp_stack_room *room_of(struct mp_thread *thread)
{
    return &mp_stack_thread(thread)->room;
}

static struct mp_recent_stack *recent_of(struct mp_thread *thread, uint64_t hash)
{
    return &room_of(thread)->recent[hash % MP_RECENT_STACKS];
}

/* The id of a path; 0: none. `python` NULL: the Python frames are unknown. */
static uint32_t find_path(struct mp_thread *thread, const struct mp_backward *root, struct mp_native_stack *native,
                          uint64_t native_hash, const struct mp_python_stack *python)
{
    uint64_t hash = hash_of(thread, root, native_hash, python ? python->hash : 0);
    struct mp_recent_stack *recent = recent_of(thread, hash);
    if (__builtin_expect(recent->hash == hash, 1)) return recent->id;
    uint32_t id = mp_tag_cache_find(&stacks, hash);
    if (id == MP_TAG_NONE) id = enter_stack(room_of(thread), root, native, python, hash);
    if (id == MP_TAG_NONE) return 0;
    *recent = (struct mp_recent_stack){.hash = hash, .id = id};
    return id;
}

/* The autograd node that the thread runs, if it is known; else NULL. A node that a longjmp() left has a frame further
 * in than `here`. */
static const struct mp_backward *root_of(struct mp_thread *thread, const void *here)
{
    const struct mp_stack_thread *own = mp_stack_thread(thread);
    uint32_t level = own->level;
    for (level = level < MP_BACKWARD_LEVELS ? level : MP_BACKWARD_LEVELS; level-- > 0;) {
        const struct mp_backward *root = &own->running[level];
        if (root->root != MP_BACKWARD_UNKNOWN && root->frame > (uintptr_t)here)
            return root->generation == thread->generation ? root : NULL;
    }
    return NULL;
}

/* The module of an allocation. A node's allocations belong to the module that made the node. A module that runs inside
 * the node comes first, as in a recomputed checkpoint. */
static uint32_t module_of(const struct mp_backward *root, const struct mp_python_stack *python, bool may_call_python)
{
    if (python && python->module) return mp_module_path_id(python->module, may_call_python);
    return root ? root->creation.module : 0;
}

static _Atomic bool calls_are_reported;

void mp_stack_calls_are_reported(void)
{
    atomic_store_explicit(&calls_are_reported, true, memory_order_relaxed);
}

/* Looks for a call of the function of --step-at. If one has begun, a step is recorded before the next alloc. */
static void look_for_call(struct mp_thread *thread)
{
    uint32_t name = 0;
    enum mp_python_calls_answer answer = mp_python_call(&mp_stack_thread(thread)->calls, &name);
    if (answer == MP_PYTHON_CALL_BEGINS) thread->call = name;
    if (answer == MP_PYTHON_CALL_MAY_BEGIN) count_in_header(&mp_session.header->losses.doubtful_calls);
}

struct mp_captured mp_stack_capture(struct mp_thread *thread, bool may_call_python)
{
    const struct mp_backward *root = root_of(thread, __builtin_frame_address(0));
    uint64_t hash;
    struct mp_native_stack native = walk_native(room_of(thread), __builtin_frame_address(0), root, &hash);
    struct mp_python_stack walked;
    const struct mp_python_stack *python =
        walk_python(room_of(thread), root, may_call_python, &walked) ? &walked : NULL;
    uint32_t module = module_of(root, python, may_call_python);
    uint32_t path = find_path(thread, root, &native, hash, python);
    if (*mp_session.config.step_at && python && !atomic_load_explicit(&calls_are_reported, memory_order_relaxed))
        look_for_call(thread);
    return (struct mp_captured){path, module};
}

uint32_t mp_stack_module(struct mp_thread *thread)
{
    const struct mp_backward *root = root_of(thread, __builtin_frame_address(0));
    struct mp_python_stack python;
    return module_of(root, walk_python(room_of(thread), root, false, &python) ? &python : NULL, false);
}

struct mp_captured mp_stack_creation(struct mp_thread *thread)
{
    const struct mp_backward *root = root_of(thread, __builtin_frame_address(0));
    struct mp_python_stack walked;
    const struct mp_python_stack *python = walk_python(room_of(thread), root, true, &walked) ? &walked : NULL;
    uint64_t hash = 0;
    struct mp_native_stack native = {.addresses = room_of(thread)->native};
    if (!python || !python->frame_count) native = walk_native(room_of(thread), __builtin_frame_address(0), root, &hash);
    uint32_t module = module_of(root, python, true);
    return (struct mp_captured){find_path(thread, root, &native, hash, python), module};
}

bool mp_stack_creation_again(struct mp_thread *thread, struct mp_captured *creation)
{
    const struct mp_backward *root = root_of(thread, __builtin_frame_address(0));
    struct mp_python_stack python;
    if (!walk_python(room_of(thread), root, false, &python) || !python.frame_count) return false;
    uint64_t hash = hash_of(thread, root, 0, python.hash);
    const struct mp_recent_stack *recent = recent_of(thread, hash);
    if (recent->hash != hash) return false;
    creation->stack = recent->id;
    creation->module = root ? root->creation.module : 0;
    return !python.module || mp_module_path_id_known(python.module, &creation->module);
}
