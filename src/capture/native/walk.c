#include "capture/native/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/native/frame_rule.h"

#if defined(__x86_64__)

/* A path's hash is a polynomial of its addresses: cheap enough to vanish behind the loads. */
#    define HASH_FACTOR UINT64_C(0xd6e8feb86659fd93)

enum { WORD = sizeof(uintptr_t), BASE_BITS = 7 };

static uintptr_t load(uintptr_t address)
{
    uintptr_t value;
    memcpy(&value, (const void *)address, sizeof value);
    return value;
}

static void forget_all(struct mp_known_frames *known)
{
    madvise(known->frames, sizeof known->frames, MADV_DONTNEED);
    memset(known->index, 0, sizeof known->index);
    known->count = 0;
}

static void remember(struct mp_known_frame *frame, uintptr_t address)
{
    struct mp_frame_rule rule = mp_frame_rule_find(address);
    if (rule.base_offset & BASE_BITS || rule.bp_offset != (int16_t)rule.bp_offset) rule.base = MP_FRAME_UNKNOWN;
    *frame = (struct mp_known_frame){
        .address = address, .base = rule.base_offset | rule.base, .bp_offset = (int16_t)rule.bp_offset};
}

static __attribute__((noinline)) uint16_t find(struct mp_known_frames *known, uintptr_t address)
{
    const uint64_t mask = sizeof known->index / sizeof *known->index - 1;
    if (known->count == MP_KNOWN_FRAMES - 1) forget_all(known);
    uint64_t at = address * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (; known->index[at & mask]; at++)
        if (known->frames[known->index[at & mask]].address == address) return known->index[at & mask];
    uint16_t found = known->index[at & mask] = (uint16_t)++known->count;
    remember(&known->frames[found], address);
    return found;
}

/* A `frame` that was forgotten meanwhile takes no harm: a caller is checked before it is believed. */
static inline struct mp_known_frame *find_caller(struct mp_known_frames *known, struct mp_known_frame *frame,
                                                 uintptr_t address)
{
    struct mp_known_frame *caller = &known->frames[frame->caller];
    if (__builtin_expect(caller->address == address, 1)) return caller;
    frame->caller = find(known, address);
    return &known->frames[frame->caller];
}

enum { PAGE = 4096, FRAME_MAX = 1 << 20 };

/* Asks the kernel, which reads eight bytes there before it finds that it was asked for nothing it knows. */
static bool is_readable(uintptr_t address)
{
    return syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t)) == -1 && errno == EINVAL;
}

/* True where all from sp up to `end` may be read. */
static __attribute__((noinline)) bool reach(struct mp_known_frames *known, uintptr_t sp, uintptr_t end)
{
    if (end < sp || end - sp > FRAME_MAX) return false;
    if (sp < known->readable_from || sp > known->readable_to) /* another stack, or more of this one */
        known->readable_from = known->readable_to = sp & ~(uintptr_t)(PAGE - 1);
    for (; known->readable_to < end; known->readable_to += PAGE)
        if (!is_readable(known->readable_to)) return false;
    return true;
}

static bool may_read(struct mp_known_frames *known, uintptr_t sp, uintptr_t end)
{
    return __builtin_expect(sp >= known->readable_from && end <= known->readable_to && sp <= end, 1) ||
           reach(known, sp, end);
}

int mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                   void **addresses, int room, uint64_t *hash)
{
    if (__builtin_expect(known->generation != generation, 0)) {
        forget_all(known);
        known->generation = generation;
    }
    uintptr_t bp = load((uintptr_t)frame), address = load((uintptr_t)frame + WORD), sp = (uintptr_t)frame + 2 * WORD;
    struct mp_known_frame *at = find_caller(known, &known->frames[0], address);
    uint64_t sum = generation;
    int count = 0;
    while (address && count < room) {
        addresses[count++] = (void *)address;
        sum = sum * HASH_FACTOR + address;
        uintptr_t base, offset = (uintptr_t)(intptr_t)(at->base & ~BASE_BITS);
        unsigned how = (unsigned)at->base & BASE_BITS;
        if (__builtin_expect(how == MP_FRAME_BY_SP, 1)) {
            base = sp + offset;
        } else if (how == MP_FRAME_BY_BP) {
            base = bp + offset;
        } else if (how == MP_FRAME_AT_BP) {
            if (bp + offset < sp || !may_read(known, sp, bp + WORD)) return -1;
            base = load(bp + offset);
            bp = load(bp);
        } else if (how == MP_FRAME_OUTERMOST) {
            break;
        } else {
            return -1;
        }
        /* Stacks grow downwards: anything else is a rule that is wrong here. */
        if (__builtin_expect(base <= sp || base % WORD, 0) || !may_read(known, sp, base)) return -1;
        if (__builtin_expect(base > end, 0)) {
            count--;
            break;
        }
        uintptr_t saved_bp = base + (uintptr_t)(intptr_t)at->bp_offset;
        if (at->bp_offset && saved_bp - sp > base - sp - WORD) return -1;
        if (at->bp_offset) bp = load(saved_bp);
        sp = base;
        address = load(base - WORD);
        at = find_caller(known, at, address);
    }
    *hash = sum;
    return count;
}

#else

int mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                   void **addresses, int room, uint64_t *hash)
{
    (void)known, (void)generation, (void)frame, (void)end, (void)addresses, (void)room, (void)hash;
    return -1;
}

#endif
