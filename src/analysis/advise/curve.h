/* Allocated and reserved bytes over a replay, in a bounded number of points. */
#pragma once

#include "analysis/allocator/torch_replay.h"

/* The most points of a curve. In longer replays, each group of steps has two points: its highest, and its last. */
#define MP_CURVE_POINTS 2048

/* The point holds from just before this event of the model on. The number of events means the end. */
struct mp_curve_point {
    uint32_t event;
    uint64_t allocated, reserved;
};

struct mp_curve {
    struct mp_curve_point *at;
    size_t count, room;
};

/* Makes a curve during a replay. */
struct mp_curve_maker {
    struct mp_curve *curve;
    uint32_t *before;   /* by step: the step has happened before this event, and the next step has not */
    size_t group, seen; /* steps that share two points; steps seen in the current group */
    struct mp_curve_point fullest, last;
};

/* `curve` starts empty. The replay must be of `history`. */
void mp_curve_start(struct mp_curve_maker *maker, const struct mp_model *model, const struct mp_torch_history *history,
                    struct mp_curve *curve);
/* A mp_torch_watch whose context is the maker. */
void mp_curve_watch(void *maker, size_t step, uint64_t allocated, uint64_t reserved);
void mp_curve_end(struct mp_curve_maker *maker);
