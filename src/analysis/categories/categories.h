/*
 * Categories of blocks: parameters, gradients, activations, ... The first of these that applies to a block decides:
 *
 *   1. The user's own rules over its stack.
 *   2. Its label from the program at that moment, else at any time.
 *   3. The label of most blocks of the same stack, module and size, if it lived longer than a temporary.
 *   4. Rules over stacks that leave no doubt (workspaces of libraries, communication, data loaders).
 *   5. The phases of its birth and of its free: forward, backward and the optimizer's step. The innermost frame of a
 *      stack that shows a phase says which.
 *   6. Rules over stacks that are likely to be right (modules that make their parameters).
 *   7. A guess without a stack (struct mp_guesses).
 *
 * Otherwise the block has no category. Phases and rules apply to programs that use PyTorch. The driver's own blocks are
 * mostly segments of an allocator, and get a category from rules only. Pure.
 */
#pragma once

#include "analysis/categories/phases.h"
#include "model/model.h"
#include "model/rules.h"

enum mp_category {
    MP_CATEGORY_NONE,
    MP_CATEGORY_PARAMETERS,
    MP_CATEGORY_GRADIENTS, /* for parameters; gradients of activations are temporary */
    MP_CATEGORY_OPTIMIZER_STATE,
    MP_CATEGORY_BUFFERS,     /* modules' running means, masks */
    MP_CATEGORY_ACTIVATIONS, /* made in forward, still there when backward begins */
    MP_CATEGORY_INPUT,
    MP_CATEGORY_TEMPORARY, /* allocated and freed within one phase */
    MP_CATEGORY_WORKSPACE,
    MP_CATEGORY_COMMUNICATION,
    MP_CATEGORY_PREVIOUS, /* activations of a graph that is still held after the same code made the next one */
    MP_CATEGORY_WORKING,  /* made by inference, and freed with the call */
    MP_CATEGORY_KEPT,     /* made by inference for later calls: keys and values, a recurrent state, results */
    MP_CATEGORY_KV_CACHE, /* a server's memory for keys and values, by its own report; kept over calls, by its stack */
    MP_CATEGORIES         /* from here on: categories of the user's rules */
};

struct mp_categories;

/* `rules` (may be NULL) are the user's. Model and rules must outlive the categories. */
struct mp_categories *mp_categories_make(const struct mp_model *model, const struct mp_rules *rules);
/* The category of a block after `moment` events, a number below mp_categories_count(). */
unsigned mp_category_of(const struct mp_categories *categories, uint32_t block, uint32_t moment);
/* Like mp_category_of(). *guessed: true if the category is only likely (a guess): no stack, label or phase shows
 * it. */
unsigned mp_category_look(const struct mp_categories *categories, uint32_t block, uint32_t moment, bool *guessed);
unsigned mp_categories_count(const struct mp_categories *categories);
/* "optimizer state", or a user's name; NULL for MP_CATEGORY_NONE. */
const char *mp_category_name(const struct mp_categories *categories, unsigned category);
/* The category of a role (enum mp_role): "optimizer state"; NULL for MP_ROLE_NONE. */
const char *mp_category_of_role(unsigned role);
/* "forward", "inference", "backward" or "optimizer": the program's activity after `moment` events; NULL where
 * unknown. */
const char *mp_category_phase(const struct mp_categories *categories, uint32_t moment);
/* The callback for filters by category (model/filter.h): the name of a block's category at the end, "" for none;
 * `context` is the categories. */
const char *mp_category_of_block(const void *context, uint32_t block);
void mp_categories_free(struct mp_categories *categories);

/* The built-in rules, as the manual lists them, one after the other; false after the last. `doubtless` rules count
 * before phases. For a block born in backward, the rules look at the code that ran in backward, not at the code that
 * made the graph's node. */
struct mp_category_rule {
    const char *category, *regex;
    bool doubtless;
};
bool mp_category_rule(size_t index, struct mp_category_rule *rule);

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
