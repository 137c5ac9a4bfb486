/*
 * What a recording of `memprof plan` says of itself: the device that was imitated, what was read back from it though
 * nobody computed it, and what takes memory beside PyTorch, estimated. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_PLAN_H
#define MP_ANALYSIS_PLAN_H

#include "base/vec.h"
#include "model/model.h"

/* How values that came back from the device may have changed what was planned. */
enum mp_plan_use {
    MP_PLAN_VALUE, /* a value that the program looked at: .item(), .cpu(), a copy */
    MP_PLAN_WAY,   /* a truth: a condition went one way */
    MP_PLAN_SIZE,  /* how many there are: nonzero(), unique(), a mask */
    MP_PLAN_USES
};

struct mp_plan_read_back {
    uint32_t stack; /* of the first time; others that come through the same line of the user's code are counted too */
    uint32_t place; /* that line's frame; MP_NONE: no Python */
    uint64_t count, bytes;
    enum mp_plan_use use;
};

struct mp_plan_estimate {
    const char *name, *source;
    uint64_t bytes; /* MP_BYTES_UNKNOWN: nobody knows */
};

struct mp_plan {
    bool planned; /* else nothing below holds */
    bool hidden;  /* the program saw no device, by CUDA_VISIBLE_DEVICES */
    char device[64], values[16], torch[128];
    double selected;      /* the share of the elements that a condition selects */
    uint64_t total_bytes; /* of each device */
    unsigned devices, rank, world;
    MP_VEC(struct mp_plan_read_back) read_backs; /* those that decide sizes first, then by count */
    MP_VEC(struct mp_plan_estimate) estimated;
    uint64_t estimated_bytes, read_back_count;
};

void mp_plan_find(const struct mp_model *model, struct mp_plan *plan);
void mp_plan_free(struct mp_plan *plan);
/* Truths and counts that are read back follow the names of kernels, which are those of PyTorch 2.6: false where another
 * version ran and such were read. */
bool mp_plan_kernels_known(const struct mp_plan *plan);
/* "size", "way", "value" */
const char *mp_plan_use_name(enum mp_plan_use use);
/* What such a value does, for people: "decides how much there is" */
const char *mp_plan_use_text(enum mp_plan_use use);

#endif
