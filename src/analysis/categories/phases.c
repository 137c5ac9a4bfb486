#include "analysis/categories/phases.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/rules.h"
#include "base/search.h"

/* Frames that show the phase; the innermost one of a stack counts. */
static const struct {
    enum mp_phase phase;
    const char *regex;
} frames_of_phases[] = {
    {MP_PHASE_FORWARD, "(^|\\.)(_wrapped_call_impl|_call_impl|__call__) .*torch/nn/modules/module\\.py:"},
    {MP_PHASE_FORWARD, "(^|\\.)forward [^ ]+\\.py:"},
    {MP_PHASE_FORWARD, "^nn\\.Module: "},               /* PyTorch's profiler */
    {MP_PHASE_FORWARD, "^CompiledFunction$"},           /* the same: compiled by AOTAutograd */
    {MP_PHASE_BACKWARD, "(^|\\.)backward [^ ]+\\.py:"}, /* Tensor.backward(), Function.backward(), ... */
    {MP_PHASE_BACKWARD, "(^|\\.)grad .*torch/autograd/__init__\\.py:"},
    {MP_PHASE_BACKWARD, "torch::autograd::Engine::"},
    {MP_PHASE_BACKWARD, "autograd::engine::evaluate_function"}, /* PyTorch's profiler */
    {MP_PHASE_BACKWARD, "^CompiledFunctionBackward$"},
    {MP_PHASE_OPTIMIZER, "torch/optim/"},
    {MP_PHASE_OPTIMIZER, "^Optimizer\\.step#"},
    {MP_PHASE_OPTIMIZER, "/(apex/optimizers|bitsandbytes/optim|deepspeed/ops/adam)/"},
    {MP_PHASE_OPTIMIZER, "torch/(cuda/)?amp/grad_scaler\\.py:"},
    {MP_PHASE_OPTIMIZER, "torch/nn/utils/clip_grad\\.py:"},
};

bool mp_phase_is_backward(unsigned phase)
{
    return phase == MP_PHASE_BACKWARD || phase == MP_PHASE_RECOMPUTE;
}

static enum mp_status make_rules(struct mp_rules *rules, struct mp_error *error)
{
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < sizeof frames_of_phases / sizeof *frames_of_phases; i++)
        status = mp_rules_add(rules, "", frames_of_phases[i].regex, error);
    return status;
}

static enum mp_phase phase_of_frame(const struct mp_model *model, const struct mp_rules *rules, uint32_t frame,
                                    struct mp_buffer *scratch)
{
    if (model->frames.at[frame].raw.language == MP_BACKWARD) return MP_PHASE_BACKWARD;
    uint32_t rule = mp_rules_find_frame(rules, model, frame, scratch);
    return rule == MP_NONE ? MP_PHASE_OUTSIDE : frames_of_phases[rule].phase;
}

/* A parent stands before its children, so one pass over the nodes settles every stack. */
static bool find_stacks(const struct mp_model *model, const struct mp_rules *rules, struct mp_phases *phases)
{
    struct mp_buffer scratch = {0};
    unsigned char *frames = malloc(model->frames.count + 1);
    phases->of_stack = calloc(model->stacks.count + 1, 1);
    bool done = frames && phases->of_stack;
    for (uint32_t i = 0; done && i < model->frames.count; i++)
        frames[i] = (unsigned char)phase_of_frame(model, rules, i, &scratch);
    for (size_t i = 1; done && i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        unsigned outer = phases->of_stack[node->parent],
                 phase = node->frame == MP_FRAME_CUT ? MP_PHASE_OUTSIDE : frames[node->frame];
        if (phase == MP_PHASE_FORWARD && mp_phase_is_backward(outer)) phase = MP_PHASE_RECOMPUTE;
        phases->of_stack[i] = (uint8_t)(phase == MP_PHASE_OUTSIDE ? outer : phase);
        phases->any |= phases->of_stack[i];
    }
    done = done && !scratch.failed;
    mp_buffer_free(&scratch);
    free(frames);
    return done;
}

enum mp_phase mp_phase_of_block(const struct mp_phases *phases, const struct mp_model *model, uint32_t block)
{
    uint32_t stack = model->blocks.stack[block];
    enum mp_phase phase = stack ? (enum mp_phase)phases->of_stack[stack] : (enum mp_phase)phases->unknown;
    bool called = phase == MP_PHASE_OUTSIDE && mp_model_module(model, block);
    return called ? MP_PHASE_FORWARD : phase;
}

/* Threads that load data, for example, only ever allocate outside. */
static bool find_threads(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    phases->works = calloc(model->threads.count + 1, 1);
    for (uint32_t event = 0; phases->works && event < events->count; event++)
        if (events->type[event] == MP_EVENT_ALLOC && events->thread[event] < model->threads.count &&
            !phases->works[events->thread[event]] &&
            mp_phase_of_block(phases, model, events->subject[event]) != MP_PHASE_OUTSIDE)
            phases->works[events->thread[event]] = true;
    return phases->works;
}

/* The phase that an event without a block shows; MP_PHASES: none. */
static enum mp_phase phase_of_note(const struct mp_model *model, uint32_t event)
{
    unsigned type = model->events.type[event];
    if (type == MP_EVENT_STEP) return MP_PHASE_BOUNDARY;
    if (type != MP_EVENT_REGION_BEGIN && type != MP_EVENT_REGION_END) return MP_PHASES;
    const char *name = mp_model_text(model, model->notes.at[model->events.subject[event]].name);
    if (!strncmp(name, "Optimizer.step#", strlen("Optimizer.step#")))
        return type == MP_EVENT_REGION_BEGIN ? MP_PHASE_OPTIMIZER : MP_PHASE_BOUNDARY;
    return strncmp(name, "ProfilerStep#", strlen("ProfilerStep#")) ? MP_PHASES : MP_PHASE_BOUNDARY;
}

static bool take_turn(struct mp_phases *phases, uint32_t event, enum mp_phase phase)
{
    struct mp_phase_turn turn = {event, MP_NONE, 0, (uint8_t)phase};
    size_t count = phases->turns.count;
    if (count && phases->turns.at[count - 1].phase == phase) return true;
    phases->forward |= phase == MP_PHASE_FORWARD;
    return mp_vec_push(&phases->turns, turn);
}

/* A free by a line outside ends a pass even where nothing is made outside. */
static bool is_outside(const struct mp_model *model, const struct mp_phases *phases, uint32_t event)
{
    uint32_t stack = mp_model_freed_at(model, model->events.subject[event]), thread = model->events.thread[event];
    size_t count = phases->turns.count;
    bool works = thread >= model->threads.count || phases->works[thread];
    return stack && works && phases->of_stack[stack] == MP_PHASE_OUTSIDE && count &&
           phases->turns.at[count - 1].phase == MP_PHASE_FORWARD;
}

static bool find_turns(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    bool done = find_threads(model, phases);
    for (uint32_t event = 0; done && event < events->count; event++) {
        unsigned type = events->type[event];
        if (type == MP_EVENT_FREE && is_outside(model, phases, event))
            done = take_turn(phases, event, MP_PHASE_OUTSIDE);
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
        if (phase != MP_PHASES) done = take_turn(phases, event, phase);
    }
    return done;
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

/* PyTorch's own history lacks the frames of autograd's threads where it was told to keep only Python's. */
static bool lacks_backward(const struct mp_model *model, const struct mp_phases *phases)
{
    if (!model->format || strcmp(model->format, "pytorch") || !phases->any) return false;
    for (size_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language == MP_NATIVE) return false;
    return true;
}

enum mp_status mp_phases_find(const struct mp_model *model, struct mp_phases *phases, struct mp_error *error)
{
    struct mp_rules rules = {0};
    *phases = (struct mp_phases){.last_alloc = MP_NONE};
    enum mp_status status = make_rules(&rules, error);
    bool done = !status && find_stacks(model, &rules, phases);
    phases->any |= model->blocks.module != NULL;
    if (done && lacks_backward(model, phases)) phases->unknown = MP_PHASE_BACKWARD;
    done = done && (!phases->any || find_turns(model, phases));
    if (done) link_turns(phases);
    mp_rules_free(&rules);
    if (done || status) return status;
    return mp_fail(error, MP_NO_MEMORY, "not enough memory for the phases of the program");
}

uint32_t mp_phase_turn_of(const struct mp_phases *phases, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(phases->turns.count, i, phases->turns.at[i].first <= event);
    return before ? (uint32_t)before - 1 : MP_NONE;
}

void mp_phases_free(struct mp_phases *phases)
{
    free(phases->of_stack);
    free(phases->works);
    mp_vec_free(&phases->turns);
}
