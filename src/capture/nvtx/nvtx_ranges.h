/*
 * The open NVTX ranges. Pushed ranges of a thread nest per domain: a pop ends the innermost range of its domain, and
 * the thread's innermost range may be of another domain. Started ranges belong to no thread. Both kinds are bounded.
 * Ranges deeper than NVTX_DEPTH are not recorded, only counted, so that their pops end no other range.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/nvtx/nvtx_names.h"

#define NVTX_DEPTH      128
#define NVTX_LANES      255        /* started ranges that may be open at once */
#define NVTX_UNRECORDED UINT32_MAX /* instead of a name: this range is not recorded */

struct mp_nvtx_stack {
    uint32_t generation; /* generation of the session to which the string ids belong */
    uint32_t count;
    struct mp_nvtx_open {
        uint32_t name; /* string id of the spool */
        uint32_t domain;
    } open[NVTX_DEPTH];
    uint32_t deeper[NVTX_DOMAINS + 1]; /* by domain: open ranges for which there was no room */
    uint32_t depth[NVTX_DOMAINS + 1];  /* by domain: all open ranges */
};

/* Empties the stack if its string ids are of an earlier session (before a fork). Its ranges end without an event. */
void mp_nvtx_stack_renew(struct mp_nvtx_stack *stack, uint32_t generation);
/* True if the range can be recorded. */
bool mp_nvtx_stack_push(struct mp_nvtx_stack *stack, unsigned domain, uint32_t name);
/* Removes the innermost range of the domain and returns its name, or NVTX_UNRECORDED. *index: its former place. The
 * ranges from there to stack->count were opened later, and are still open. */
uint32_t mp_nvtx_stack_pop(struct mp_nvtx_stack *stack, unsigned domain, uint32_t *index);

/* Opens a lane for a started range and returns the range's id, never 0. *lane is 0 if there was no room: record
 * nothing. */
uint64_t mp_nvtx_lane_open(uint32_t name, uint32_t generation, uint32_t *lane);
/* Begins the end of a started range. False: the range is not open in this session. The caller records the end, then
 * calls mp_nvtx_lane_close(). */
bool mp_nvtx_lane_ending(uint64_t id, uint32_t generation, uint32_t *lane, uint32_t *name);
void mp_nvtx_lane_close(uint32_t lane);
