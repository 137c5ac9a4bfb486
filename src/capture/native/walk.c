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

enum { WORD = sizeof(uintptr_t) };

/* What a known frame's `base` has in its lowest bits: nothing for most of all frames. */
enum { BY_SP, BY_BP, AT_BP, OUTERMOST, BEYOND /* no frame */, UNKNOWN, BASE_BITS = 7 };

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
    known->frames[0].base = BEYOND; /* as the address is: 0 */
}

/* Stacks grow downwards, and what is saved of a frame lies inside it: all else is a rule that is wrong. */
static bool lies_within(struct mp_frame_rule rule)
{
    return rule.base_offset > 0 &&
           (!rule.bp_offset || (rule.bp_offset <= -WORD && rule.base_offset >= -rule.bp_offset));
}

static void remember(struct mp_known_frame *frame, uintptr_t address)
{
    static const uint8_t bases[] = {[MP_FRAME_UNKNOWN] = UNKNOWN,
                                    [MP_FRAME_BY_SP] = BY_SP,
                                    [MP_FRAME_BY_BP] = BY_BP,
                                    [MP_FRAME_AT_BP] = AT_BP,
                                    [MP_FRAME_OUTERMOST] = OUTERMOST};
    struct mp_frame_rule rule = mp_frame_rule_find(address);
    if (rule.base_offset & BASE_BITS || rule.bp_offset != (int16_t)rule.bp_offset ||
        (rule.base == MP_FRAME_BY_SP && !lies_within(rule)))
        rule.base = MP_FRAME_UNKNOWN;
    *frame = (struct mp_known_frame){
        .address = address, .base = rule.base_offset | bases[rule.base], .bp_offset = (int16_t)rule.bp_offset};
}

static inline uint16_t *place_of(struct mp_known_frames *known, uintptr_t address, uint64_t probe)
{
    const uint64_t mask = sizeof known->index / sizeof *known->index - 1;
    return &known->index[((address * UINT64_C(0x9e3779b97f4a7c15) >> 32) + probe) & mask];
}

static __attribute__((noinline)) uint16_t find(struct mp_known_frames *known, uintptr_t address)
{
    if (!address) return 0;
    if (known->count == MP_KNOWN_FRAMES - 1) forget_all(known);
    uint64_t probe = 0;
    for (; *place_of(known, address, probe); probe++)
        if (known->frames[*place_of(known, address, probe)].address == address) return *place_of(known, address, probe);
    uint16_t found = *place_of(known, address, probe) = (uint16_t)++known->count;
    remember(&known->frames[found], address);
    return found;
}

enum { WORDS = sizeof(struct mp_known_frame) / WORD };
_Static_assert(MP_KNOWN_FRAMES *WORDS <= UINT16_MAX + 1, "callers fit");

/* A `frame` that was forgotten meanwhile takes no harm: a caller is checked before it is believed. */
static inline struct mp_known_frame *find_caller(struct mp_known_frames *known, struct mp_known_frame *frame,
                                                 uintptr_t address)
{
    struct mp_known_frame *caller = (struct mp_known_frame *)((uintptr_t *)known->frames + frame->caller);
    if (__builtin_expect(caller->address == address, 1)) return caller;
    uint16_t found = *place_of(known, address, 0);
    if (known->frames[found].address != address) found = find(known, address);
    frame->caller = found * WORDS;
    return &known->frames[found];
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

struct registers {
    uintptr_t sp, bp;
};

/* The base of a frame that is not found from its stack pointer alone; 0: it has no rule that holds here. */
static uintptr_t base_by_bp(struct mp_known_frames *known, const struct mp_known_frame *at, struct registers *registers)
{
    uintptr_t sp = registers->sp, bp = registers->bp, offset = (uintptr_t)(intptr_t)(at->base & ~BASE_BITS), base;
    if ((at->base & BASE_BITS) == BY_BP) {
        base = bp + offset;
    } else if ((at->base & BASE_BITS) == AT_BP) {
        if (bp + offset < sp || !may_read(known, sp, bp + WORD)) return 0;
        base = load(bp + offset);
        registers->bp = load(bp);
    } else {
        return 0;
    }
    uintptr_t saved_bp = base + (uintptr_t)(intptr_t)at->bp_offset;
    bool saved_outside = at->bp_offset && saved_bp - sp > base - sp - WORD;
    return base <= sp || base % WORD || saved_outside ? 0 : base;
}

static uintptr_t lower(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

int mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                   void **addresses, int room, uint64_t *hash)
{
    if (__builtin_expect(known->generation != generation + 1, 0)) {
        forget_all(known);
        known->generation = generation + 1;
    }
    struct registers registers = {.sp = (uintptr_t)frame + 2 * WORD, .bp = load((uintptr_t)frame)};
    if (!may_read(known, registers.sp, registers.sp)) return -1;
    uintptr_t limit = lower(known->readable_to, end), base = registers.sp;
    struct mp_known_frame *at = &known->frames[0];
    uint64_t sum = generation;
    void **to = addresses, **const full = addresses + room;
    while (to != full) {
        at = find_caller(known, at, load(base - WORD));
        base = registers.sp + (uintptr_t)(intptr_t)at->base;
        if (__builtin_expect(at->base & BASE_BITS, 0)) {
            if ((at->base & BASE_BITS) == BEYOND) break;
            if ((at->base & BASE_BITS) == OUTERMOST) {
                *to++ = (void *)at->address;
                sum = sum * HASH_FACTOR + at->address;
                break;
            }
            base = base_by_bp(known, at, &registers);
            if (!base) return -1;
        }
        if (__builtin_expect(base > limit, 0)) {
            if (!may_read(known, registers.sp, base)) return -1;
            if (base > end) break;
            limit = lower(known->readable_to, end);
        }
        *to++ = (void *)at->address;
        sum = sum * HASH_FACTOR + at->address;
        if (at->bp_offset) registers.bp = load(base + (uintptr_t)(intptr_t)at->bp_offset);
        registers.sp = base;
    }
    *hash = sum;
    return (int)(to - addresses);
}

#else

int mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                   void **addresses, int room, uint64_t *hash)
{
    (void)known, (void)generation, (void)frame, (void)end, (void)addresses, (void)room, (void)hash;
    return -1;
}

#endif
