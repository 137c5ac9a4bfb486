/*
 * Connects backward with forward. A node of PyTorch's autograd graph takes a number when it is made. One function of
 * the engine runs it, on any thread. Both functions are exported and called through the PLT, so preloaded definitions
 * of the same names run instead. Our definition of the first function stores the path that makes the node. Our
 * definition of the second gives this path to allocations while the node runs (struct mp_backward).
 *
 * Sources: ATen/SequenceNumber.h (numbers are per thread and start at 0), torch/csrc/autograd/function.h (Node's first
 * members), torch/csrc/autograd/engine.cpp (the queue; which thread runs a node). PyTorch takes numbers without holding
 * a lock.
 *
 * Nodes that were made before the recording, or too long ago (capture/torch/creations.h), have no stored path. Stacks
 * of allocations in these nodes stay as they are.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "capture/core/fork.h"
#include "capture/core/recorder.h"
#include "capture/native/next.h"
#include "capture/stack/stack.h"
#include "capture/torch/creations.h"
#include "capture/torch/torch.h"

#define TAKE_NUMBER   "_ZN2at15sequence_number17get_and_incrementEv"
#define THREAD_NUMBER "_ZN2at14RecordFunction15currentThreadIdEv"
#define RUN_NODE                                                                                                       \
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_" \
    "INS0_10ReadyQueueEE"

static struct mp_next take_number = {TAKE_NUMBER, "libtorch_cpu.so", NULL};
static struct mp_next thread_number = {THREAD_NUMBER, "libtorch_cpu.so", NULL};
static struct mp_next run_node = {RUN_NODE, "libtorch_cpu.so", NULL};

/* Offsets in a node: of its number, and of the number of the thread that took it. In the right layout, the first node's
 * two words are a pair that take_sequence_number() gave out. In a wrong layout they can be so only by chance. */
static const struct layout {
    uint16_t number, thread;
} layouts[] = {
    {24, 48}, /* behind std::enable_shared_from_this: 1.13 and 2.6, among others */
    {16, 40}, /* behind c10::intrusive_ptr_target: 2.14 */
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)
static const struct layout *_Atomic layout; /* NULL: not known yet */
static _Atomic uint32_t nodes_in_vain;      /* nodes that ran before the layout was known */
#define NODES_IN_VAIN_MAX 4096
#define UNNUMBERED        UINT64_MAX /* in place of a number, for AccumulateGrad and other nodes without a number */

struct autograd_thread {
    uint64_t number; /* PyTorch's own number of this thread; 0: not known yet */
    /* The node that ran last, and its task. A node without a number runs right after the last node that feeds it. */
    struct mp_captured last; /* stack 0: none */
    uint32_t last_generation, last_level;
    const void *last_task;
};

static size_t thread_place;
static struct autograd_thread *autograd_of(struct mp_thread *thread)
{
    return mp_thread_part(thread, thread_place);
}

static void enter(void)
{
    mp_next_start(&take_number, 1);
    mp_next_start(&thread_number, 1);
    mp_next_start(&run_node, 1);
}

const struct mp_front mp_autograd_front = {
    .enter = enter, .thread_bytes = sizeof(struct autograd_thread), .thread_place = &thread_place};

static bool wanted(void)
{
    const struct mp_record_config *config = &mp_session.config;
    return config->torch && (config->native_stacks || config->python_stacks) &&
           atomic_load_explicit(&nodes_in_vain, memory_order_relaxed) < NODES_IN_VAIN_MAX;
}

/* ---- forward -------------------------------------------------------------------------------------------------- */

static uint64_t number_of_thread(struct mp_thread *thread, const void *caller)
{
    uint64_t *number = &autograd_of(thread)->number;
    if (!*number) {
        uint64_t (*ask)(void);
        void *at = mp_next_definition(&thread_number, caller);
        memcpy(&ask, &at, sizeof at);
        if (ask)
            *number = ask();
        else
            mp_session_note("this PyTorch does not number its threads (at::RecordFunction::currentThreadId is "
                            "missing): what backward allocates has no forward line");
    }
    return *number;
}

/* Fast path without a hook: most nodes are made at a path at which this thread has made a node before. */
static bool keep_again(struct mp_thread *thread, uint64_t number)
{
    struct mp_captured creation;
    uint64_t own = thread ? autograd_of(thread)->number : 0;
    if (!own || thread->inside || !mp_fork_guard(thread)) return false;
    bool again = wanted() && mp_stack_creation_again(thread, &creation);
    if (again) mp_creation_put(thread->generation, own, number, creation);
    thread->inside = 0;
    return again;
}

static void keep_creation(uint64_t number, const void *caller)
{
    if (!mp_session_recording() || !wanted() || keep_again(mp_thread_present(), number)) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    uint64_t number_here = number_of_thread(thread, caller);
    struct mp_captured creation = number_here ? mp_stack_creation(thread) : (struct mp_captured){0};
    if (creation.stack) mp_creation_put(thread->generation, number_here, number, creation);
    mp_hook_leave(thread);
}

/* uint64_t at::sequence_number::get_and_increment(): called when a node is made. */
uint64_t take_sequence_number(void) MP_PRELOADED(TAKE_NUMBER);
uint64_t take_sequence_number(void)
{
    static _Atomic uint64_t own; /* never used: any caller of this function has linked PyTorch's counter */
    uint64_t (*next)(void);
    MP_NEXT(next, &take_number);
    uint64_t number = next ? next() : atomic_fetch_add(&own, 1);
    keep_creation(number, __builtin_return_address(0));
    return number;
}

/* ---- backward ------------------------------------------------------------------------------------------------- */

static uint64_t load(const char *node, size_t offset)
{
    uint64_t word;
    memcpy(&word, node + offset, sizeof word);
    return word;
}

static bool find_by(const struct layout *by, const struct mp_thread *thread, const char *node,
                    struct mp_captured *creation)
{
    return mp_creation_find(thread->generation, load(node, by->thread), load(node, by->number), creation);
}

static bool find_by_any(const struct mp_thread *thread, const char *node, struct mp_captured *creation)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        if (!find_by(&layouts[i], thread, node, creation)) continue;
        atomic_store_explicit(&layout, &layouts[i], memory_order_relaxed);
        return true;
    }
    if (atomic_fetch_add(&nodes_in_vain, 1) + 1 == NODES_IN_VAIN_MAX)
        mp_session_note("this PyTorch's autograd nodes are unknown to memprof: what backward allocates has no forward "
                        "line");
    return false;
}

/* A node without a number collects the results of other nodes. It is first in the engine's queue, so it runs on the
 * same thread right after the last of these nodes. It gets the line of this last node. */
static bool find_by_last(struct mp_thread *thread, const struct mp_backward *running, uint32_t level,
                         struct mp_captured *creation)
{
    const struct autograd_thread *own = autograd_of(thread);
    *creation = own->last;
    return own->last.stack && own->last_generation == running->generation && own->last_task == running->task &&
           own->last_level == level;
}

static bool find_creation(struct mp_thread *thread, const char *node, const struct mp_backward *running, uint32_t level,
                          struct mp_captured *creation)
{
    static _Atomic uint32_t noted; /* generation of the session that already has the note */
    const struct layout *by = atomic_load_explicit(&layout, memory_order_relaxed);
    if (!by) return find_by_any(thread, node, creation);
    if (load(node, by->number) == UNNUMBERED) return find_by_last(thread, running, level, creation);
    if (find_by(by, thread, node, creation)) return true;
    if (atomic_exchange(&noted, thread->generation) != thread->generation)
        mp_session_note("some of backward's nodes were made before the recording, or 262144 nodes before they ran: "
                        "what they allocated has no forward line");
    return false;
}

/* The calling thread's state. If the process is recorded and the thread has none, a hook makes it. */
static struct mp_thread *own_thread(void)
{
    struct mp_thread *thread = mp_thread_present();
    if (!mp_session_recording() || (thread && thread->generation == atomic_load(&mp_session.page->generation)))
        return thread;
    struct mp_thread *entered = mp_hook_enter();
    if (entered) mp_hook_leave(entered);
    return mp_thread_present();
}

static void look_up(struct mp_thread *thread, const char *node, struct mp_backward *running, uint32_t level)
{
    if (!mp_session_recording() || !mp_fork_guard(thread)) return;
    bool python_known = mp_python_newest(&running->python_frame);
    if (find_creation(thread, node, running, level, &running->creation))
        running->root = MP_BACKWARD_OF;
    else if (python_known && !running->python_frame)
        running->root = MP_BACKWARD_THREAD;
    thread->inside = 0;
}

/* Calls on a thread without state are not counted. They can only lie outside of all counted calls. */
static struct mp_thread *begin_node(const void *const *task, const char *node, const void *frame)
{
    struct mp_thread *thread = wanted() ? own_thread() : NULL;
    if (!thread) return NULL;
    struct mp_stack_thread *own = mp_stack_thread(thread);
    while (own->level && own->level <= MP_BACKWARD_LEVELS && own->running[own->level - 1].frame <= (uintptr_t)frame)
        own->level--; /* a longjmp() left it */
    if (own->level < MP_BACKWARD_LEVELS) {
        struct mp_backward running = {.generation = thread->generation, .frame = (uintptr_t)frame, .task = *task};
        look_up(thread, node, &running, own->level);
        if (running.root != MP_BACKWARD_OF) running.creation = (struct mp_captured){0};
        own->running[own->level] = running;
    }
    own->level++;
    return thread;
}

static void end_node(struct mp_thread *thread, uint32_t level)
{
    struct mp_stack_thread *stack = mp_stack_thread(thread);
    struct autograd_thread *own = autograd_of(thread);
    stack->level = level;
    if (level >= MP_BACKWARD_LEVELS) return;
    own->last = stack->running[level].creation;
    own->last_generation = stack->running[level].generation;
    own->last_task = stack->running[level].task;
    own->last_level = level;
}

/* The personality routine of run_autograd_node(). An exception passes through that function, which catches nothing.
 * It has no landing pad, so the program's unwinder needs no help from the routine. (Itanium C++ ABI: Exception
 * Handling, 1.3 and 2.5.2) */
int mp_autograd_unwound(int version, int actions, uint64_t class, void *exception, void *context) __attribute__((used));
int mp_autograd_unwound(int version, int actions, uint64_t class, void *exception, void *context)
{
    enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };
    (void)version, (void)class, (void)exception, (void)context;
    struct mp_thread *thread = mp_thread_present();
    struct mp_stack_thread *own = thread ? mp_stack_thread(thread) : NULL;
    if (actions & CLEANUP_PHASE && own && own->level) own->level--;
    return CONTINUE_UNWIND;
}

/* void torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &, const
 * std::shared_ptr<ReadyQueue> &). */
void run_autograd_node(void *engine, void *task, void *node, void *inputs, void *queue) MP_PRELOADED(RUN_NODE);
void run_autograd_node(void *engine, void *task, void *node, void *inputs, void *queue)
{
    __asm__ volatile(".cfi_personality 0x1b, mp_autograd_unwound"); /* 0x1b: 32 bits, relative to the entry */
    void (*next)(void *, void *, void *, void *, void *);
    MP_NEXT(next, &run_node);
    struct mp_thread *thread = begin_node(task, node, __builtin_frame_address(0));
    uint32_t level = thread ? mp_stack_thread(thread)->level - 1 : 0;
    if (next) next(engine, task, node, inputs, queue);
    if (thread) end_node(thread, level);
}
