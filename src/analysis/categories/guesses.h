/*
 * Likely categories of blocks whose stacks show no category, mostly blocks from before the recording. Each is reported
 * as a guess. Pure; ends the program where memory is short (base/memory.h).
 *
 *   freed in backward              of the graph that was live when the recording began
 *   freed by zero_grad()           a gradient
 *   freed in an optimizer's step   state that the step replaces
 *   many at once, by a line        a graph that was kept (a previous one), or memory that an inference kept
 *   never freed                    a parameter for each gradient of that size, then the optimizer's state; parameters
 *                                  if nothing was trained
 *
 * A forward pass that keeps nothing for a backward, except perhaps its results, is inference. Its blocks are working
 * memory, or memory kept over calls. A graph is a previous one once the same code runs again.
 */
#pragma once

#include "analysis/categories/phases.h"
#include "model/model.h"

/* A forward pass: its first event; the blocks that it makes; and those that live when the next pass begins and that no
 * backward frees. */
struct mp_guess_pass {
    uint32_t first, made, beyond;
};

struct mp_guesses {
    unsigned char *of_block;  /* enum mp_category; MP_CATEGORY_NONE: no guess */
    unsigned char *inference; /* by turn: true if the turn keeps no blocks for a backward */
    struct mp_guess_passes {
        struct mp_guess_pass *at;
        size_t count, room;
    } passes; /* passes whose graph autograd keeps */
};

/* `known`: the category of a block at the end, without guesses (enum mp_category). */
void mp_guesses_find(const struct mp_model *model, const struct mp_phases *phases,
                     unsigned (*known)(const void *context, uint32_t block), const void *context,
                     struct mp_guesses *guesses);
/* True if a block of the forward pass belongs to a previous graph once `moment` events have happened. */
bool mp_guesses_is_previous(const struct mp_guesses *guesses, const struct mp_model *model,
                            const struct mp_phases *phases, uint32_t block, uint32_t moment);
void mp_guesses_free(struct mp_guesses *guesses);
