#include "analysis/leaks/leak_teardown.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/stack.h"

/* A line without a file does not count: the first line of a multiprocessing process is not the user's. */
static bool has_user_line(const struct mp_stack_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].user && *lines->at[i].file != '<') return true;
    return false;
}

/* By stack: true if it has a line of the user. Nodes come after their parents. */
static bool *find_working(const struct mp_model *model)
{
    bool *working = mp_alloc_zeroed(model->stacks.count + 1, sizeof *working);
    bool *by_frame = mp_alloc_zeroed(model->frames.count + 1, sizeof *by_frame);
    struct mp_stack_lines lines = {0};
    for (uint32_t frame = 0; frame < model->frames.count; frame++) {
        mp_stack_resolve_frame(model, frame, &lines);
        by_frame[frame] = has_user_line(&lines);
    }
    for (uint32_t stack = 1; stack < model->stacks.count; stack++) {
        const struct mp_stack_node *node = &model->stacks.at[stack];
        working[stack] = working[node->parent] || (node->frame != MP_FRAME_CUT && by_frame[node->frame]);
    }
    mp_stack_lines_free(&lines);
    free(by_frame);
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
    if (event < model->events.count || !(model->how.known || model->how.text)) return event; /* the program went on */
    bool *working = find_working(model);
    for (uint32_t i = at[0].first; i < at[last].first; i++)
        allocs += is_work(model, working, i);
    if (!allocs) { /* no stack of the steps has a line of the user: all allocations count */
        memset(working, true, model->stacks.count + 1);
        for (uint32_t i = at[0].first; i < at[last].first; i++)
            allocs += is_work(model, working, i);
    }
    while (event > at[last].first && after * 2 * last < allocs)
        after += is_work(model, working, --event);
    free(working);
    return event;
}
