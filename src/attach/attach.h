/*
 * `memprof attach`: records a program that already runs, from outside. Kernel probes (uprobes with BPF) are set at the
 * functions through which every block of PyTorch's allocators and of CUDA's driver passes. memprof unwinds copies of
 * the stacks. Nothing is put into the program, and nothing stays when memprof ends, however it ends. Events go through
 * memprof's own spool into a file, by the same code as for a program that was started under memprof. One call, on the
 * main thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/session/collector.h"

struct mp_attach_options {
    uint32_t pid;
    const char *output; /* absolute */
    bool is_child;      /* of a process that another memprof is attached to: it takes less of the kernel's memory */
    bool chosen;        /* memprof chose the file's name */
    bool force, symbols, keep_command;
    double overhead_most; /* share of one processor's time that probes may take from the program; 0: no bound */
    uint64_t for_ns;      /* duration; 0: until a signal, or the program's end */
    struct mp_record_config record;
    void (*say)(void *context, const char *sentence); /* for people: what the program lacks, and what happened */
    /* Called for a child that can be attached to; false: it is not recorded. NULL: children are only counted. */
    bool (*child)(void *context, uint32_t pid);
    void (*attached)(void *context, unsigned probes, uint64_t took_ns); /* recording has begun */
    void *context;
};

/* Records until the time is over, SIGINT, SIGTERM or SIGHUP comes, or the program ends. MP_OK: result->recordings has
 * the recording, if the program allocated. Any other status: nothing was attached. */
enum mp_status mp_attach_run(const struct mp_attach_options *options, struct mp_collector_result *result,
                             struct mp_error *error);
