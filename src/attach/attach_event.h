/*
 * Types shared by the kernel's side (attach.bpf.c) and memprof's side: settings for the kernel's side, events for
 * memprof's side. Plain C without other headers of memprof, since clang also compiles it for BPF.
 *
 * An event is its head, `python_count` Python frames and `stack_bytes` bytes of the thread's stack from head.sp on.
 */
#pragma once

#include <linux/types.h>

/* A probe's cookie: the probe's number in the table of attach_driver.h, and these bits. */
#define MP_ATTACH_PROBE_MASK 0xff
#define MP_ATTACH_RETURNS    0x100  /* the event is complete when the call returns */
#define MP_ATTACH_STACK      0x200  /* the event carries a stack */
#define MP_ATTACH_OUT        0x400  /* the first argument points to a result */
#define MP_ATTACH_SAMPLED    0x800  /* if there is a sample, its blocks are sampled */
#define MP_ATTACH_METHOD     0x1000 /* the first argument is the object, which is left out */
#define MP_ATTACH_WORDS_2ND  0x2000 /* the second argument points to more words, or the third */
#define MP_ATTACH_WORDS_3RD  0x4000

#define MP_ATTACH_STACK_MOST  32768 /* bytes copied of a stack: a multiple of the chunk */
#define MP_ATTACH_CHUNK       1024  /* bytes copied at once: a chunk never crosses a page */
#define MP_ATTACH_PYTHON_MOST 256
#define MP_ATTACH_ARGUMENTS   5
#define MP_ATTACH_WORDS       5
#define MP_ATTACH_SCRATCHES   4 /* events that can be under way on one CPU at a time */
#define MP_ATTACH_SAMPLE_MOST (1u << 30)

/* One entry of a chain of Python frames, innermost first. */
struct mp_attach_frame {
    __u64 code;     /* the code object; 0: the entry only ends a group */
    __u64 position; /* from the frame: a pointer (3.11 on) or an index */
    __u64 tag;      /* fields of the code object, to distinguish it from a later one at its address */
    __u64 marker;   /* not 0: ends the group of frames that one C call of the interpreter runs. It is an address in that
                     * C frame, or 1 in versions without one */
};

struct mp_attach_event {
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u32 tid;
    __u32 probe;
    __u64 argument[MP_ATTACH_ARGUMENTS];
    __u64 result, out, words[MP_ATTACH_WORDS]; /* after the call */
    __u64 ip, sp, bp, bx, r12, r13, r14, r15;  /* registers of the probed function's caller */
    __u32 stack_bytes;
    __u32 python_count;
    __u32 python_cut; /* 1: there are more frames */
    __u32 stack_cut;
    char name[16]; /* the thread's name */
};

/* Offsets for one Python version, in bytes; struct mp_python_layout explains them. */
struct mp_attach_python {
    __u64 runtime; /* the address of _PyRuntime; 0: no Python frames */
    __u32 interpreters, threads_head, thread_next, thread_id;
    __u32 thread_top, thread_top_record, record_frame, record_previous;
    __u32 frame_previous, frame_code, frame_position, frame_owner, frame_is_entry;
    __u32 code_name, code_file, code_lines, code_first_line, code_bytecode, code_first_traceable;
    __u32 position_is_index, chain, unused;
};

struct mp_attach_settings {
    __u64 ids_device, ids_inode; /* the pid namespace that numbers the threads; 0: the machine's */
    __u32 pid;                   /* the program's, in that namespace */
    __u32 free_stacks, measures; /* measures: counts the time of events */
    __u64 sample_bytes;          /* the mean (base/sampling.h); 0: every block is recorded */
    struct mp_attach_python python;
};

struct mp_attach_counts {
    __u64 dropped;          /* events dropped because the ring was full, or because too many handlers were interrupted
                             * on one CPU */
    __u64 unpaired;         /* calls whose arguments found no room until their return */
    __u64 events, spent_ns; /* while `measures` */
    __u64 forked;           /* processes that the program started */
    __u64 replaced;         /* programs that it put in its place (exec) */
};

static inline __u64 mp_attach_tag(__u64 name, __u64 file, __u64 lines, __u32 first_line)
{
    return name * 0x9fb21c651e98df25ull + file * 0xd6e8feb86659fd93ull + lines * 0xa0761d6478bd642full +
           first_line * 0x1d8e4e27c47d124full;
}
