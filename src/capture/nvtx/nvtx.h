/*
 * The names in NVTX calls: texts in the program's encodings, registered strings and domains. Handles that we give to
 * the program point to our own memory. This memory lives as long as the process, and also in a forked child. A handle
 * is checked before it is used, since a program may pass a handle of another tool. No locks; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "capture/core/front.h"
#include "capture/nvtx/nvtx_abi.h"

#define NVTX_NAME_ROOM 256 /* most bytes of a name that are kept, with its NUL */

/* Domains are numbered from 1; 0 is the default domain. Domains beyond NVTX_DOMAINS share the last number and have no
 * name. */
#define NVTX_DOMAINS 64

/* Makes the handle by which the program refers to a domain or string. NULL: there is no room for more. */
const void *mp_nvtx_register(const char *text);
const void *mp_nvtx_register_wide(const wchar_t *text);
const void *mp_nvtx_domain(const char *name);
const void *mp_nvtx_domain_wide(const wchar_t *name);

unsigned mp_nvtx_domain_number(const void *domain);

/* Writes a region's name to `to`: "name", or "DOMAIN:name" outside the default domain. Leaves out suffixes that would
 * give each call a name of its own (PyTorch's ", seq = 7", ", op_id = 7"). "" if the program gave no name. */
void mp_nvtx_name(char to[NVTX_NAME_ROOM], unsigned domain, int32_t message_type, const void *message);

/*
 * The open NVTX ranges. Pushed ranges of a thread nest per domain: a pop ends the innermost range of its domain, and
 * the thread's innermost range may be of another domain. Started ranges belong to no thread. Both kinds are bounded.
 * Ranges deeper than NVTX_DEPTH are not recorded, only counted, so that their pops end no other range.
 */

#define NVTX_DEPTH      128
#define NVTX_LANES      255        /* started ranges that may be open at once */
#define NVTX_UNRECORDED UINT32_MAX /* instead of a name: this range is not recorded */

extern const struct mp_front mp_nvtx_front; /* nvtx.c */

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
