#include "analysis/leaks/leak_teardown.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/stack.h"

/* By stack: true if it has a line of the user's. */
static bool *find_working(const struct mp_model *model)
{
    bool *working = mp_alloc_zeroed(model->stacks.count + 1, sizeof *working);
    struct mp_stack_lines lines = {0};
    for (uint32_t stack = 1; stack <= model->stacks.count; stack++) {
        mp_stack_resolve(model, stack, &lines);
        const struct mp_stack_line *line = mp_stack_headline(&lines);
        working[stack] = line && line->user;
    }
    mp_stack_lines_free(&lines);
    return working;
}

static bool is_work(const struct mp_model *model, const bool *working, uint32_t event)
{
    return model->events.type[event] == MP_EVENT_ALLOC && working[model->blocks.stack[model->events.subject[event]]];
}

uint32_t mp_leak_teardown(const struct mp_model *model, const struct mp_steps *steps,
                          const struct mp_leak_places *places, const struct mp_window *window)
{
    const struct mp_step *at = steps->at + places->first_step;
    uint32_t last = places->last, event = window->last;
    uint64_t allocs = 0, after = 0;
    if (event < model->events.count || !(model->how.known || model->how.text)) return event; /* it went on */
    bool *working = find_working(model);
    for (uint32_t i = at[0].first; i < at[last].first; i++)
        allocs += is_work(model, working, i);
    if (!allocs) { /* no step has Python */
        memset(working, true, model->stacks.count + 1);
        for (uint32_t i = at[0].first; i < at[last].first; i++)
            allocs += is_work(model, working, i);
    }
    while (event > at[last].first && after * 2 * last < allocs)
        after += is_work(model, working, --event);
    free(working);
    return event;
}
