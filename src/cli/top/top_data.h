/*
 * The processes that are being recorded, as their collectors describe them (collect/session/overview.h), and how
 * they are shown: one row for each device of each process. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "base/vec.h"

/* A process's memory on one device, from PyTorch's allocator, else from the program's own pools, else from the driver.
 */
struct mp_top_device {
    uint8_t type; /* enum mp_device_type */
    int index;
    char label[24]; /* "cuda:0", "cpu" */
    uint64_t allocated, peak;
    uint64_t reserved;             /* reserved by PyTorch's allocator, else on the driver's tracks; MP_BYTES_UNKNOWN:
                                    * unknown */
    uint64_t used, total, process; /* device: bytes used by all, total, used by this process. CPU: resident and total
                                    * memory of the machine */
};

enum mp_top_fate {
    MP_TOP_RUNS,
    MP_TOP_SILENT, /* its collector does not answer at the moment */
    MP_TOP_ENDED,
    MP_TOP_ORPHAN, /* the process runs, but its collector has ended */
};

/* The growth of a device's tracks per step, and whether the rule found a leak on them. */
struct mp_top_growth {
    char label[24];
    bool known, leak;
    double bytes_per_step;
};

struct mp_top_process {
    uint64_t recording; /* the recording's number, since pids are reused */
    uint32_t session;   /* number of the socket's path */
    pid_t pid, memprof, command_pid;
    char *title;                /* "train.py" */
    char *rank, *role, *failed; /* NULL: none */
    bool helper;                /* it works for another process, and has that process's rank */
    bool paused;
    uint64_t steps; /* MP_BYTES_UNKNOWN: no steps yet */
    double rate;    /* steps per second; negative: not known */
    uint64_t resident;
    MP_VEC(struct mp_top_device) devices; /* devices on which the process has memory, GPUs first */
    enum mp_top_fate state;
    uint64_t gone_ns;      /* when the process was first missing */
    uint64_t judged_steps; /* number of steps when the leak rule last judged it; 0: not yet */
    MP_VEC(struct mp_top_growth) growths;
};

struct mp_top_processes {
    struct mp_top_process *at;
    size_t count, room;
};

/* Appends the processes of an overview. MP_DAMAGED if `text` is no overview. */
enum mp_status mp_top_overview_read(const char *text, uint32_t session, struct mp_top_processes *processes,
                                    struct mp_error *error);
void mp_top_processes_copy(const struct mp_top_processes *from, struct mp_top_processes *to);
void mp_top_processes_free(struct mp_top_processes *processes);
void mp_top_process_free(struct mp_top_process *process);

/* The growth on a device; NULL: the process was not judged. */
const struct mp_top_growth *mp_top_growth_of(const struct mp_top_process *process, const char *label);
/* The process's bytes on the device on which it has most. The machine's own memory counts only if there are no GPUs. */
uint64_t mp_top_weight(const struct mp_top_process *process);
/* Sorts by rank, then by the order of pids. */
void mp_top_processes_sort(struct mp_top_processes *processes);
