#include "capture/nvtx/nvtx_ranges.h"

#include <stdatomic.h>
#include <string.h>

void mp_nvtx_stack_renew(struct mp_nvtx_stack *stack, uint32_t generation)
{
    if (stack->generation == generation) return;
    stack->generation = generation;
    for (uint32_t i = 0; i < stack->count; i++)
        stack->open[i].name = NVTX_UNRECORDED;
}

bool mp_nvtx_stack_push(struct mp_nvtx_stack *stack, unsigned domain, uint32_t name)
{
    stack->depth[domain]++;
    /* Once a range of a domain has no room, all further ranges of the domain are only counted: a pop must end the
     * innermost range. */
    if (stack->count == NVTX_DEPTH || stack->deeper[domain]) {
        stack->deeper[domain]++;
        return false;
    }
    stack->open[stack->count++] = (struct mp_nvtx_open){.name = name, .domain = domain};
    return name != NVTX_UNRECORDED;
}

uint32_t mp_nvtx_stack_pop(struct mp_nvtx_stack *stack, unsigned domain, uint32_t *index)
{
    if (stack->depth[domain]) stack->depth[domain]--;
    *index = stack->count;
    if (stack->deeper[domain]) {
        stack->deeper[domain]--;
        return NVTX_UNRECORDED;
    }
    uint32_t at = stack->count;
    while (at && stack->open[at - 1].domain != domain)
        at--;
    if (!at) return NVTX_UNRECORDED; /* the range was pushed before the recording, or popped twice */
    uint32_t name = stack->open[--at].name;
    stack->count--;
    memmove(&stack->open[at], &stack->open[at + 1], (stack->count - at) * sizeof *stack->open);
    *index = at;
    return name;
}

/* The lowest byte of a range's id is its lane. While the end of its range is recorded, a lane is BUSY, so that the next
 * range on it begins later. */
#define LANE_BITS 8
#define BUSY      UINT64_MAX
static struct lane {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint32_t name, generation;
} lanes[NVTX_LANES]; /* lane N is at index N - 1 */
static _Atomic uint64_t ids;

uint64_t mp_nvtx_lane_open(uint32_t name, uint32_t generation, uint32_t *lane)
{
    uint64_t number = (atomic_fetch_add(&ids, 1) + 1) << LANE_BITS;
    *lane = 0;
    for (uint32_t i = 0; i < NVTX_LANES; i++) {
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&lanes[i].id, &nobody, BUSY)) continue;
        lanes[i].name = name;
        lanes[i].generation = generation;
        atomic_store(&lanes[i].id, number | (i + 1));
        *lane = i + 1;
        break;
    }
    return number | *lane;
}

bool mp_nvtx_lane_ending(uint64_t id, uint32_t generation, uint32_t *lane, uint32_t *name)
{
    *lane = (uint32_t)(id & ((1U << LANE_BITS) - 1));
    if (!*lane || !atomic_compare_exchange_strong(&lanes[*lane - 1].id, &id, BUSY)) return false;
    *name = lanes[*lane - 1].name;
    if (lanes[*lane - 1].generation == generation) return true;
    mp_nvtx_lane_close(*lane); /* the range began before a fork */
    return false;
}

void mp_nvtx_lane_close(uint32_t lane)
{
    atomic_store(&lanes[lane - 1].id, 0);
}
