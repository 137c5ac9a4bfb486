/*
 * Sees blocks of PyTorch's allocators when these report them to PyTorch's own profiler. libc10 exports the reporting
 * functions and calls them through its PLT, so a preloaded definition of the same name is called instead. This file has
 * the signatures of every release since 1.9. It passes all reports on to the profiler.
 *
 * Sources: c10/core/Allocator.h (functions), c10/cuda/CUDACachingAllocator.cpp and c10/core/CPUAllocator.cpp (when and
 * under which locks they are called). For CUDA, the allocator reports while it holds its device mutex, and often the
 * GIL: nothing here may wait for either. For the CPU, no lock is held.
 */
#include "capture/torch/torch.h"

#include "capture/core/recorder.h"
#include "capture/native/loaded.h"
#include "capture/native/next.h"
#include "capture/torch/holders.h"
#include "capture/torch/operators.h"
#include "wire/c10.h"

#define PROFILING_ENABLED "_ZN3c1022memoryProfilingEnabledEv"

enum which {
    WHICH_PROFILING_ENABLED,
    WHICH_USAGE_UNSIGNED,
    WHICH_USAGE_SIGNED,
    WHICH_USAGE_OLD,
    WHICH_OUT_OF_MEMORY_UNSIGNED,
    WHICH_OUT_OF_MEMORY_SIGNED,
};
static struct mp_next nexts[] = {
    [WHICH_PROFILING_ENABLED] = {PROFILING_ENABLED, "libc10.so", NULL},
    [WHICH_USAGE_UNSIGNED] = {MP_C10_USAGE_UNSIGNED, "libc10.so", NULL},
    [WHICH_USAGE_SIGNED] = {MP_C10_USAGE_SIGNED, "libc10.so", NULL},
    [WHICH_USAGE_OLD] = {MP_C10_USAGE_OLD, "libc10.so", NULL},
    [WHICH_OUT_OF_MEMORY_UNSIGNED] = {MP_C10_OUT_OF_MEMORY_UNSIGNED, "libc10.so", NULL},
    [WHICH_OUT_OF_MEMORY_SIGNED] = {MP_C10_OUT_OF_MEMORY_SIGNED, "libc10.so", NULL},
};

static void enter(void)
{
    mp_next_start(nexts, sizeof nexts / sizeof *nexts);
}

const struct mp_front mp_torch_front = {.enter = enter, .forked = mp_holders_forked};

static _Atomic bool other_device_seen;
static _Atomic int sources = MP_SOURCE_TORCH; /* sources that a recording with tensors names */

void mp_torch_shim_started(void)
{
    atomic_fetch_or(&sources, MP_SOURCE_SHIM);
}

static void say_source(void)
{
    mp_session_source((enum mp_source)atomic_load_explicit(&sources, memory_order_relaxed));
}

static uint16_t track_of(struct mp_c10_device device)
{
    static _Atomic uint64_t known[32][16];
    unsigned type = (uint8_t)device.type, index = (unsigned)(device.index + 1);
    int ordinal = type == MP_DEVICE_CPU ? -1 : device.index;
    if (type >= 32 || index >= 16) return mp_record_track(type, ordinal, MP_LAYER_TORCH, MP_BASIS_BLOCK, "");
    return mp_record_track_once(&known[type][index], type, ordinal, MP_LAYER_TORCH, MP_BASIS_BLOCK, "");
}

uint16_t mp_torch_track(int device)
{
    return track_of((struct mp_c10_device){.type = MP_DEVICE_CUDA, .index = (int8_t)device});
}

/* Under `auto`, CPU tensors are recorded only until the first block on another device. */
static bool left_out(bool is_cpu, bool is_alloc)
{
    if (mp_session.config.cpu_throughout) return false;
    if (is_cpu) return is_alloc && atomic_load_explicit(&other_device_seen, memory_order_relaxed);
    if (!atomic_exchange_explicit(&other_device_seen, true, memory_order_relaxed))
        mp_session_note(mp_session.config.cpu_tensors
                            ? "CPU tensors were recorded until the first block of another device; --capture torch,cpu "
                              "records them throughout"
                            : "CPU tensors were not recorded; --capture torch,cpu records them");
    return false;
}

static _Atomic uint64_t c10_start, c10_end; /* range of libc10's code, which allocates CPU blocks; 0: not known yet */

static void note_c10(const void *caller)
{
    struct mp_module_facts module;
    if (atomic_load_explicit(&c10_end, memory_order_relaxed) || !mp_module_of((uintptr_t)caller, &module)) return;
    atomic_store_explicit(&c10_start, module.start, memory_order_relaxed);
    atomic_store_explicit(&c10_end, module.end, memory_order_release);
}

bool mp_torch_records_cpu_block(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    const struct mp_record_config *config = &mp_session.config;
    return at < atomic_load_explicit(&c10_end, memory_order_acquire) &&
           at >= atomic_load_explicit(&c10_start, memory_order_relaxed) && config->torch && config->cpu_tensors &&
           (config->cpu_throughout || !atomic_load_explicit(&other_device_seen, memory_order_relaxed));
}

static void record_usage(void *address, int64_t bytes, uint64_t allocated, uint64_t reserved,
                         struct mp_c10_device device, const void *caller)
{
    if (!address || !bytes || mp_operators_probing) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    bool is_cpu = device.type == MP_DEVICE_CPU;
    if (is_cpu && mp_session.config.host_bytes) note_c10(caller);
    if (mp_session.config.torch && (!is_cpu || mp_session.config.cpu_tensors) && !left_out(is_cpu, bytes > 0)) {
        say_source();
        bool cpu_is_closing = is_cpu && atomic_load_explicit(&other_device_seen, memory_order_relaxed);
        /* Storage that is mapped from files (MapAllocator) reports meaningless totals of 0. */
        bool has_totals = allocated != MP_RECORD_TOTAL_UNKNOWN && !cpu_is_closing && (!is_cpu || allocated);
        struct mp_block_facts block = {
            .track = track_of(device),
            .kind = is_cpu ? MP_KIND_HOST : MP_KIND_DEVICE,
            .address = (uint64_t)(uintptr_t)address,
            .bytes = (uint64_t)(bytes > 0 ? bytes : -bytes),
            .total_allocated = has_totals ? allocated : MP_RECORD_TOTAL_UNKNOWN,
            .total_reserved = has_totals && !is_cpu ? reserved : MP_RECORD_TOTAL_UNKNOWN,
            .moment_ns = bytes > 0 ? mp_operators_running(thread) : 0,
            .only_if_known = cpu_is_closing,
            .may_be_left_out = true,
            .may_call_python = is_cpu,
        };
        (bytes > 0 ? mp_record_alloc : mp_record_free)(thread, &block);
    }
    if (mp_session.config.shim) mp_holders_count(bytes);
    if (bytes > 0) mp_holders_note(is_cpu);
    if (bytes > 0) mp_holders_pass_by(is_cpu);
    mp_hook_leave(thread);
}

static void record_out_of_memory(int64_t bytes, uint64_t allocated, uint64_t reserved, struct mp_c10_device device)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    if (mp_session.config.torch) {
        say_source();
        struct mp_block_facts request = {.track = track_of(device),
                                         .kind = MP_KIND_DEVICE,
                                         .bytes = (uint64_t)bytes,
                                         .total_allocated = allocated,
                                         .total_reserved =
                                             device.type == MP_DEVICE_CPU ? MP_RECORD_TOTAL_UNKNOWN : reserved};
        mp_record_oom(thread, &request);
        mp_holders_oom();
    }
    mp_hook_leave(thread);
}

/* bool c10::memoryProfilingEnabled(): called by the CPU allocator at every alloc and free. The answer never changes in
 * a process: if an allocator saw "yes" at the alloc, it must see "yes" at the free. */
bool memory_profiling_enabled(void) MP_PRELOADED(PROFILING_ENABLED);
bool memory_profiling_enabled(void)
{
    enum { UNDECIDED, NO, YES };
    static _Atomic int answer;
    if (__builtin_expect(atomic_load_explicit(&answer, memory_order_relaxed) == UNDECIDED, 0)) {
        bool recording = mp_session_recording();
        bool wanted = recording ? mp_session.config.torch && mp_session.config.cpu_tensors : mp_session_tries_again();
        atomic_store_explicit(&answer, wanted ? YES : NO, memory_order_relaxed);
    }
    if (atomic_load_explicit(&answer, memory_order_relaxed) == YES) return true;
    bool (*next)(void);
    MP_NEXT(next, &nexts[WHICH_PROFILING_ENABLED]);
    return next && next();
}

/* 2.x. Releases 1.10 to 1.13 have signed totals, which this ABI passes in the same way. */
#define USAGE(suffix, which)                                                                                           \
    void report_usage_##suffix(void *address, int64_t bytes, size_t allocated, size_t reserved,                        \
                               struct mp_c10_device device) MP_PRELOADED(MP_C10_USAGE_##which);                        \
    void report_usage_##suffix(void *address, int64_t bytes, size_t allocated, size_t reserved,                        \
                               struct mp_c10_device device)                                                            \
    {                                                                                                                  \
        record_usage(address, bytes, allocated, reserved, device, __builtin_return_address(0));                        \
        void (*next)(void *, int64_t, size_t, size_t, struct mp_c10_device);                                           \
        MP_NEXT(next, &nexts[WHICH_USAGE_##which]);                                                                    \
        if (next) next(address, bytes, allocated, reserved, device);                                                   \
    }
USAGE(unsigned, UNSIGNED)
USAGE(signed, SIGNED)

/* PyTorch 1.9 and before. For CUDA, they passed the address of a Block object, which identifies a block just as
 * well. */
void report_usage_old(void *address, int64_t bytes, struct mp_c10_device device) MP_PRELOADED(MP_C10_USAGE_OLD);
void report_usage_old(void *address, int64_t bytes, struct mp_c10_device device)
{
    record_usage(address, bytes, MP_RECORD_TOTAL_UNKNOWN, MP_RECORD_TOTAL_UNKNOWN, device, __builtin_return_address(0));
    void (*next)(void *, int64_t, struct mp_c10_device);
    MP_NEXT(next, &nexts[WHICH_USAGE_OLD]);
    if (next) next(address, bytes, device);
}

#define OUT_OF_MEMORY(suffix, which)                                                                                   \
    void report_out_of_memory_##suffix(int64_t bytes, size_t allocated, size_t reserved, struct mp_c10_device device)  \
        MP_PRELOADED(MP_C10_OUT_OF_MEMORY_##which);                                                                    \
    void report_out_of_memory_##suffix(int64_t bytes, size_t allocated, size_t reserved, struct mp_c10_device device)  \
    {                                                                                                                  \
        record_out_of_memory(bytes, allocated, reserved, device);                                                      \
        void (*next)(int64_t, size_t, size_t, struct mp_c10_device);                                                   \
        MP_NEXT(next, &nexts[WHICH_OUT_OF_MEMORY_##which]);                                                            \
        if (next) next(bytes, allocated, reserved, device);                                                            \
    }
OUT_OF_MEMORY(unsigned, UNSIGNED)
OUT_OF_MEMORY(signed, SIGNED)
