/*
 * The facts that a recording by `memprof plan` has about itself: the imitated device, values that were read back
 * although nothing computed them, and estimated memory outside of PyTorch. Pure; the result is the caller's.
 */
#pragma once

#include "base/buffer.h"
#include "base/vec.h"
#include "model/model.h"

/* How a value that was read back may affect the plan. */
enum mp_plan_use {
    MP_PLAN_VALUE, /* a value for the program: .item(), .cpu(), a copy */
    MP_PLAN_WAY,   /* a truth value: a condition took one branch */
    MP_PLAN_SIZE,  /* a count: nonzero(), unique(), a mask */
    MP_PLAN_USES
};

/* The origin of a value that was read back. */
enum mp_plan_origin {
    MP_PLAN_MADE_UP,  /* as --values says */
    MP_PLAN_SPREAD,   /* a guess: choices and conditions, spread evenly */
    MP_PLAN_RECEIVED, /* of another rank: what this rank has */
    MP_PLAN_ORIGINS
};

struct mp_plan_read_back {
    uint32_t stack; /* stack of the first read; reads through the same line of the user's code count here, too */
    uint32_t place; /* frame of that line; MP_NONE: no Python */
    uint64_t count, bytes;
    enum mp_plan_use use;
    enum mp_plan_origin origin; /* if reads differ: the last one in the enumeration */
};

struct mp_plan_estimate {
    const char *name, *source;
    uint64_t bytes; /* MP_BYTES_UNKNOWN: an unknown amount */
};

/* A function of the driver or of NVIDIA's libraries that the stand-in GPU does not imitate. */
struct mp_plan_missing {
    const char *name; /* "libcudart's cudaArrayGetInfo()"; the model's */
    uint32_t stack;   /* of its first call */
};

/* XLA's own numbers of its memory (libmemprof_plan/xla.py), in bytes. A program may be one of many. */
struct mp_plan_xla {
    char version[32];                              /* JAX's; "": no JAX */
    char program[64];                              /* the compiled program with the highest peak; "": none */
    uint64_t peak, arguments, output, temporaries; /* of that program */
    uint64_t held, limit;                          /* its allocator's peak, and how much it may hold; 0: not known */
    bool ran_out;
};

struct mp_plan {
    bool planned;   /* false: the fields below have no meaning */
    bool hidden;    /* CUDA_VISIBLE_DEVICES hid all devices from the program */
    bool stepped;   /* an optimizer stepped, or the program marked steps */
    bool has_torch; /* PyTorch ran, in Python or in C++ */
    char device[64], values[16], torch[128];
    struct mp_plan_xla xla;
    double selected;      /* share of elements that a condition selects */
    uint64_t total_bytes; /* of each device */
    unsigned devices, rank, world;
    MP_VEC(struct mp_plan_read_back) read_backs; /* first the ones that decide sizes, then by count */
    MP_VEC(struct mp_plan_estimate) estimated;
    MP_VEC(struct mp_plan_missing) missing;
    struct mp_plan_missing waited; /* "rank 0 waited in vain for rank 1"; name NULL: no rank did */
    uint64_t estimated_bytes, read_back_count;
};

/* "PyTorch 2.7.1, ", "JAX 0.10.2, ", "PyTorch unknown, ", or "" without either. */
const char *mp_plan_framework(const struct mp_plan *plan, char *room, size_t bytes);
void mp_plan_find(const struct mp_model *model, struct mp_plan *plan);
/* True if a plan made the recording: nothing in it needed a GPU. */
bool mp_plan_made(const struct mp_model *model);
void mp_plan_free(struct mp_plan *plan);
/* The versions of PyTorch on which tests/plan passes, with their CUDA, and JAX's. In PyTorch the names of kernels show
 * whether a value is read back as a truth or as a count. */
#define MP_PLAN_TORCH "2.6, 2.7, 2.9, 2.11, 2.13 and 2.15"
#define MP_PLAN_CUDA  "12.4, 12.6, 12.8, 13.0 and 13.2"
#define MP_PLAN_JAX   "0.10"
/* Appends the versions that ran and are none of these: "PyTorch 2.8.0+cu128 (only with 2.6, ... and 2.15)". False:
 * none. */
bool mp_plan_untried(const struct mp_plan *plan, struct mp_buffer *out);
/* False if another version of PyTorch than MP_PLAN_TORCH's ran and values were read back as truths or counts. */
bool mp_plan_kernels_known(const struct mp_plan *plan);
/* "size", "way", "value" */
const char *mp_plan_use_name(enum mp_plan_use use);
/* The effect in words, for people: "decides how much there is" */
const char *mp_plan_use_text(enum mp_plan_use use);
/* "made up", "spread", "received" */
const char *mp_plan_origin_name(enum mp_plan_origin origin);
/* Continues the effect, for people: ", of another rank"; "" for values that are made up. */
const char *mp_plan_origin_text(enum mp_plan_origin origin);
/* The kind of the values that were read: "zeros", "guessed" or "zeros or guessed". */
const char *mp_plan_values_text(const struct mp_plan *plan, char *room, size_t bytes);
