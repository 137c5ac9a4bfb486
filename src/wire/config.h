/*
 * Settings that the collector gives the recorder, in two texts. An environment variable, which children inherit, says
 * where to connect. The spool's header says how to record.
 *
 *     MEMPROF_SESSION=1;/path/of/the/socket
 *     native,python;depth=256;cpu=1;wait=1
 *
 * Never allocates; may be used in the program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_SESSION_VARIABLE "MEMPROF_SESSION"
#define MP_SESSION_VERSION  '1'
/* The CUDA driver reads the first variable in cuInit(), NVTX the second. Each names the library that gets callbacks. */
#define MP_CUDA_VARIABLE "CUDA_INJECTION64_PATH"
#define MP_NVTX_VARIABLE "NVTX_INJECTION64_PATH"
/* "libunwind": libunwind walks native stacks. The recorder needs this before the session answers. */
#define MP_UNWIND_VARIABLE "MEMPROF_UNWIND"
/* The beginnings of LD_PRELOAD and PYTHONPATH. The recorder puts it back where a program sets these variables anew
 * (capture/entry/environment.h). */
#define MP_PRELOAD_VARIABLE "MEMPROF_PRELOAD"
#define MP_PYTHON_VARIABLE  "MEMPROF_PYTHON"
#define MP_ASAN_OPTION      "verify_asan_link_order=0"
/* An engine gave the process the session's variables: its work was given by another process of the session. */
#define MP_WORKER_VARIABLE "MEMPROF_WORKER"
/* Ray calls the function that this variable names with the environment of each job's workers. */
#define MP_RAY_VARIABLE "RAY_RUNTIME_ENV_HOOK"
#define MP_RAY_HOOK     "libmemprof_ray.hook"

#define MP_STEP_RANGE_ROOM 256
#define MP_STEP_AT_ROOM    128
#define MP_PLAN_ROOM       256

struct mp_record_config {
    bool native_stacks, python_stacks, free_stacks;
    bool libunwind; /* libunwind walks native stacks, instead of memprof's own rules */
    bool torch, cpu_tensors;
    bool cupti, hooks;   /* ways to see the driver's calls: CUPTI if it is free, else hooks */
    bool cpu_throughout; /* false: CPU tensors are recorded only until a block on another device comes */
    bool wait_when_full;
    bool follow;           /* children and exec'ed programs too */
    bool attached;         /* memprof attached to a running program: earlier blocks are not recorded */
    bool paused;           /* recording waits until the program calls start */
    bool force;            /* a file that the program asks for may replace an existing one */
    bool shim;             /* python/libmemprof_torch asks PyTorch for its own data */
    bool holders;          /* look for holders of tensors also at steps, not only at the end */
    bool holders_share;    /* looks keep within a share of the run's time: --budget was not given */
    bool operators;        /* the log of PyTorch's operators and their tensors */
    bool torch_history;    /* requests to PyTorch's CUDA allocator: requested bytes, stream, pool */
    bool untried_history;  /* torch_history also on versions of PyTorch on which it was never tested */
    uint32_t max_events;   /* number of the newest events that the file keeps; 0: all */
    uint32_t sample_bytes; /* layers torch and app: mean bytes between two samples (base/sampling.h); 0: all blocks */
    uint32_t host_bytes;   /* the C allocator: mean bytes between two samples; 0: no blocks */
    uint32_t holders_ms;   /* the most time that a look for holders may take */
    uint32_t operators_from, operators_to; /* the steps whose operators are logged, from 1; 0: all. The recorder does
                                            * not need them */
    uint32_t depth;                        /* the most frames of a stack: three quarters inner, one quarter outer */

    char step_range[MP_STEP_RANGE_ROOM]; /* which regions are steps (base/step_rule.h). In the text only if not empty;
                                          * the recorder does not need it and does not parse it */
    char plan[MP_PLAN_ROOM];             /* of `memprof plan`: device|total|context|values|devices|rank|world; or "" */
    char step_at[MP_STEP_AT_ROOM];       /* the function whose calls are steps; in the text if not empty */
};

/* The minor versions of CPython 3 whose frames the recorder knows (capture/python/layout.c). */
#define MP_PYTHON_MINOR_FIRST 9
#define MP_PYTHON_MINOR_LAST  15

#define MP_HOLDERS_MS      200
#define MP_HOLDERS_MS_MOST 2000       /* the highest value for --budget; the default after a suspected leak */
#define MP_HOLDERS_GIVEN   (1 << 30)  /* with the milliseconds: the user chose them by --budget */
#define MP_HOLDERS_SHORT   (1u << 31) /* with the milliseconds: a look at the program's own names will do */

#define MP_HOST_MEAN (512u << 10) /* as jemalloc and tcmalloc sample by default */

#define MP_DEPTH_DEFAULT 256
#define MP_DEPTH_MAX     4096

void mp_record_config_defaults(struct mp_record_config *config);
/* Writes `config` as key=value pairs, separated by ';'. Returns false if `room` is too small. */
bool mp_record_config_format(const struct mp_record_config *config, char *text, size_t room);
/* Ignores unknown keys, since an older recorder may get the text from a newer collector. */
void mp_record_config_parse(const char *text, struct mp_record_config *config);

/* The greeting that a process sends on the session's socket, and the collector's answer. SCM_RIGHTS brings the
 * descriptors of the spool and of the doorbell with the answer, in this order. If there are none, this process is not
 * to be recorded. */
#define MP_GREETING_MAGIC UINT32_C(0x6d706869)
struct mp_greeting {
    uint32_t magic, version;
    uint64_t monotonic_ns; /* the sender's clock */
};
struct mp_greeting_answer {
    uint32_t magic, version;
    uint64_t file_bytes;
    int64_t clock_shift_ns; /* to be added to the process's clock, which differs in a time namespace */
};

/* A process that cannot be recorded leaves a folder, because a folder needs no descriptor. Its name consists of the
 * socket's name, this suffix, and three numbers, each with a dot behind it: its errno, its pid, and the pid of the
 * nearest ancestor with a recorder in its memory (0: none). The process's name follows, with at most MP_PROCESS_NAME
 * letters. */
#define MP_REFUSED_SUFFIX ".refused."
#define MP_REFUSED_FORM   "%03d.%010u.%010u."
#define MP_PROCESS_NAME   16

/* A forked child may be unable to make even that folder, for instance as another user or in another root. It then fills
 * a row in the doorbell, a page that it has from its parent. */
struct mp_unreached {
    _Atomic uint32_t pid; /* written last; 0: the row is not filled yet */
    uint32_t above;
    int32_t reason; /* an errno, or enum mp_unreached_reason (collect/session/unreached.h), or MP_UNREACHED_CLONE */
    char name[MP_PROCESS_NAME];
};

#define MP_UNREACHED_CLONE (-6) /* fork's handlers did not run in the child, or ran inside a hook */

/* The doorbell: one page for all processes of a session. A recorder increments `rings` and wakes the collector, which
 * sleeps on it. */
#define MP_DOORBELL_BYTES 4096
#define MP_UNREACHED_MOST 128
struct mp_doorbell_page {
    _Atomic uint32_t rings;
    _Atomic uint32_t unreached; /* rows that were begun, and processes that found no row */
    struct mp_unreached rows[MP_UNREACHED_MOST];
};
_Static_assert(sizeof(struct mp_doorbell_page) <= MP_DOORBELL_BYTES, "the doorbell is one page");
