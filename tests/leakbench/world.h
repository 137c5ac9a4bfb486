/*
 * Artificial recordings for the bench, with the truth about their leaks: a program's allocations as a list of events,
 * given to the model's builder at the end. If memory runs out, it ends the program. One thread.
 */
#pragma once

#include "analysis/leaks/leaks.h"
#include "base/vec.h"
#include "model/model.h"

enum world_track { W_TORCH, W_DRIVER, W_APP, W_TRACKS };

/* A place of the artificial program: the user's line that calls it. Several stacks may share it. */
struct world_place {
    bool leaks;             /* truth */
    uint64_t bytes, blocks; /* leaked, without the last birth */
    uint32_t births, first_step, last_step;
    uint64_t last_bytes, last_blocks; /* of the last birth */
};

struct world_stack {
    uint32_t place, node;
    uint8_t track, kind;
};

struct world_block {
    uint64_t bytes;
    uint32_t stack;
    bool live;
};

struct world {
    uint64_t random;
    uint32_t step, steps, threads;
    bool marked, frees_all; /* steps are marked; it frees everything at its end */
    bool native;            /* a C++ program: no site has Python lines */
    uint32_t thread;
    uint64_t now_ns;
    MP_VEC(struct mp_event) events;
    MP_VEC(struct mp_sample) samples;
    MP_VEC(struct world_block) blocks;
    MP_VEC(struct world_stack) stacks;
    MP_VEC(struct world_place) places;
    MP_VEC(struct mp_string_entry) strings;
    MP_VEC(void *) texts;
    MP_VEC(struct mp_frame) frames;
    MP_VEC(struct mp_stack_node) nodes;
};

void world_start(struct world *world, uint64_t seed, uint32_t steps);
void world_free(struct world *world);
uint32_t world_random(struct world *world, uint32_t below);

/* A stack of a new place; `python`: with lines of the user. */
uint32_t world_site(struct world *world, const char *function, bool python, enum world_track track, enum mp_kind kind);
/* A Python stack of a new place: "FILE:FUNCTION:LINE FILE:FUNCTION:LINE ...", outermost first; FILE has no colon. "|"
 * among them: the border "backward of". */
uint32_t world_path(struct world *world, const char *path, enum world_track track);
/* Another stack of the same place: other native frames below the same lines. */
uint32_t world_variant(struct world *world, uint32_t stack, const char *native);
uint32_t world_alloc(struct world *world, uint32_t stack, uint64_t bytes);
void world_release(struct world *world, uint32_t block);
/* The program never frees the block that was just allocated: it counts as a leak of its place. */
void world_leaks(struct world *world, uint32_t block);
void world_reserved(struct world *world, enum world_track track, uint64_t bytes);
/* All is on the CPU; after world_start(). */
void world_move_to_host(struct world *world);
/* The process's use of the device now, as NVML would report it; on the host its resident bytes. */
void world_sample(struct world *world, uint64_t bytes);
void world_begin_step(struct world *world);
/* Frees what the program frees at its end, and builds the model. The caller frees the model. */
struct mp_model *world_build(struct world *world);
/* The place of a stack of the model. */
uint32_t world_place_of(const struct world *world, uint32_t node);
