#include "capture/python/merge.h"

#include "base/hash.h"

/* Hashed in place of a call of the loop; no return address is this high. */
#define HASH_LOOP UINT64_C(0x3c6ef372fe94f82b)

/* Hashes the native addresses. The innermost `paired` loop calls count as replaced. *calls: the number of all loop
 * calls. */
static uint64_t hash_addresses(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                               uint32_t paired, uint32_t *calls)
{
    uint64_t hash = 0;
    *calls = 0;
    for (uint32_t i = 0; i < native->count; i++) {
        uintptr_t address = (uintptr_t)native->addresses[i];
        bool replaced = mp_interpreter_range_contains(ranges, address) && (*calls)++ < paired;
        hash = mp_hash_step(hash, replaced ? HASH_LOOP : address);
    }
    return hash;
}

struct mp_pairing mp_merge_pair(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                                const struct mp_python_stack *python)
{
    struct mp_pairing pairing = {0};
    uint32_t calls;
    if (!python) {
        pairing.hash = hash_addresses(ranges, native, 0, &calls);
        return pairing;
    }
    pairing.paired = python->group_count;
    pairing.hash = mp_hash_step(hash_addresses(ranges, native, pairing.paired, &calls), python->hash);
    if (calls > python->group_count) {
        bool outer = atomic_load_explicit(&ranges->outer_calls, memory_order_relaxed);
        pairing.unequal = !python->cut && !outer;
    } else if (calls < python->group_count) {
        pairing.paired = calls;
        pairing.unequal = !native->cut;
    }
    return pairing;
}

struct output {
    struct mp_merged_frame *to;
    uint32_t count, room;
};

static void put_frame(struct output *output, uintptr_t address, uint32_t python)
{
    if (output->count == output->room) return;
    output->to[output->count++] = (struct mp_merged_frame){.address = address, .python = python};
}

uint32_t mp_merge(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                  const struct mp_python_stack *python, const struct mp_pairing *pairing, struct mp_merged_frame *to,
                  uint32_t room)
{
    struct output output = {.to = to, .room = room};
    uint32_t call = 0, frame = 0, frames = python ? python->frame_count : 0;
    for (uint32_t i = 0; i < native->count; i++) {
        uintptr_t address = (uintptr_t)native->addresses[i];
        if (!mp_interpreter_range_contains(ranges, address) || call >= pairing->paired) {
            put_frame(&output, address, MP_MERGED_NATIVE);
            continue;
        }
        for (; frame < frames && python->frames[frame].group == call; frame++)
            put_frame(&output, 0, frame);
        call++;
    }
    for (; frame < frames; frame++)
        put_frame(&output, 0, frame);
    return output.count;
}
