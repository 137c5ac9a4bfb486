/*
 * The kernel's side of `memprof attach`. It runs when the attached program enters or leaves an allocator's function,
 * and puts an event into a ring. It only reads the program's memory. It is compiled for BPF and embedded in memprof.
 */
#include <asm/ptrace.h>
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "attach/attach_event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Only the members that are read here: the loader finds them in the running kernel. */
struct thread_struct {
    unsigned long fsbase;
} __attribute__((preserve_access_index));
struct mm_struct {
    unsigned long start_stack;
} __attribute__((preserve_access_index));
struct task_struct {
    int pid, tgid;
    struct thread_struct thread;
    struct mm_struct *mm;
} __attribute__((preserve_access_index));

#ifndef NULL
#    define NULL ((void *)0)
#endif
#define PYTHON_BYTES  (MP_ATTACH_PYTHON_MOST * sizeof(struct mp_attach_frame))
#define THREADS_MOST  1024 /* threads of an interpreter that are searched */
#define FRAME_BYTES   128  /* bytes of a Python frame and of a code object, up to the last field that is read */
#define CODE_BYTES    256
#define FIRST_SHIM    3
#define GENERATOR     1
#define CHAIN_ENTRIES 1
#define CHAIN_SHIMS   2

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 64 << 20);
} ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct mp_attach_settings);
} settings SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct mp_attach_counts);
} counts SEC(".maps");

struct arguments {
    __u64 at[MP_ATTACH_ARGUMENTS];
};

/* Calls that have not returned, by thread and probe. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, struct arguments);
} calls SEC(".maps");

/* A thread's Python state, as it was last found. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u32);
    __type(value, __u64);
} threads SEC(".maps");

/* Live blocks of the sample. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1 << 18); /* the loader sets it to 1 if it needs no sample */
    __type(key, __u64);
    __type(value, __u8);
} kept SEC(".maps");

/* A handler may be interrupted by another thread's handler on the same CPU, but it never changes its CPU. So each
 * handler takes one of several scratch buffers of its CPU. */
#define SCRATCHES MP_ATTACH_SCRATCHES
struct scratch {
    struct mp_attach_event head;
    __u8 rest[PYTHON_BYTES + MP_ATTACH_STACK_MOST + MP_ATTACH_CHUNK];
    __u8 frame[FRAME_BYTES + 8];
    __u8 code[CODE_BYTES + 8];
    __u64 walk_frame, walk_record;
    __u64 sought, found;
    struct mp_attach_python python;
    __u64 busy;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1024); /* the loader sets it to SCRATCHES for each CPU */
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline __u64 read_word(__u64 at)
{
    __u64 value = 0;
    bpf_probe_read_user(&value, sizeof value, (void *)at);
    return value;
}

static long next_thread(__u32 index, void *context)
{
    struct scratch *room = *(struct scratch **)context;
    __u64 thread = room->found;
    if (!thread || read_word(thread + room->python.thread_id) == room->sought) return 1;
    room->found = read_word(thread + room->python.thread_next);
    return 0;
}

/* The Python state of the running thread; 0: it has none. */
static __always_inline __u64 find_thread(struct scratch *room, __u32 tid)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    room->sought = BPF_CORE_READ(task, thread.fsbase);
    __u64 *known = bpf_map_lookup_elem(&threads, &tid);
    if (known && *known && read_word(*known + room->python.thread_id) == room->sought) return *known;
    __u64 interpreter = read_word(room->python.runtime + room->python.interpreters);
    if (!interpreter) return 0;
    room->found = read_word(interpreter + room->python.threads_head);
    bpf_loop(THREADS_MOST, next_thread, &room, 0);
    __u64 found = room->found;
    if (found && read_word(found + room->python.thread_id) != room->sought) found = 0;
    if (found) bpf_map_update_elem(&threads, &tid, &found, BPF_ANY);
    return found;
}

static __always_inline __u64 word_in(const __u8 *bytes, __u32 offset, __u32 room)
{
    return *(const __u64 *)(bytes + (offset & (room - 1) & ~7u));
}

static __always_inline __u32 half_in(const __u8 *bytes, __u32 offset, __u32 room)
{
    return *(const __u32 *)(bytes + (offset & (room - 1) & ~3u));
}

/* True if the frame has not begun to run its function. */
static __always_inline int is_unbegun(struct scratch *room, __u64 code, __u64 position, __u8 owner)
{
    if (!room->python.code_first_traceable || owner == GENERATOR) return 0;
    __u32 first = half_in(room->code, room->python.code_first_traceable, CODE_BYTES);
    return position < code + room->python.code_bytecode + 2ull * first;
}

static long next_frame(__u32 index, void *context)
{
    struct scratch *room = *(struct scratch **)context;
    const struct mp_attach_python *python = &room->python;
    __u64 frame = room->walk_frame;
    __u32 count = room->head.python_count;
    if (!frame) return 1;
    if (count >= MP_ATTACH_PYTHON_MOST) {
        room->head.python_cut = 1;
        return 1;
    }
    if (bpf_probe_read_user(room->frame, FRAME_BYTES, (void *)frame) &&
        bpf_probe_read_user(room->frame, FRAME_BYTES - 24, (void *)frame)) {
        room->head.python_cut = 1;
        return 1;
    }
    struct mp_attach_frame entry = {0};
    __u64 code = word_in(room->frame, python->frame_code, FRAME_BYTES) & ~7ull;
    entry.position = python->position_is_index ? half_in(room->frame, python->frame_position, FRAME_BYTES)
                                               : word_in(room->frame, python->frame_position, FRAME_BYTES);
    __u8 owner = python->frame_owner ? room->frame[python->frame_owner & (FRAME_BYTES - 1)] : 0;
    room->walk_frame = word_in(room->frame, python->frame_previous, FRAME_BYTES);
    if (python->chain == CHAIN_SHIMS && owner >= FIRST_SHIM) {
        entry.marker = frame;
    } else {
        if (bpf_probe_read_user(room->code, CODE_BYTES, (void *)code)) return 1;
        if (!is_unbegun(room, code, entry.position, owner)) {
            entry.code = code;
            entry.tag = mp_attach_tag(word_in(room->code, python->code_name, CODE_BYTES),
                                      word_in(room->code, python->code_file, CODE_BYTES),
                                      word_in(room->code, python->code_lines, CODE_BYTES),
                                      half_in(room->code, python->code_first_line, CODE_BYTES));
        }
        if (!python->chain) entry.marker = 1;
        if (python->chain == CHAIN_ENTRIES && room->frame[python->frame_is_entry & (FRAME_BYTES - 1)]) {
            entry.marker = room->walk_record;
            room->walk_record = read_word(room->walk_record + python->record_previous);
        }
    }
    if (!entry.code && !entry.marker) return 0;
    __u32 at = (count & (MP_ATTACH_PYTHON_MOST - 1)) * sizeof entry;
    *(struct mp_attach_frame *)(room->rest + at) = entry;
    room->head.python_count = count + 1;
    return 0;
}

static __always_inline void walk_python(struct scratch *room)
{
    if (!room->python.runtime) return;
    __u64 thread = find_thread(room, room->head.tid);
    if (!thread) return;
    __u64 top = read_word(thread + room->python.thread_top);
    room->walk_record = top;
    room->walk_frame = room->python.thread_top_record && top ? read_word(top + room->python.record_frame) : top;
    bpf_loop(MP_ATTACH_PYTHON_MOST + 1, next_frame, &room, 0);
}

struct copy {
    struct scratch *room;
    __u64 from, bytes;
    __u32 begin, done;
};

static long next_chunk(__u32 index, void *context)
{
    struct copy *copy = context;
    struct scratch *room = copy->room;
    if (copy->done >= copy->bytes || copy->done >= MP_ATTACH_STACK_MOST) return 1;
    __u32 bytes = MP_ATTACH_CHUNK - ((copy->from + copy->done) & (MP_ATTACH_CHUNK - 1));
    __u32 at = copy->begin + copy->done;
    if (at > PYTHON_BYTES + MP_ATTACH_STACK_MOST || bytes > MP_ATTACH_CHUNK) return 1;
    if (bpf_probe_read_user(room->rest + at, bytes, (void *)(copy->from + copy->done))) return 1;
    copy->done += bytes;
    return 0;
}

/* The stack ends where the thread's own data begins, which glibc puts above it. The first thread's stack ends where the
 * kernel put the arguments. */
static __always_inline void copy_stack(struct scratch *room)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    __u64 sp = room->head.sp, most = ~0ull;
    __u64 first = BPF_CORE_READ(task, mm, start_stack), own = BPF_CORE_READ(task, thread.fsbase);
    if (first > sp) most = first - sp;
    if (own > sp && own - sp < most) most = own - sp;
    struct copy copy = {room, sp, most, room->head.python_count * sizeof(struct mp_attach_frame), 0};
    bpf_loop(MP_ATTACH_STACK_MOST / MP_ATTACH_CHUNK + 1, next_chunk, &copy, 0);
    room->head.stack_bytes = copy.done < most ? copy.done : most;
    room->head.stack_cut = copy.done < most;
}

static __always_inline void count_one(int unpaired)
{
    __u32 zero = 0;
    struct mp_attach_counts *all = bpf_map_lookup_elem(&counts, &zero);
    if (all) __sync_fetch_and_add(unpaired ? &all->unpaired : &all->dropped, 1);
}

/* Counts children of the program. A new thread is no child. */
SEC("raw_tp/sched_process_fork")
int mp_fork(struct bpf_raw_tracepoint_args *made)
{
    struct task_struct *child = (struct task_struct *)made->args[1];
    struct bpf_pidns_info numbers = {0};
    __u32 zero = 0, pid = bpf_get_current_pid_tgid() >> 32;
    struct mp_attach_settings *how = bpf_map_lookup_elem(&settings, &zero);
    struct mp_attach_counts *all = bpf_map_lookup_elem(&counts, &zero);
    if (!how || !all || BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid)) return 0;
    if (how->ids_inode && !bpf_get_ns_current_pid_tgid(how->ids_device, how->ids_inode, &numbers, sizeof numbers))
        pid = numbers.tgid;
    if (pid == how->pid) __sync_fetch_and_add(&all->forked, 1);
    return 0;
}

/* Counts programs that the process puts in its place. */
SEC("raw_tp/sched_process_exec")
int mp_exec(struct bpf_raw_tracepoint_args *made)
{
    struct bpf_pidns_info numbers = {0};
    __u32 zero = 0, pid = bpf_get_current_pid_tgid() >> 32;
    struct mp_attach_settings *how = bpf_map_lookup_elem(&settings, &zero);
    struct mp_attach_counts *all = bpf_map_lookup_elem(&counts, &zero);
    if (!how || !all) return 0;
    if (how->ids_inode && !bpf_get_ns_current_pid_tgid(how->ids_device, how->ids_inode, &numbers, sizeof numbers))
        pid = numbers.tgid;
    if (pid == how->pid) __sync_fetch_and_add(&all->replaced, 1);
    return 0;
}

/* The thread's number in memprof's pid namespace. */
static __always_inline __u32 thread_number(const struct mp_attach_settings *how)
{
    struct bpf_pidns_info numbers = {0};
    if (how->ids_inode && !bpf_get_ns_current_pid_tgid(how->ids_device, how->ids_inode, &numbers, sizeof numbers))
        return numbers.pid;
    return (__u32)bpf_get_current_pid_tgid();
}

static __always_inline void fill(struct scratch *room, const struct mp_attach_settings *how, const struct pt_regs *regs,
                                 __u64 cookie, const struct arguments *arguments, int returned, int popped)
{
    room->head.time_ns = bpf_ktime_get_ns();
    room->head.tid = thread_number(how);
    room->head.probe = cookie & MP_ATTACH_PROBE_MASK;
    for (int i = 0; i < MP_ATTACH_ARGUMENTS; i++)
        room->head.argument[i] = arguments->at[i];
    room->head.result = returned ? regs->rax : 0;
    room->head.out = returned && cookie & MP_ATTACH_OUT ? read_word(arguments->at[0]) : 0;
    __u64 words = returned && cookie & MP_ATTACH_WORDS_2ND   ? arguments->at[1]
                  : returned && cookie & MP_ATTACH_WORDS_3RD ? arguments->at[2]
                                                             : 0;
    for (int i = 0; i < MP_ATTACH_WORDS; i++)
        room->head.words[i] = words ? read_word(words + i * sizeof(__u64)) : 0;
    room->head.ip = popped ? regs->rip : read_word(regs->rsp);
    room->head.sp = popped ? regs->rsp : regs->rsp + 8;
    room->head.bp = regs->rbp;
    room->head.bx = regs->rbx;
    room->head.r12 = regs->r12;
    room->head.r13 = regs->r13;
    room->head.r14 = regs->r14;
    room->head.r15 = regs->r15;
    room->head.stack_bytes = room->head.python_count = room->head.python_cut = room->head.stack_cut = 0;
    bpf_get_current_comm(room->head.name, sizeof room->head.name);
}

/* 1 - exp(-size / mean), times 2^32. */
static __always_inline __u64 share_kept(__u64 size, __u64 mean)
{
    __u64 whole = size / mean, rest = (size % mean << 32) / mean, left = 1ull << 32;
    if (whole > 22) return 1ull << 32;
    for (__u32 k = 12; k > 0; k--)
        left = (1ull << 32) - (rest * left >> 32) / k;
    for (__u32 i = 0; i < 22; i++)
        if (i < whole) left = left * 1580030169 >> 32; /* exp(-1) */
    return (1ull << 32) - left;
}

/* True if the event's block is in the sample. */
static __always_inline int is_sampled(const struct mp_attach_settings *how, __u64 cookie,
                                      const struct arguments *arguments)
{
    __u64 address = arguments->at[0];
    __s64 bytes = arguments->at[1];
    __u8 one = 1;
    if (!(cookie & MP_ATTACH_STACK) || bytes < 0) return !bpf_map_delete_elem(&kept, &address);
    if (!address || bpf_get_prandom_u32() >= share_kept(bytes, how->sample_bytes)) return 0;
    if (!bpf_map_update_elem(&kept, &address, &one, BPF_ANY)) return 1;
    count_one(0);
    return 0;
}

/* At a call's first instruction, and at its returning instruction, the return address is on top of the stack, unless it
 * is already `popped`. */
static __always_inline int send(struct pt_regs *regs, __u64 cookie, const struct arguments *arguments, int returned,
                                int popped)
{
    __u32 zero = 0;
    struct mp_attach_settings *how = bpf_map_lookup_elem(&settings, &zero);
    struct mp_attach_counts *all = bpf_map_lookup_elem(&counts, &zero);
    struct scratch *room = NULL;
    __u64 begun = bpf_ktime_get_ns();
    if (all && all->replaced) return 0; /* the probes see the program in its place, too */
    if (how && how->sample_bytes && cookie & MP_ATTACH_SAMPLED && !is_sampled(how, cookie, arguments)) return 0;
    for (__u32 i = 0; i < SCRATCHES && !room; i++) {
        __u32 number = bpf_get_smp_processor_id() * SCRATCHES + i;
        room = bpf_map_lookup_elem(&scratches, &number);
        if (room && __sync_lock_test_and_set(&room->busy, 1)) room = NULL;
    }
    if (!how || !room) {
        count_one(0);
        return 0;
    }
    fill(room, how, regs, cookie, arguments, returned, popped);
    /* Frees are reported with a negative size. */
    int is_free = !returned && (__s64)arguments->at[1] < 0;
    if (cookie & MP_ATTACH_STACK && (!is_free || how->free_stacks)) {
        room->python = how->python;
        walk_python(room);
        copy_stack(room);
    }
    __u64 bytes = sizeof room->head + room->head.python_count * sizeof(struct mp_attach_frame) + room->head.stack_bytes;
    if (bytes > sizeof room->head + PYTHON_BYTES + MP_ATTACH_STACK_MOST) bytes = sizeof room->head;
    if (bpf_ringbuf_output(&ring, room, bytes, 0)) count_one(0);
    __sync_lock_test_and_set(&room->busy, 0);
    if (all && how->measures) {
        __sync_fetch_and_add(&all->events, 1);
        __sync_fetch_and_add(&all->spent_ns, bpf_ktime_get_ns() - begun);
    }
    return 0;
}

/* Each register is read once, by a fixed offset, as the verifier demands. */
static __always_inline struct arguments arguments_of(const volatile struct pt_regs *regs, __u64 cookie)
{
    __u64 given[MP_ATTACH_ARGUMENTS + 1] = {regs->rdi, regs->rsi, regs->rdx, regs->rcx, regs->r8, regs->r9};
    struct arguments arguments;
    for (int i = 0; i < MP_ATTACH_ARGUMENTS; i++)
        arguments.at[i] = cookie & MP_ATTACH_METHOD ? given[i + 1] : given[i];
    return arguments;
}

static __always_inline __u64 key_of(__u64 cookie)
{
    return (bpf_get_current_pid_tgid() & 0xffffffff) << 8 | (cookie & MP_ATTACH_PROBE_MASK);
}

SEC("uprobe")
int mp_enter(struct pt_regs *regs)
{
    __u64 cookie = bpf_get_attach_cookie(regs), key = key_of(cookie);
    struct arguments arguments = arguments_of(regs, cookie);
    if (!(cookie & MP_ATTACH_RETURNS)) return send(regs, cookie, &arguments, 0, 0);
    if (bpf_map_update_elem(&calls, &key, &arguments, BPF_ANY)) count_one(1);
    return 0;
}

static __always_inline int leave(struct pt_regs *regs, int popped)
{
    __u64 cookie = bpf_get_attach_cookie(regs), key = key_of(cookie);
    struct arguments *known = bpf_map_lookup_elem(&calls, &key);
    if (!known) return 0; /* the call began before memprof attached */
    struct arguments arguments = *known;
    bpf_map_delete_elem(&calls, &key);
    return send(regs, cookie, &arguments, 1, popped);
}

/* Runs at the instruction that returns from a function. */
SEC("uprobe")
int mp_leave(struct pt_regs *regs)
{
    return leave(regs, 0);
}

SEC("uretprobe")
int mp_returned(struct pt_regs *regs)
{
    return leave(regs, 1);
}
