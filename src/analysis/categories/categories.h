/*
 * Categories of blocks: parameters, gradients, activations, ... Of a block the first that says so counts:
 *   the user's own rules over its stack;
 *   what the program said of it (labels), at that moment, else at any time;
 *   what it said of most blocks of the same stack, module and size, if this one lived longer than a temporary;
 *   rules over stacks that leave no doubt (workspaces of libraries, communication, data loaders);
 *   the phase in which it was born and when it was freed: forward, backward and the optimizer's step are told apart by
 *   the innermost frame that says so, and follow one another in time;
 *   rules over stacks that are likely to be right (modules that make their parameters);
 *   what is likely without a stack (guesses.h).
 * Else it has none. What phases and rules say is for programs that use PyTorch; the driver's own blocks are segments of
 * an allocator, mostly, and have none but by rules. Pure.
 */
#ifndef MP_ANALYSIS_CATEGORIES_H
#define MP_ANALYSIS_CATEGORIES_H

#include "analysis/categories/rules.h"
#include "model/model.h"

enum mp_category {
    MP_CATEGORY_NONE,
    MP_CATEGORY_PARAMETERS,
    MP_CATEGORY_GRADIENTS, /* of parameters; those of activations are temporary */
    MP_CATEGORY_OPTIMIZER_STATE,
    MP_CATEGORY_BUFFERS,     /* of modules: running means, masks */
    MP_CATEGORY_ACTIVATIONS, /* made in forward, still there when backward begins */
    MP_CATEGORY_INPUT,
    MP_CATEGORY_TEMPORARY, /* made and freed within one phase */
    MP_CATEGORY_WORKSPACE,
    MP_CATEGORY_COMMUNICATION,
    MP_CATEGORY_PREVIOUS, /* activations of a graph that is still held though the same code made the next one */
    MP_CATEGORY_WORKING,  /* inference made it, and it was gone with the call */
    MP_CATEGORY_KEPT,     /* inference made it for later calls: keys and values, a recurrent state, results */
    MP_CATEGORIES         /* from here on: names of the user's rules */
};

struct mp_categories;

/* `rules` (may be NULL) are the user's; both outlive the categories. MP_NO_MEMORY. */
enum mp_status mp_categories_make(const struct mp_model *model, const struct mp_rules *rules,
                                  struct mp_categories **categories, struct mp_error *error);
/* Whether what blocks are for follows from their stacks alone, as it does where PyTorch was not used: then a part of
 * the recording (model/part.h) tells as much of a block as all. False, too, where memory is short. */
bool mp_categories_by_stack(const struct mp_model *model);
/* The category of a block after `moment` events, a number below mp_categories_count(). */
unsigned mp_category_of(const struct mp_categories *categories, uint32_t block, uint32_t moment);
/* The same; `*guessed`: no stack, label or phase says so, only what is likely (guesses.h). */
unsigned mp_category_look(const struct mp_categories *categories, uint32_t block, uint32_t moment, bool *guessed);
unsigned mp_categories_count(const struct mp_categories *categories);
/* "optimizer state", or a user's name; NULL for MP_CATEGORY_NONE. */
const char *mp_category_name(const struct mp_categories *categories, unsigned category);
/* The category of a role (enum mp_role): "optimizer state"; NULL for MP_ROLE_NONE. */
const char *mp_category_of_role(unsigned role);
/* "forward", "inference", "backward" or "optimizer": what the program was at after `moment` events; NULL where nobody
 * knows. */
const char *mp_category_phase(const struct mp_categories *categories, uint32_t moment);
/* What filters by category ask (model/filter.h): the name of what a block is at the end, "" for none; `context` is the
 * categories. */
const char *mp_category_of_block(const void *context, uint32_t block);
void mp_categories_free(struct mp_categories *categories);

/* The built-in rules, as the manual lists them, one after the other; NULL after the last. `doubtless`: they come before
 * phases. Of a block born in backward they see what ran there, not what made the node of the graph. */
struct mp_category_rule {
    const char *category, *regex;
    bool doubtless;
};
const struct mp_category_rule *mp_category_rule(size_t index);

#endif
