#include "analysis/categories/phases.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/flow.h"
#include "base/memory.h"
#include "base/search.h"
#include "base/words.h"
#include "model/stack_facts.h"

bool mp_phase_is_backward(unsigned phase)
{
    return phase == MP_PHASE_BACKWARD || phase == MP_PHASE_RECOMPUTE;
}

/* The phase that a frame shows. A stack has the phase of its innermost frame that shows one. */
static enum mp_phase phase_of(uint32_t facts)
{
    if (facts & MP_FACT_FORWARD) return MP_PHASE_FORWARD;
    if (facts & MP_FACT_BACKWARD) return MP_PHASE_BACKWARD;
    return facts & MP_FACT_OPTIMIZER ? MP_PHASE_OPTIMIZER : MP_PHASE_OUTSIDE;
}

/* True if the frame is where Python begins a thread: a module's code, or a bootstrap. */
static bool begins_thread(const struct mp_model *model, const struct mp_stack_node *node)
{
    static const char *const begins[] = {"<module>", "_run_module_as_main", "_bootstrap"};
    if (node->parent || node->frame == MP_FRAME_CUT || !model->frames.at[node->frame].line_count) return false;
    const struct mp_model_line *line = &model->lines.at[model->frames.at[node->frame].first_line];
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strcmp(mp_model_text(model, line->function), begins[i])) return true;
    return false;
}

/* True if the file's stacks reach to where their threads begin. In such a file, any other outermost frame was called by
 * C++: a hook of autograd's, or an operator that PyTorch routes through Python (since 2.15). */
static bool has_whole_stacks(const struct mp_model *model)
{
    for (size_t i = 1; i < model->stacks.count; i++)
        if (begins_thread(model, &model->stacks.at[i])) return true;
    return false;
}

/* Parents come before children, so one pass over the nodes settles every stack. A stack that C++ called has the phase
 * of stacks without frames. An optimizer of torch.optim may call a closure, as LBFGS and every training of Lightning
 * do: the closure's code is outside of the optimizer again. */
static void find_stacks(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    bool whole = phases->unknown != MP_PHASE_OUTSIDE && has_whole_stacks(model);
    bool *in_torch_optim = mp_alloc_zeroed(model->stacks.count + 1, sizeof *in_torch_optim); /* the inner Python code */
    phases->of_stack = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        bool called = whole && !node->parent && !begins_thread(model, node);
        uint32_t shown = node->frame == MP_FRAME_CUT ? 0 : facts->of_frame[node->frame];
        unsigned outer = called ? phases->unknown : phases->of_stack[node->parent], phase = phase_of(shown);
        bool python = node->frame != MP_FRAME_CUT && model->frames.at[node->frame].raw.language == MP_PYTHON;
        bool of_torch = !python || shown & MP_FACT_OF_TORCH;
        in_torch_optim[i] = of_torch && (in_torch_optim[node->parent] || (python && shown & MP_FACT_OPTIMIZER));
        if (!of_torch && in_torch_optim[node->parent] && !(shown & MP_FACT_STEPS)) outer = MP_PHASE_OUTSIDE;
        if (phase == MP_PHASE_FORWARD && mp_phase_is_backward(outer)) phase = MP_PHASE_RECOMPUTE;
        phases->of_stack[i] = (uint8_t)(phase == MP_PHASE_OUTSIDE ? outer : phase);
        phases->any |= phase;
    }
    free(in_torch_optim);
}

enum mp_phase mp_phase_of_block(const struct mp_phases *phases, const struct mp_model *model, uint32_t block)
{
    uint32_t stack = model->blocks.stack[block];
    enum mp_phase phase = stack ? (enum mp_phase)phases->of_stack[stack] : (enum mp_phase)phases->unknown;
    bool called = phase == MP_PHASE_OUTSIDE && mp_model_module(model, block);
    if (phases->flow && phases->flow[block] & MP_FLOW_BACKWARD && !mp_phase_is_backward(phase))
        return phase == MP_PHASE_FORWARD ? MP_PHASE_RECOMPUTE : MP_PHASE_BACKWARD;
    return called ? MP_PHASE_FORWARD : phase;
}

/* Some threads, such as those that load data, allocate only outside of phases. */
static void find_threads(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    phases->works = mp_alloc_zeroed(model->threads.count + 1, 1);
    for (uint32_t event = 0; event < events->count; event++)
        if (events->type[event] == MP_EVENT_ALLOC && events->thread[event] < model->threads.count &&
            !phases->works[events->thread[event]] &&
            mp_phase_of_block(phases, model, events->subject[event]) != MP_PHASE_OUTSIDE)
            phases->works[events->thread[event]] = true;
}

/* The phase that an event without a block shows; MP_PHASES: none. */
static enum mp_phase phase_of_note(const struct mp_model *model, uint32_t event)
{
    unsigned type = model->events.type[event];
    if (type == MP_EVENT_STEP) return MP_PHASE_BOUNDARY;
    if (type != MP_EVENT_REGION_BEGIN && type != MP_EVENT_REGION_END) return MP_PHASES;
    const char *name = mp_model_text(model, model->notes.at[model->events.subject[event]].name);
    if (!strncmp(name, MP_PROFILER_OPTIMIZER, strlen(MP_PROFILER_OPTIMIZER)))
        return type == MP_EVENT_REGION_BEGIN ? MP_PHASE_OPTIMIZER : MP_PHASE_BOUNDARY;
    return strncmp(name, MP_PROFILER_STEP, strlen(MP_PROFILER_STEP)) ? MP_PHASES : MP_PHASE_BOUNDARY;
}

static void take_turn(struct mp_phases *phases, uint32_t event, enum mp_phase phase)
{
    struct mp_phase_turn turn = {event, MP_NONE, 0, (uint8_t)phase};
    size_t count = phases->turns.count;
    if (count && phases->turns.at[count - 1].phase == phase) return;
    phases->forward |= phase == MP_PHASE_FORWARD;
    mp_vec_add(&phases->turns, turn);
}

/* A free by code outside of all phases ends a pass, even if that code allocates nothing. */
static bool is_outside(const struct mp_model *model, const struct mp_phases *phases, uint32_t event)
{
    uint32_t stack = mp_model_freed_at(model, model->events.subject[event]), thread = model->events.thread[event];
    size_t count = phases->turns.count;
    bool works = thread >= model->threads.count || phases->works[thread];
    return stack && works && phases->of_stack[stack] == MP_PHASE_OUTSIDE && count &&
           phases->turns.at[count - 1].phase == MP_PHASE_FORWARD;
}

static void find_turns(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    find_threads(model, phases);
    for (uint32_t event = 0; event < events->count; event++) {
        unsigned type = events->type[event];
        if (type == MP_EVENT_FREE && is_outside(model, phases, event)) take_turn(phases, event, MP_PHASE_OUTSIDE);
        if (type == MP_EVENT_FREE || type == MP_EVENT_RESIZE) continue;
        enum mp_phase phase = MP_PHASES;
        if (type != MP_EVENT_ALLOC) {
            phase = phase_of_note(model, event);
        } else {
            uint32_t thread = events->thread[event];
            phase = mp_phase_of_block(phases, model, events->subject[event]);
            if (phase == MP_PHASE_OUTSIDE && thread < model->threads.count && !phases->works[thread]) phase = MP_PHASES;
            if (phase != MP_PHASES) phases->last_alloc = event;
        }
        if (phase != MP_PHASES) take_turn(phases, event, phase);
    }
}

static void link_turns(struct mp_phases *phases)
{
    uint32_t backward = MP_NONE, round = 0;
    for (size_t i = phases->turns.count; i--;) {
        const struct mp_phase_turn *turn = &phases->turns.at[i];
        phases->turns.at[i].backward = backward;
        bool begins = turn->phase == MP_PHASE_RECOMPUTE && i && turn[-1].phase != MP_PHASE_BACKWARD;
        if (turn->phase == MP_PHASE_BACKWARD || begins) backward = (uint32_t)i;
    }
    bool trains = backward != MP_NONE, fresh = true; /* fresh: the next turn begins a round */
    for (size_t i = 0; i < phases->turns.count; i++) {
        unsigned phase = phases->turns.at[i].phase;
        if (fresh && (trains ? mp_phase_is_backward(phase) : phase == MP_PHASE_FORWARD)) {
            round++;
            fresh = false;
        } else if (phase == MP_PHASE_OUTSIDE || phase == MP_PHASE_FORWARD) {
            fresh |= trains || phase == MP_PHASE_OUTSIDE;
        }
        phases->turns.at[i].round = round;
    }
}

/* PyTorch's own history lacks the frames of autograd's threads if it has only Python frames. */
static bool lacks_backward(const struct mp_model *model)
{
    if (!model->file.format || strcmp(model->file.format, "pytorch")) return false;
    for (size_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language == MP_NATIVE) return false;
    return true;
}

void mp_phases_find(const struct mp_model *model, struct mp_phases *phases)
{
    *phases = (struct mp_phases){.last_alloc = MP_NONE, .flow = mp_flow_find(model)};
    phases->unknown = lacks_backward(model) ? MP_PHASE_BACKWARD : MP_PHASE_OUTSIDE;
    find_stacks(model, phases);
    phases->any |= phases->flow || model->blocks.module != NULL;
    if (!phases->any) phases->unknown = MP_PHASE_OUTSIDE;
    if (phases->any) find_turns(model, phases);
    link_turns(phases);
}

uint32_t mp_phase_turn_of(const struct mp_phases *phases, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(phases->turns.count, i, phases->turns.at[i].first <= event);
    return before ? (uint32_t)before - 1 : MP_NONE;
}

uint32_t mp_phase_backward_end(const struct mp_phases *phases, uint32_t event)
{
    uint32_t turn = mp_phase_turn_of(phases, event);
    if (turn == MP_NONE) turn = 0;
    if (turn < phases->turns.count && !mp_phase_is_backward(phases->turns.at[turn].phase))
        turn = phases->turns.at[turn].backward;
    while (turn < phases->turns.count && mp_phase_is_backward(phases->turns.at[turn].phase))
        turn++;
    return turn < phases->turns.count ? phases->turns.at[turn].first : MP_NONE;
}

enum mp_phase mp_phase_of_use(const struct mp_phases *phases, const struct mp_model *model,
                              const struct mp_model_use *use)
{
    uint32_t before = mp_model_events_before(model, use->time_ns, true);
    uint32_t turn = before ? mp_phase_turn_of(phases, before - 1) : MP_NONE;
    enum mp_phase phase = turn == MP_NONE ? MP_PHASE_OUTSIDE : (enum mp_phase)phases->turns.at[turn].phase;
    return use->node && phase != MP_PHASE_RECOMPUTE ? MP_PHASE_BACKWARD : phase;
}

uint32_t mp_phase_saved_for(const struct mp_phases *phases, const struct mp_model *model, uint32_t block)
{
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(model, block, &count);
    /* The engine adds up gradients between nodes, so these have no node of their own. */
    if (mp_phase_is_backward(mp_phase_of_block(phases, model, block))) return 0;
    for (size_t i = 0; i < count; i++)
        if (uses[i].node && uses[i].how & MP_USE_READ && !(uses[i].how & MP_USE_WRITTEN) &&
            mp_phase_of_use(phases, model, &uses[i]) == MP_PHASE_BACKWARD) /* a recomputation runs within a node, too */
            return uses[i].node;
    return 0;
}

const char *mp_phase_name(unsigned phase)
{
    static const char *const words[MP_PHASES] = {[MP_PHASE_FORWARD] = "forward",
                                                 [MP_PHASE_RECOMPUTE] = "recompute",
                                                 [MP_PHASE_BACKWARD] = "backward",
                                                 [MP_PHASE_OPTIMIZER] = "optimizer"};
    return words[phase];
}

void mp_phases_free(struct mp_phases *phases)
{
    free(phases->of_stack);
    free(phases->flow);
    free(phases->works);
    mp_vec_free(&phases->turns);
}
