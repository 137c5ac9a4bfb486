/*
 * The names in NVTX calls: texts in the program's encodings, registered strings and domains. Handles that the program
 * gets point to our memory, which lives as long as the process, in a forked child too. They are checked before they are
 * followed, since a program may pass another tool's. All of it without locks, from any thread.
 */
#ifndef MP_CAPTURE_NVTX_H
#define MP_CAPTURE_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "capture/core/front.h"
#include "capture/nvtx/nvtx_abi.h"

#define NVTX_NAME_ROOM 256 /* bytes of a name that are kept, with the NUL */

/* Domains are numbered from 1; 0 is the default one. Domains beyond NVTX_DOMAINS share the last number, without a
 * name. */
#define NVTX_DOMAINS 64

/* The handle by which the program refers to a domain or string. NULL: no more room. */
const void *mp_nvtx_register(const char *text);
const void *mp_nvtx_register_wide(const wchar_t *text);
const void *mp_nvtx_domain(const char *name);
const void *mp_nvtx_domain_wide(const wchar_t *name);

unsigned mp_nvtx_domain_number(const void *domain);

/* Writes a region's name: "name", or "DOMAIN:name" outside the default domain. Suffixes that would give each call its
 * own name (PyTorch's ", seq = 7", ", op_id = 7") are left out. "" where the program gave none. */
void mp_nvtx_name(char to[NVTX_NAME_ROOM], unsigned domain, int32_t message_type, const void *message);

/*
 * The open NVTX ranges. Pushed ranges of a thread nest per domain. A pop ends the innermost of its domain, which need
 * not be the thread's innermost. Started ranges belong to no thread. Both are bounded: ranges deeper than NVTX_DEPTH
 * are counted, so that their pops end nothing else, and not recorded.
 */

#define NVTX_DEPTH      128
#define NVTX_LANES      255        /* ranges without a thread that may be open at once */
#define NVTX_UNRECORDED UINT32_MAX /* instead of a name: no event records this range */

extern const struct mp_front mp_nvtx_front; /* nvtx.c */

struct mp_nvtx_stack {
    uint32_t generation; /* of the session that the names are of */
    uint32_t count;
    struct mp_nvtx_open {
        uint32_t name; /* string id of the spool */
        uint32_t domain;
    } open[NVTX_DEPTH];
    uint32_t deeper[NVTX_DOMAINS + 1]; /* by domain: pushed where there was no room */
    uint32_t depth[NVTX_DOMAINS + 1];  /* by domain, all of them */
};

/* Names of an earlier session (before a fork) mean nothing in this one: those ranges end without an event. */
void mp_nvtx_stack_renew(struct mp_nvtx_stack *stack, uint32_t generation);
/* True where the range can be recorded. */
bool mp_nvtx_stack_push(struct mp_nvtx_stack *stack, unsigned domain, uint32_t name);
/* Removes the innermost range of the domain. *index: its place; ranges from there to stack->count were opened after it
 * and are still open. Returns its name, NVTX_UNRECORDED where there is nothing to record. */
uint32_t mp_nvtx_stack_pop(struct mp_nvtx_stack *stack, unsigned domain, uint32_t *index);

/* A range without a thread begins: its id, never 0. *lane is 0 where there was no room and nothing is to be
 * recorded. */
uint64_t mp_nvtx_lane_open(uint32_t name, uint32_t generation, uint32_t *lane);
/* Begins the end of a range; false: it is not open in this session. Record the end next, then call
 * mp_nvtx_lane_close(). */
bool mp_nvtx_lane_ending(uint64_t id, uint32_t generation, uint32_t *lane, uint32_t *name);
void mp_nvtx_lane_close(uint32_t lane);

#endif
