/* The native walk, compared with the C library's own, on stacks of many shapes. */
#include "capture/native/walk.h"

#include <alloca.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "unit/suite.h"

enum { ROOM = 4096 };

static struct mp_known_frames *known;
static uint64_t generation;
static int interrupted; /* frames whose return address does not follow a call */
static struct mp_walked last;
static int compared; /* walks */

static void prepare(void)
{
    known = mmap(NULL, sizeof *known, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(known, MAP_FAILED);
    compared = 0;
    generation = 1;
}

/* Both see the same stack, from this function's caller outwards. */
static __attribute__((noinline)) void compare(void)
{
    static void *ours[ROOM], *theirs[ROOM];
    last = mp_native_walk(known, generation, __builtin_frame_address(0), UINTPTR_MAX, ours, ROOM);
    int count = backtrace(theirs, ROOM), skip = 0;
    ck_assert_int_eq(last.end, MP_WALK_WHOLE);
    while (skip < count && theirs[skip] != ours[0])
        skip++;
    ck_assert_int_eq(last.count, count - skip);
    interrupted = 0;
    for (int i = 0; i < last.count; i++) {
        ck_assert_int_le((uintptr_t)ours[i] - (uintptr_t)theirs[skip + i], 1);
        interrupted += ours[i] != theirs[skip + i];
    }
    compared++;
}

/* Put around a call: prevents a tail call, and merging with calls between other texts. */
#define KEEP_APART(text) __asm__ volatile("# " text ::: "memory")

static __attribute__((noinline)) void recurse(unsigned depth, unsigned path)
{
    if (!depth) {
        compare();
        KEEP_APART("leaf");
    } else if (path & 1) {
        KEEP_APART("odd");
        recurse(depth - 1, path >> 1);
        KEEP_APART("odd");
    } else {
        KEEP_APART("even");
        recurse(depth - 1, path >> 1);
        KEEP_APART("even");
    }
}

/* Its frame is found by the frame pointer. */
static __attribute__((noinline)) void with_alloca(unsigned depth, size_t bytes)
{
    char *room = alloca(bytes);
    memset(room, 0, bytes);
    __asm__ volatile("" ::"r"(room) : "memory");
    if (depth)
        with_alloca(depth - 1, bytes * 2 + depth);
    else
        compare();
    KEEP_APART("end");
}

/* Its frame is found by an expression if the compiler realigns the stack. */
static __attribute__((noinline)) void with_aligned_stack(unsigned depth, int more, int than, int six, int registers,
                                                         int so, int on_the_stack)
{
    alignas(128) char room[128];
    memset(room, more + than + six + registers + so + on_the_stack, sizeof room);
    char *moving = alloca((size_t)more);
    __asm__ volatile("" ::"r"(room), "r"(moving) : "memory");
    ck_assert_uint_eq((uintptr_t)room % 128, 0);
    if (depth)
        with_aligned_stack(depth - 1, more + 1, than, six, registers, so, on_the_stack);
    else
        compare();
    KEEP_APART("end");
}

static int compare_numbers(const void *left, const void *right)
{
    compare();
    return *(const int *)left - *(const int *)right;
}

/* Walks from `depth` calls inside of the frame with `end`. */
static __attribute__((noinline)) void walk_inside(unsigned depth, const void *end)
{
    static void *all[ROOM], *inner[ROOM];
    if (depth) {
        walk_inside(depth - 1, end);
        KEEP_APART("inside");
        return;
    }
    const void *here = __builtin_frame_address(0);
    int count = mp_native_walk(known, generation, here, UINTPTR_MAX, all, ROOM).count;
    last = mp_native_walk(known, generation, here, (uintptr_t)end, inner, ROOM);
    ck_assert_int_eq(last.end, MP_WALK_WHOLE);
    ck_assert_int_gt(count, last.count);
    ck_assert_mem_eq(all, inner, (size_t)last.count * sizeof *inner);
}

static __attribute__((noinline)) void border(unsigned depth)
{
    walk_inside(depth, __builtin_frame_address(0));
    KEEP_APART("border");
}

START_TEST(a_walk_ends_before_the_frame_that_was_named)
{
    prepare();
    for (unsigned depth = 0; depth < 100; depth++) {
        border(depth);
        ck_assert_int_eq(last.count, (int)depth);
    }
}

START_TEST(plain_calls_are_followed)
{
    prepare();
    for (unsigned depth = 0; depth < 200; depth += 7)
        for (unsigned path = 0; path < 16; path++)
            recurse(depth, path);
    ck_assert_int_eq(compared, 29 * 16);
}

START_TEST(frames_of_moving_size_are_followed)
{
    prepare();
    for (unsigned depth = 0; depth < 9; depth++)
        with_alloca(depth, 16 * depth);
    for (int more = 1; more < 200; more += 3)
        with_aligned_stack(4, more, 2, 3, 4, 5, 6);
    ck_assert_int_eq(compared, 9 + 67);
}

START_TEST(other_libraries_are_passed_through)
{
    prepare();
    int numbers[] = {5, 3, 9, 1};
    qsort(numbers, 4, sizeof *numbers, compare_numbers);
    ck_assert_int_ge(compared, 4);
}

static void *run_thread(void *unused)
{
    (void)unused;
    recurse(5, 3);
    return NULL;
}

START_TEST(a_thread_ends_where_it_began)
{
    prepare();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_thread, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(compared, 1);
}

static void on_signal(int number)
{
    (void)number;
    compare();
}

START_TEST(a_handler_stands_on_what_it_interrupts)
{
    prepare();
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    ck_assert_int_eq(compared, 1);
    ck_assert_int_eq(interrupted, 1);
    signal(SIGUSR1, SIG_DFL);
}

/* The address to stop at is on neither stack: above the handler's, and below the interrupted one. */
static void *alternate;
enum { ALTERNATE_BYTES = 1 << 16 };

static __attribute__((noinline)) void walk_from_another_stack(int number)
{
    static void *all[ROOM], *inner[ROOM];
    const void *here = __builtin_frame_address(0);
    int count = mp_native_walk(known, generation, here, UINTPTR_MAX, all, ROOM).count;
    last = mp_native_walk(known, generation, here, (uintptr_t)alternate + ALTERNATE_BYTES, inner, ROOM);
    ck_assert_int_eq(last.count, count);
    ck_assert_mem_eq(all, inner, (size_t)count * sizeof *inner);
    ck_assert_int_gt(count, number > 0);
    compared++;
}

START_TEST(a_handlers_stack_is_not_the_one_to_stop_on)
{
    prepare();
    alternate = mmap(NULL, ALTERNATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_uint_lt((uintptr_t)alternate, (uintptr_t)__builtin_frame_address(0));
    const stack_t stack = {.ss_sp = alternate, .ss_size = ALTERNATE_BYTES};
    const struct sigaction action = {.sa_handler = walk_from_another_stack, .sa_flags = SA_ONSTACK};
    ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(compared, 1);
    ck_assert_int_eq(last.end, MP_WALK_PASSED);
    const stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    signal(SIGUSR1, SIG_DFL);
    munmap(alternate, ALTERNATE_BYTES);
}

static void *ours[ROOM];
static __attribute__((noinline)) void walk_only(void)
{
    last = mp_native_walk(known, generation, __builtin_frame_address(0), UINTPTR_MAX, ours, ROOM);
    KEEP_APART("walked");
}

/* Calls walk_only() through code without a description; returns that code. */
static const unsigned char *walk_through(const unsigned char *code, size_t bytes)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, bytes);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    void (*call)(void (*)(void));
    memcpy(&call, &page, sizeof page);
    call(walk_only);
    munmap(page, 4096);
    return page;
}

START_TEST(code_without_a_description_is_passed_by_its_frame_pointer)
{
    prepare();
    /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char keeps[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    const unsigned char *at = walk_through(keeps, sizeof keeps);
    void *theirs[ROOM];
    int count = backtrace(theirs, ROOM);
    ck_assert_int_eq(last.end, MP_WALK_WHOLE);
    ck_assert_ptr_eq(ours[0], at + 6);
    /* then walk_through(), this function and its callers; with AddressSanitizer its own backtrace() comes first
     */
    int callers = 1;
    while (callers < count && theirs[callers] != __builtin_return_address(0))
        callers++;
    ck_assert_int_eq(last.count, 3 + count - callers);
    ck_assert_mem_eq(ours + 3, theirs + callers, (size_t)(count - callers) * sizeof *theirs);
}

START_TEST(code_that_leads_nowhere_ends_a_stack)
{
    prepare();
    /* push %rbp; push $0x1234567, twice; X; call *%rdi; add $16,%rsp; pop %rbp; ret. X sets a wrong frame pointer: xor
     * %ebp,%ebp; mov %rsp,%rbp, where the seeming frame leads to no code; lea 7(%rsp),%rbp. */
#define PUSH 0x68, 0x67, 0x45, 0x23, 0x01
#define REST 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3
    static const struct {
        unsigned char code[32];
        size_t call; /* offset of the call's return address */
    } codes[] = {
        {{0x55, PUSH, PUSH, 0x31, 0xed, REST}, 15},
        {{0x55, PUSH, PUSH, 0x48, 0x89, 0xe5, REST}, 16},
        {{0x55, PUSH, PUSH, 0x48, 0x8d, 0x6c, 0x24, 0x07, REST}, 18},
    };
#undef PUSH
#undef REST
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const unsigned char *at = walk_through(codes[i].code, sizeof codes[i].code);
        ck_assert_int_eq(last.end, MP_WALK_LOST);
        ck_assert_int_eq(last.count, 1);
        ck_assert_ptr_eq(ours[0], at + codes[i].call);
    }
}

#if defined(__x86_64__)
/* The trap flag runs a handler at each instruction, also of the linker's jumps into other libraries. */
static volatile sig_atomic_t counting, steps, whole, same;
static uintptr_t stepped_from;

static void on_step(int number)
{
    (void)number;
    if (!counting) return;
    walk_only();
    steps++;
    whole += last.end == MP_WALK_WHOLE;
    same += last.count > 0 && (uintptr_t)ours[last.count - 1] == stepped_from;
}

static __attribute__((noinline)) int step_through(int value, bool traps)
{
    char text[32];
    if (traps) __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    counting = traps; /* the compiler does not know that the instructions before push */
    int bytes = snprintf(text, sizeof text, "%d", value);
    errno = 0;
    bytes += abs(atoi(text)) == value;
    counting = 0;
    __asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
    return bytes;
}

START_TEST(every_instruction_can_be_interrupted)
{
    prepare();
    walk_only();
    stepped_from = (uintptr_t)ours[last.count - 1];
    step_through(12345, false); /* the loader has resolved all functions by now */
    signal(SIGTRAP, on_step);
    ck_assert_int_eq(step_through(12345, true), 6);
    signal(SIGTRAP, SIG_DFL);
    ck_assert_int_gt(steps, 300);
    ck_assert_int_eq(whole, steps);
    ck_assert_int_eq(same, steps);
}

START_TEST(frames_lie_one_above_the_other)
{
    prepare();
    static struct mp_native_frame frames[ROOM];
    walk_only();
    int count = mp_native_walk_frames(known, generation, __builtin_frame_address(0), frames, ROOM);
    ck_assert_int_eq(count, last.count - 1);
    for (int i = 0; i < count; i++) {
        ck_assert_uint_eq(frames[i].address, (uintptr_t)ours[i + 1]);
        if (i) ck_assert_uint_eq(frames[i].low, frames[i - 1].high);
        if (i + 1 < count) ck_assert_uint_lt(frames[i].low, frames[i].high);
    }
}

/* Code with a description by which the caller's frame is `distance` away, past the end of the stack. */
#    define WITH_A_WRONG_RULE(name, distance)                                                                          \
        __asm__(".text\n.type " #name ", @function\n" #name                                                            \
                ":\n.cfi_startproc\npush %rbp\n.cfi_def_cfa_offset " #distance                                         \
                "\nxor %ebp, %ebp\ncall walk_for_a_wrong_rule\npop %rbp\nret\n.cfi_endproc\n.size " #name              \
                ", . - " #name "\n");                                                                                  \
        void name(void)
__attribute__((used)) void walk_for_a_wrong_rule(void);
void walk_for_a_wrong_rule(void)
{
    walk_only();
    KEEP_APART("end");
}
WITH_A_WRONG_RULE(beyond_the_stack, 0xf0000);
WITH_A_WRONG_RULE(far_beyond_the_stack, 0x7f0000000000);

/* Code whose description reads the caller's frame from 1 GiB above the frame pointer: DW_OP_breg6 0x40000000,
 * DW_OP_deref. */
__asm__(".text\n.type named_beyond_the_stack, @function\nnamed_beyond_the_stack:\n.cfi_startproc\n"
        "push %rbp\nxor %ebp, %ebp\n"
        ".cfi_escape 0x0f, 7, 0x76, 0x80, 0x80, 0x80, 0x80, 0x04, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0\n"
        "call walk_for_a_wrong_rule\npop %rbp\nret\n.cfi_endproc\n"
        ".size named_beyond_the_stack, . - named_beyond_the_stack\n");
void named_beyond_the_stack(void);

START_TEST(a_wrong_rule_is_not_followed_off_the_stack)
{
    prepare();
    walk_only();
    ck_assert_int_eq(last.end, MP_WALK_WHOLE);
    void (*const wrong[])(void) = {beyond_the_stack, far_beyond_the_stack, named_beyond_the_stack};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wrong[i]();
        ck_assert_int_eq(last.end, MP_WALK_LOST);
        ck_assert_int_eq(last.count, 2); /* walk_for_a_wrong_rule() and the code itself */
    }
    recurse(50, 0x1555);
    ck_assert_int_eq(compared, 1);
}
#endif

static uint64_t hash_of(unsigned depth, unsigned path)
{
    recurse(depth, path);
    return last.hash;
}

START_TEST(a_path_has_a_hash_of_its_own)
{
    enum { PATHS = 1024 };
    prepare();
    static uint64_t hashes[2 * PATHS];
    for (unsigned i = 0; i < 2 * PATHS; i++)
        hashes[i] = hash_of(12, i % PATHS);
    for (unsigned i = 0; i < PATHS; i++) {
        ck_assert_uint_eq(hashes[i], hashes[i + PATHS]);
        for (unsigned other = 0; other < i; other++)
            ck_assert_uint_ne(hashes[i], hashes[other]);
    }
}

START_TEST(a_full_memory_forgets_and_finds_again)
{
    enum { FEW = 4, MANY = 30 };
    prepare();
    recurse(50, 0x1555);
    uint32_t all = known->count;
    ck_assert_uint_lt(all, MANY);
    ck_assert_uint_gt(all, FEW);
    for (uint32_t room = 1; room <= all; room++) {
        generation++;
        compare();
        known->count = MP_KNOWN_FRAMES - room;
        recurse(50, 0x1555);
        ck_assert_uint_eq(compared, 2 * room + 1);
        if (room <= FEW) ck_assert_uint_lt(known->count, MANY);
    }
}

#if defined(__x86_64__)
MP_SUITE("walk", plain_calls_are_followed, a_walk_ends_before_the_frame_that_was_named,
         frames_of_moving_size_are_followed, other_libraries_are_passed_through, a_thread_ends_where_it_began,
         a_handler_stands_on_what_it_interrupts, a_handlers_stack_is_not_the_one_to_stop_on,
         every_instruction_can_be_interrupted, frames_lie_one_above_the_other,
         code_without_a_description_is_passed_by_its_frame_pointer, code_that_leads_nowhere_ends_a_stack,
         a_wrong_rule_is_not_followed_off_the_stack, a_path_has_a_hash_of_its_own,
         a_full_memory_forgets_and_finds_again)
#else
int main(void)
{
    return 77; /* libunwind walks here */
}
#endif
