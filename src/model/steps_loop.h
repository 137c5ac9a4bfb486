/*
 * Finds the program's loop from the lines of its Python code. A line begins a round if it allocates again and again,
 * each time after other lines of its function did. Only functions called from outside of networks and optimizers count.
 * A round is a step if it is whole: most sites that are in use then allocate in it, and a site of the optimizer does,
 * if the program has an optimizer. The innermost loop with whole rounds counts; among loops with equally many rounds,
 * the outermost. A step begins at that line of the loop at which the fewest blocks are live. Parameters in an
 * optimizer, layers, rows of a batch, epochs and evaluations are therefore no steps. With gradient accumulation a step
 * ends with the optimizer's step. Pure.
 *
 * An example:
 *
 *     main     20  for epoch in range(2):
 *              21      train()
 *              22      evaluate()
 *     train    10  for batch in loader:
 *              11      loss = network(batch).sum()
 *              12      loss.backward(); optimizer.step()
 *     evaluate 30  for batch in held_out:
 *              31      total += network(batch).sum()
 *
 * With 100 batches an epoch, lines 10, 11 and 12 are reached 200 times each. Lines 21 and 22 are reached twice, which
 * is too seldom for a loop. Lines inside the network and the optimizer are left out, however often they allocate.
 * A round of line 10 lasts from one time at this line to the next. Nearly all sites that are in use around then
 * allocate in it, also the optimizer's: such a round is whole. In a round of line 31, the optimizer's sites do not
 * allocate, so that loop has no whole rounds. Lines 10, 11 and 12 are in one function and have equally many rounds. At
 * line 10 the fewest blocks are live, since backward has freed the activations. A step begins each time at line 10.
 */
#pragma once

#include "model/spans.h"

/* True if an event is an allocation that shows the loop. `host`: sampled blocks of the host count, too, although a
 * round may have none of them. */
bool mp_loop_sees(const struct mp_model *model, uint32_t event, bool host);
/* Adds the loop's steps; none if no line shows a loop. False if no thread reached the loop's line twice. Then each
 * round runs on another thread, and may consist of several rounds of one line (steps_period.h). */
bool mp_loop_find(const struct mp_model *model, bool host, struct mp_steps *steps);

/* The first event after the imports at the program's begin: their allocations say nothing about its loop. */
uint32_t mp_loop_begin(const struct mp_model *model);
/* The language whose lines show the loop. It is Python, or C and C++ if no Python was recorded. */
uint8_t mp_loop_language(const struct mp_model *model);
/* The line of a stack's node if it is in that language; else NULL. */
const struct mp_model_line *mp_loop_line(const struct mp_model *model, uint32_t node, uint8_t language);
/* mp_loop_is_forward(): true if a line belongs to a network's forward(). mp_loop_is_outside(): true if its file is none
 * of networks, optimizers or data loaders. */
bool mp_loop_is_forward(const struct mp_model *model, const struct mp_model_line *line);
bool mp_loop_is_outside(const struct mp_model *model, const struct mp_model_line *line);
