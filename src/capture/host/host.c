#include "capture/host/host.h"

#include "capture/core/recorder.h"
#include "capture/core/sampling.h"
#include "capture/stack/stack.h"
#include "capture/torch/holders.h"
#include "capture/torch/torch.h"

static _Atomic uint64_t known_track; /* as mp_record_track_once() stores it */

static uint16_t track(void)
{
    return mp_record_track_once(&known_track, MP_DEVICE_CPU, -1, MP_LAYER_MALLOC, MP_BASIS_REQUESTED, "");
}

static void record_alloc(struct mp_thread *thread, struct mp_block_facts facts)
{
    facts.track = track();
    mp_session_source(MP_SOURCE_HOST);
    mp_sampled_add(facts.track, facts.address);
    mp_record_alloc(thread, &facts);
}

static struct mp_block_facts facts_of(const void *block)
{
    return (struct mp_block_facts){.kind = MP_KIND_HOST,
                                   .address = (uint64_t)(uintptr_t)block,
                                   .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                                   .total_reserved = MP_RECORD_TOTAL_UNKNOWN};
}

static bool allocated(void *block, size_t bytes, const void *caller)
{
    struct mp_thread *thread = mp_hook_enter();
    struct mp_block_facts facts = facts_of(block);
    if (!thread) return false;
    bool wanted = mp_session.config.host_bytes && !mp_torch_records_cpu_block(caller);
    facts.bytes = bytes;
    if (wanted) record_alloc(thread, facts);
    mp_hook_leave(thread);
    if (wanted && mp_session.config.shim) mp_holders_host();
    return wanted;
}

/* Most freed blocks were not kept: the call then returns before an event begins. A forked child's recording has none of
 * its parent's blocks. */
static bool freed(void *block)
{
    uint64_t word = atomic_load_explicit(&known_track, memory_order_relaxed);
    uint32_t generation = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    if (word >> 32 != generation || !mp_sampled_remove((uint16_t)word, (uint64_t)(uintptr_t)block)) return false;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return true;
    struct mp_block_facts facts = facts_of(block);
    facts.track = (uint16_t)word;
    facts.only_if_known = true;
    mp_record_free(thread, &facts);
    mp_hook_leave(thread);
    return true;
}

__attribute__((visibility("default"))) const struct mp_host_hooks *memprof_host_v1(void)
{
    static const struct mp_host_hooks hooks = {sizeof hooks, MP_HOST_VERSION, allocated, freed};
    static _Atomic bool came;
    if (!mp_session.page) return NULL;
    if (!atomic_exchange(&came, true)) mp_stack_leave_out((uintptr_t)__builtin_return_address(0));
    return &hooks;
}
