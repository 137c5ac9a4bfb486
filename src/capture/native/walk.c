#include "capture/native/walk.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/kernel.h"

#include "capture/core/session.h"
#include "capture/native/frame_rule.h"
#include "capture/native/loaded.h"
#include "capture/native/walk_libunwind.h"
#include "wire/config.h"

#if defined(__x86_64__)

/* A path's hash is a polynomial of its addresses. The multiplications run while the loads wait, so they cost
 * nothing. */
#    define HASH_FACTOR UINT64_C(0xd6e8feb86659fd93)

enum { WORD = sizeof(uintptr_t) };

/* The kind of a known frame's rule, in the lowest bits of its `base`: 0 for most frames. */
enum { BY_SP, BY_BP, AT_BP, OUTERMOST, BEYOND /* no frame */, UNKNOWN, SIGNAL, BASE_BITS = 7 };

static uintptr_t load(uintptr_t address)
{
    uintptr_t value;
    memcpy(&value, (const void *)address, sizeof value);
    return value;
}

static void forget_all(struct mp_known_frames *known)
{
    mp_madvise(known->frames, sizeof known->frames, MADV_DONTNEED);
    memset(known->index, 0, sizeof known->index);
    known->count = 0;
    known->frames[0].base = BEYOND; /* its address is 0 */
}

/* True if `address` is the code to which a signal handler returns: mov $15, %rax; syscall. The registers that the
 * kernel saved lie right above the handler's frame (struct rt_sigframe of Linux, arch/x86/include/asm/sigframe.h). */
static bool returns_from_signal(uintptr_t address)
{
    static const unsigned char code[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
    unsigned char there[sizeof code];
    return mp_read_memory(there, address, sizeof there) && !memcmp(there, code, sizeof code);
}

static void remember(struct mp_known_frame *frame, uintptr_t address, bool is_guess)
{
    static const uint8_t bases[] = {[MP_FRAME_UNKNOWN] = UNKNOWN,
                                    [MP_FRAME_BY_SP] = BY_SP,
                                    [MP_FRAME_BY_BP] = BY_BP,
                                    [MP_FRAME_AT_BP] = AT_BP,
                                    [MP_FRAME_OUTERMOST] = OUTERMOST};
    struct mp_frame_rule rule = mp_frame_rule_find(address, is_guess);
    bool by_sp = rule.base == MP_FRAME_BY_SP;
    /* Stacks grow downwards, and a frame's saved registers lie inside the frame: a rule that says otherwise is
     * wrong. */
    bool outside = (rule.bp_offset && rule.bp_offset > -WORD) || (by_sp && rule.base_offset <= 0);
    bool unusual = rule.base_offset & BASE_BITS || rule.bp_offset != (int16_t)rule.bp_offset;
    /* Without a known base, bp_offset is meaningless, too, since it counts from the real base. */
    if (rule.base == MP_FRAME_UNKNOWN || unusual || outside) rule = (struct mp_frame_rule){.base = MP_FRAME_UNKNOWN};
    /* A function interrupted at its end has already restored the register, which compilers do not describe. */
    if (by_sp && rule.base_offset < -rule.bp_offset) rule.bp_offset = 0;
    if (rule.base == MP_FRAME_UNKNOWN && returns_from_signal(address)) {
        *frame = (struct mp_known_frame){.address = address, .base = SIGNAL};
        return;
    }
    *frame = (struct mp_known_frame){
        .address = address, .base = rule.base_offset | bases[rule.base], .bp_offset = (int16_t)rule.bp_offset};
}

static inline uint16_t *place_of(struct mp_known_frames *known, uintptr_t address, uint64_t probe)
{
    const uint64_t mask = sizeof known->index / sizeof *known->index - 1;
    return &known->index[((address * UINT64_C(0x9e3779b97f4a7c15) >> 32) + probe) & mask];
}

static __attribute__((noinline)) uint16_t find_frame(struct mp_known_frames *known, uintptr_t address, bool is_guess)
{
    if (!address) return 0;
    if (known->count >= MP_KNOWN_FRAMES - 1) forget_all(known);
    uint64_t probe = 0;
    for (; *place_of(known, address, probe); probe++)
        if (known->frames[*place_of(known, address, probe)].address == address) return *place_of(known, address, probe);
    uint32_t next = known->count + 1; /* another coroutine of this thread may have filled the table meanwhile */
    if (next >= MP_KNOWN_FRAMES) next = 1;
    known->count = next;
    uint16_t found = *place_of(known, address, probe) = (uint16_t)next;
    remember(&known->frames[found], address, is_guess);
    return found;
}

enum { WORDS = sizeof(struct mp_known_frame) / WORD };
_Static_assert(MP_KNOWN_FRAMES *WORDS <= UINT16_MAX + 1, "callers fit");

/* `frame` may have been forgotten meanwhile. This does no harm: a caller's address is compared before it is used. */
static inline struct mp_known_frame *find_caller(struct mp_known_frames *known, struct mp_known_frame *frame,
                                                 uintptr_t address, bool is_guess)
{
    struct mp_known_frame *caller = (struct mp_known_frame *)((uintptr_t *)known->frames + frame->caller);
    if (__builtin_expect(caller->address == address, 1)) return caller;
    uint16_t found = *place_of(known, address, 0);
    if (known->frames[found].address != address) found = find_frame(known, address, is_guess);
    frame->caller = found * WORDS;
    return &known->frames[found];
}

enum { PAGE = 4096, FRAME_MAX = 1 << 20, GUESSED_FRAME_MAX = 16 << 10 };

/* Asks the kernel for an impossible change of the signal mask: it reads eight bytes at the address before it
 * refuses. */
static bool is_readable(uintptr_t address)
{
    bool readable = mp_syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t)) == -1 && errno == EINVAL;
    if (!readable && errno != EFAULT) mp_session_refused("rt_sigprocmask");
    return readable;
}

/* Begins to walk on another stack. The known part of the thread's own stack is readable. No part of another stack is
 * known to be readable. */
static void begin_stack(struct mp_known_frames *known, uintptr_t sp)
{
    bool own = sp - known->own_from < known->own_to - known->own_from;
    known->readable_from = own ? known->own_from : sp & ~(uintptr_t)(PAGE - 1);
    known->readable_to = own ? known->own_to : known->readable_from;
}

/* True if all memory from sp up to `end` may be read. */
static __attribute__((noinline)) bool reach(struct mp_known_frames *known, uintptr_t sp, uintptr_t end)
{
    if (end < sp || end - sp > FRAME_MAX) return false;
    if (sp < known->readable_from || sp > known->readable_to) begin_stack(known, sp);
    while (known->readable_to < end) {
        if (known->readable_to >= known->own_from && known->readable_to < known->own_to)
            known->readable_to = known->own_to; /* the thread is further in than ever before */
        else if (is_readable(known->readable_to & ~(uintptr_t)(PAGE - 1)))
            known->readable_to = (known->readable_to & ~(uintptr_t)(PAGE - 1)) + PAGE;
        else
            return false;
    }
    return true;
}

static bool may_read(struct mp_known_frames *known, uintptr_t sp, uintptr_t end)
{
    return __builtin_expect(sp >= known->readable_from && end <= known->readable_to && sp <= end, 1) ||
           reach(known, sp, end);
}

/* ---- the thread's own stack --------------------------------------------------------------------------------------
 *
 * Its outer end is fixed. The C library keeps a thread's data at the end of that thread's stack, behind its
 * thread-local variables. The first thread's end comes from the kernel. All frames up to that end lie on this stack,
 * which stays mapped until the thread ends. */

extern void *__libc_stack_end;                      /* defined in ld.so */
static uintptr_t thread_data = (uintptr_t)16 << 10; /* most bytes from the outermost frame to the stack's end */

static int add_thread_data(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS) thread_data += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

static bool by_libunwind;

void mp_native_walk_start(void)
{
    const char *how = getenv(MP_UNWIND_VARIABLE);
    by_libunwind = how && !strcmp(how, "libunwind") && mp_libunwind_start();
    dl_iterate_phdr(add_thread_data, NULL);
}

void mp_native_walk_forget(void)
{
    mp_libunwind_forget();
}

/* If every page up to a known end is mapped, both addresses lie on one stack: an unmapped page lies below each
 * stack. */
bool mp_native_same_stack(const struct mp_known_frames *known, uintptr_t inner, uintptr_t outer)
{
    enum { STACK_MAX = 16 << 20 };
    const uintptr_t ends[] = {known->own_to, (uintptr_t)pthread_self(), (uintptr_t)__libc_stack_end};
    for (size_t i = 0; inner <= outer && i < sizeof ends / sizeof *ends; i++) {
        uintptr_t at = inner & ~(uintptr_t)(PAGE - 1), end = ends[i];
        if (outer >= end || end - at > STACK_MAX) continue;
        if (i == 0 && outer >= known->own_from) end = known->own_from; /* the rest is known to be mapped */
        while (at < end && is_readable(at))
            at += PAGE;
        if (at >= end) return true;
    }
    return false;
}

/* Called when a walk over unknown pages has reached `outermost` without leaving its stack. Remembers the stack if its
 * end is that of a thread's stack. */
static __attribute__((noinline)) void learn_own_stack(struct mp_known_frames *known, uintptr_t begin,
                                                      uintptr_t outermost)
{
    const uintptr_t ends[] = {(uintptr_t)pthread_self(), (uintptr_t)__libc_stack_end};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uintptr_t end = ends[i], at = known->readable_to & ~(uintptr_t)(PAGE - 1);
        if (begin >= end || outermost > end || end - outermost > thread_data) continue;
        while (at < end && is_readable(at))
            at += PAGE;
        if (at < end) continue;
        known->own_from = begin & ~(uintptr_t)(PAGE - 1);
        known->own_to = end;
    }
}

struct registers {
    uintptr_t sp, bp;
};

static bool leads_on(uintptr_t from, uintptr_t bp)
{
    return bp >= from && bp - from <= GUESSED_FRAME_MAX && bp % WORD == 0;
}

/* Guesses the base of code without a rule. This code often keeps the frame pointer, which then points to the caller's
 * frame pointer and the return address above. The return address must lie in a library, or lead on in the same way. If
 * the code does not keep the frame pointer, we may find an old address, in a library that another thread is
 * unloading. */
static __attribute__((noinline)) uintptr_t guess_by_bp(struct mp_known_frames *known, struct registers *registers)
{
    uintptr_t bp = registers->bp, base = bp + 2 * WORD;
    if (!leads_on(registers->sp, bp) || !may_read(known, registers->sp, base)) return 0;
    uintptr_t callers = load(bp), address = load(bp + WORD);
    struct mp_module_place place;
    bool in_library = address && mp_module_place(address - 1, &place);
    if (in_library ? !mp_read_is_safe() : address && !leads_on(base, callers)) return 0;
    registers->bp = callers;
    return base;
}

/* The base of a frame whose rule needs more than the stack pointer; 0: no rule holds here. */
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
        return guess_by_bp(known, registers);
    }
    uintptr_t saved_bp = base + (uintptr_t)(intptr_t)at->bp_offset;
    bool saved_outside = at->bp_offset && saved_bp - sp > base - sp - WORD;
    return base <= sp || base % WORD || saved_outside ? 0 : base;
}

static uintptr_t lower(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

/* Continues in the code that the kernel interrupted for a handler. The handler's frame ends at registers->sp. Returns
 * the interrupted instruction's address + 1, as if it were a return address; 0: unknown. */
static __attribute__((noinline)) uintptr_t leave_handler(struct mp_known_frames *known, struct registers *registers)
{
    uintptr_t saved = registers->sp + offsetof(ucontext_t, uc_mcontext.gregs);
    if (!may_read(known, registers->sp, saved + sizeof(gregset_t))) return 0;
    uintptr_t address = load(saved + REG_RIP * sizeof(greg_t)) + 1;
    registers->bp = load(saved + REG_RBP * sizeof(greg_t));
    /* Bases are multiples of a word. Rounding sp down only makes the frame larger, so its saved registers still lie
     * inside. */
    registers->sp = load(saved + REG_RSP * sizeof(greg_t)) & ~(uintptr_t)(WORD - 1);
    begin_stack(known, registers->sp);
    return address;
}

/* The compiler makes two functions from this one: `frames` is NULL in one of them, `addresses` in the other. */
static inline __attribute__((always_inline)) struct mp_walked walk(struct mp_known_frames *known, uint64_t generation,
                                                                   const void *frame, uintptr_t end, void **addresses,
                                                                   struct mp_native_frame *frames, int room)
{
    if (__builtin_expect(known->generation != generation + 1, 0)) {
        forget_all(known);
        known->generation = generation + 1;
    }
    struct registers registers = {.sp = (uintptr_t)frame + 2 * WORD, .bp = load((uintptr_t)frame)};
    const uintptr_t begin = registers.sp;
    bool is_own = begin - known->own_from < known->own_to - known->own_from;
    begin_stack(known, begin);
    if (__builtin_expect(!is_own && end != UINTPTR_MAX, 0) && !(known->short_walks & (known->short_walks + 1))) {
        mp_native_walk(known, generation, frame, UINTPTR_MAX, addresses, room); /* learns the thread's own stack */
        is_own = begin - known->own_from < known->own_to - known->own_from;
        begin_stack(known, begin);
    }
    if (end != UINTPTR_MAX && !is_own) known->short_walks++;
    uintptr_t limit = lower(known->readable_to, end), base = registers.sp, address = load(base - WORD);
    struct mp_known_frame *at = &known->frames[0];
    uint64_t sum = generation;
    enum mp_walk_end how = MP_WALK_FULL, outermost = MP_WALK_WHOLE;
    bool is_guess = false; /* true for a guessed frame and all frames further out */
    int count = 0;
    while (count < room) {
        at = find_caller(known, at, address, is_guess);
        base = registers.sp + (uintptr_t)(intptr_t)at->base;
        unsigned kind = at->base & BASE_BITS;
        if (__builtin_expect(kind, 0)) {
            if (kind == BEYOND) {
                how = outermost;
                break;
            }
            is_guess |= kind == UNKNOWN;
            base = kind == OUTERMOST || kind == SIGNAL ? registers.sp : base_by_bp(known, at, &registers);
        }
        if (__builtin_expect(base > limit, 0)) {
            if (!may_read(known, registers.sp, base)) base = 0;
            if (base > end) {
                how = MP_WALK_WHOLE;
                break;
            }
            limit = lower(known->readable_to, end);
        }
        if (addresses) addresses[count] = (void *)at->address;
        if (frames) frames[count] = (struct mp_native_frame){at->address, registers.sp, base};
        count++;
        sum = sum * HASH_FACTOR + at->address;
        if (__builtin_expect(base <= registers.sp, 0)) { /* no caller, except after a handler */
            how = kind == OUTERMOST ? outermost : MP_WALK_LOST;
            struct registers interrupted = registers; /* a copy, so that `registers` can stay in registers */
            address = kind == SIGNAL ? leave_handler(known, &interrupted) : 0;
            if (!address) break;
            how = MP_WALK_FULL;
            registers = interrupted;
            is_own = true;             /* two stacks: nothing to learn */
            if (registers.sp >= end) { /* `end` lies on another stack, so addresses do not compare */
                end = UINTPTR_MAX;
                outermost = MP_WALK_PASSED;
            }
            limit = lower(known->readable_to, end);
            continue;
        }
        if (at->bp_offset) registers.bp = load(base + (uintptr_t)(intptr_t)at->bp_offset);
        registers.sp = base;
        address = load(base - WORD);
    }
    if (__builtin_expect(!is_own, 0) && how != MP_WALK_LOST) learn_own_stack(known, begin, registers.sp);
    return (struct mp_walked){count, how, sum + (how == MP_WALK_LOST)};
}

struct mp_walked mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                                void **addresses, int room)
{
    if (__builtin_expect(by_libunwind, 0) && addresses) return mp_libunwind_walk(generation, addresses, room);
    return walk(known, generation, frame, end, addresses, NULL, room);
}

int mp_native_walk_frames(struct mp_known_frames *known, uint64_t generation, const void *frame,
                          struct mp_native_frame *frames, int room)
{
    return walk(known, generation, frame, UINTPTR_MAX, NULL, frames, room).count;
}

bool mp_native_function(uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    return mp_frame_rule_function(address, start, end);
}

#else

void mp_native_walk_start(void)
{
    mp_libunwind_start();
}

void mp_native_walk_forget(void)
{
    mp_libunwind_forget();
}

bool mp_native_same_stack(const struct mp_known_frames *known, uintptr_t inner, uintptr_t outer)
{
    (void)known, (void)inner, (void)outer;
    return false;
}

struct mp_walked mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                                void **addresses, int room)
{
    (void)known, (void)frame, (void)end;
    return mp_libunwind_walk(generation, addresses, room);
}

int mp_native_walk_frames(struct mp_known_frames *known, uint64_t generation, const void *frame,
                          struct mp_native_frame *frames, int room)
{
    (void)known, (void)generation, (void)frame;
    return mp_libunwind_walk_frames(frames, room);
}

bool mp_native_function(uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    return mp_libunwind_function(address, start, end);
}

#endif
