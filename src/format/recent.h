/*
 * The addresses freed last, newest first. The writer and the reader of an events chunk both keep this list. An
 * allocator soon reuses freed addresses. "The third newest" then takes one byte, and the address itself would take
 * five. At most MP_RECENT entries; a new entry pushes out the oldest. Pure; any thread.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define MP_RECENT 255 /* so that a rank is a byte, and 255 means "not among them" */

struct mp_recent {
    uint32_t first, end; /* the entries are at[first ... end), oldest first */
    uint16_t at[8 * MP_RECENT];
};

static inline uint32_t mp_recent_count(const struct mp_recent *recent)
{
    return recent->end - recent->first;
}

/* Adds the newest entry. Returns the entry that it pushed out, or -1. */
static inline int32_t mp_recent_push(struct mp_recent *recent, uint16_t value)
{
    int32_t out = mp_recent_count(recent) == MP_RECENT ? recent->at[recent->first++] : -1;
    if (recent->end == sizeof recent->at / sizeof *recent->at) {
        memmove(recent->at, recent->at + recent->first, mp_recent_count(recent) * sizeof *recent->at);
        recent->end -= recent->first;
        recent->first = 0;
    }
    recent->at[recent->end++] = value;
    return out;
}

/* Removes and returns the entry of rank `rank`; rank 0 is the newest. The list must have more than `rank` entries. */
static inline uint16_t mp_recent_take(struct mp_recent *recent, uint32_t rank)
{
    uint16_t *entry = recent->at + recent->end - 1 - rank, value = *entry;
    memmove(entry, entry + 1, rank * sizeof *entry);
    recent->end--;
    return value;
}

/* The rank of the newest entry with that value. The list must have one. */
static inline uint32_t mp_recent_rank(const struct mp_recent *recent, uint16_t value)
{
    uint32_t rank = 0;
    while (recent->at[recent->end - 1 - rank] != value)
        rank++;
    return rank;
}
