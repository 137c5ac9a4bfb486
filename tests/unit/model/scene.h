/*
 * Random recordings for tests, fed to the builder chunk by chunk, with the truth about them in the plainest form.
 * Models and analyses are compared with this oracle. The questions below are answered by looking at every block, one by
 * one.
 */
#pragma once

#include "base/vec.h"
#include "model/model.h"

#define SCENE_TRACKS     3
#define SCENE_THREADS    2
#define SCENE_LANE       2 /* no thread: only regions are on it */
#define SCENE_STACKS     24
#define SCENE_NAMES      4 /* of regions: string ids from SCENE_FIRST_NAME */
#define SCENE_FIRST_NAME 3

/* A block as it really was. */
struct scene_block {
    uint16_t track;
    uint8_t kind;
    uint32_t stack, module; /* module: a string id, 0 for none */
    int64_t born, died;     /* events; -1: before the first, INT64_MAX: never */
    uint64_t bytes[8];      /* its sizes in order; the first is MP_BYTES_UNKNOWN if it is unknown */
    int64_t since[8];       /* the event from which on each size holds */
    size_t sizes;
    uint32_t role[4], label[4]; /* its labels in order */
    int64_t said[4];            /* the number of events before each label */
    size_t labels;
};

struct scene {
    uint64_t random;
    bool later; /* the next event must have a stamp of its own */
    MP_VEC(struct scene_block) blocks;
    MP_VEC(struct mp_event) events;
    MP_VEC(struct mp_base_block) base;
    MP_VEC(struct mp_label) labels;
    struct mp_model *model;
};

/* A recording of `count` events, or some more, the same for the same seed. */
void scene_make(struct scene *scene, uint64_t seed, size_t count);
void scene_free(struct scene *scene);
/* PyTorch's facts about a block: with 0 bytes there are none. Every third block has them in bases alone. */
struct mp_request scene_request(size_t block);
/* The stack of the block's free, if it is freed; 0: unknown. */
uint32_t scene_freed_at(size_t block);
uint64_t scene_random(struct scene *scene, uint64_t below);

/* Frame N of the scene is that of stack node N: line N of file "gpu", in function "f" where 3 divides N, else "g". */

/* A moment is a number of events that have happened. */
bool scene_lives(const struct scene_block *block, int64_t moment);
uint64_t scene_bytes(const struct scene_block *block, int64_t moment); /* MP_BYTES_UNKNOWN if not known */
uint64_t scene_level(const struct scene *scene, uint16_t track, int64_t moment);
size_t scene_live(const struct scene *scene, uint16_t track, int64_t moment);
