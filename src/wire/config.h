/*
 * Settings that the collector gives the recorder. They travel twice: where to connect, in one environment variable that
 * children inherit; how to record, as text in the spool's header.
 *
 *     MEMPROF_SESSION=1;/path/of/the/socket
 *     native,python;depth=256;cpu=1;wait=1
 *
 * Never allocates; may be used in the program.
 */
#ifndef MP_WIRE_CONFIG_H
#define MP_WIRE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_SESSION_VARIABLE "MEMPROF_SESSION"
#define MP_SESSION_VERSION  '1'
/* Read by the CUDA driver in cuInit(), and by NVTX: the library that gets their callbacks. */
#define MP_CUDA_VARIABLE "CUDA_INJECTION64_PATH"
#define MP_NVTX_VARIABLE "NVTX_INJECTION64_PATH"
/* "libunwind": that library walks native stacks. Needed before the session answers. */
#define MP_UNWIND_VARIABLE "MEMPROF_UNWIND"

#define MP_STEP_RANGE_ROOM 256
#define MP_STEP_AT_ROOM    128
#define MP_PLAN_ROOM       256

struct mp_record_config {
    bool native_stacks, python_stacks, free_stacks;
    bool libunwind; /* walks native stacks, in place of memprof's own rules */
    bool torch, cpu_tensors;
    bool cupti, hooks;   /* the CUDA driver's calls: through CUPTI where it is free, else through the hooks */
    bool cpu_throughout; /* else CPU tensors only until a block on another device is seen */
    bool wait_when_full;
    bool follow;           /* children and exec'ed programs too */
    bool attached;         /* memprof came to a program that already ran: what lived before is not recorded */
    bool paused;           /* until the program calls start */
    bool force;            /* a file that the program asks for may replace one */
    bool shim;             /* python/libmemprof_torch asks PyTorch for its own data */
    bool holders;          /* look for holders of tensors at steps, too, not only at the end */
    bool torch_history;    /* of that data, the requests to its CUDA allocator: requested bytes, stream, pool */
    bool untried_history;  /* also on versions of PyTorch on which that was never really run */
    uint32_t max_events;   /* the number of newest events that the file keeps; 0: all */
    uint32_t sample_bytes; /* of the layers torch and app, sample one in so many bytes (base/sampling.h); 0: all */
    uint32_t host_bytes;   /* the C allocator's blocks, one in so many bytes; 0: none of them */
    uint32_t holders_ms;   /* that a look for what holds tensors may take */
    uint32_t depth;        /* frames kept of a stack: three quarters inner, one quarter outer */

    char step_range[MP_STEP_RANGE_ROOM]; /* which regions are steps (base/step_rule.h). Part of the text where it is not
                                          * empty; the recorder has no use for it and does not parse it */
    char plan[MP_PLAN_ROOM];       /* for `memprof plan`: device|total|context|values|devices|rank|world; likewise */
    char step_at[MP_STEP_AT_ROOM]; /* the function whose calls are steps; part of the text where it is not empty */
};

/* The minor versions of CPython 3 whose frames the recorder knows (capture/python/layout.c). */
#define MP_PYTHON_MINOR_FIRST 9
#define MP_PYTHON_MINOR_LAST  15

#define MP_HOLDERS_MS      200
#define MP_HOLDERS_MS_MOST 2000 /* also of a look where a leak is suspected, unless --budget says otherwise */

#define MP_HOST_MEAN (512u << 10) /* as jemalloc and tcmalloc sample by default */

#define MP_DEPTH_DEFAULT 256
#define MP_DEPTH_MAX     4096

void mp_record_config_defaults(struct mp_record_config *config);
/* Writes key=value pairs, separated by ';'. Returns false where `room` is too small. */
bool mp_record_config_format(const struct mp_record_config *config, char *text, size_t room);
/* Passes over unknown keys: an older recorder may meet a newer collector. */
void mp_record_config_parse(const char *text, struct mp_record_config *config);

/* The greeting that a process sends on the session's socket, and the answer. With the answer come the descriptors of
 * the spool and of the doorbell as SCM_RIGHTS, in this order. No descriptors: this process is not to be recorded. */
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

/* A process that cannot be recorded leaves a folder, which needs no descriptor. It is named after the socket, this
 * suffix, and three numbers with a dot behind each: its errno, its pid, and the pid of the nearest process above it in
 * whose memory the recorder was at work (0: none). The process's name ends it, with MP_PROCESS_NAME letters at most. */
#define MP_REFUSED_SUFFIX ".refused."
#define MP_REFUSED_FORM   "%03d.%010u.%010u."
#define MP_PROCESS_NAME   16

/* A forked child that cannot even make that folder, as one of another user or in another root, fills a row of the
 * doorbell, which it has from its parent. */
struct mp_unreached {
    _Atomic uint32_t pid; /* written last; 0: not yet */
    uint32_t above;
    int32_t reason;
    char name[MP_PROCESS_NAME];
};

/* The doorbell: one page for all processes of a session. A recorder increments `rings` and wakes the collector, which
 * sleeps on it. */
#define MP_DOORBELL_BYTES 4096
#define MP_UNREACHED_MOST 128
struct mp_doorbell_page {
    _Atomic uint32_t rings;
    _Atomic uint32_t unreached; /* rows begun, and processes that found none */
    struct mp_unreached rows[MP_UNREACHED_MOST];
};
_Static_assert(sizeof(struct mp_doorbell_page) <= MP_DOORBELL_BYTES, "the doorbell is one page");

#endif
