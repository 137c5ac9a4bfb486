#include "analysis/categories/categories.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/rules.h"
#include "base/error.h"
#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "model/model.h"

/*
 * Phases of a training program, by the stacks of its allocations: the phase of each stack, and the turns that
 * phases take in time. Pure; the result is the caller's.
 */

enum mp_phase {
    MP_PHASE_OUTSIDE,   /* of all others */
    MP_PHASE_FORWARD,   /* a module is called */
    MP_PHASE_RECOMPUTE, /* a module is called within backward: checkpointing */
    MP_PHASE_BACKWARD,
    MP_PHASE_OPTIMIZER,
    MP_PHASE_BOUNDARY, /* of a turn only: here a step begins or an optimizer's ends */
    MP_PHASES
};

struct mp_phase_turn {
    uint32_t first;    /* the event that it begins with */
    uint32_t backward; /* the index of the first turn of backward after it; MP_NONE */
    uint32_t round;    /* how many times backward has begun, or, where there is none at all, a forward after something
                        * outside */
    uint8_t phase;
};

struct mp_phases {
    uint8_t *of_stack; /* enum mp_phase, by stack */
    uint8_t unknown;   /* of a block without a stack */
    MP_VEC(struct mp_phase_turn) turns;
    unsigned char *works; /* by thread: it ever did anything but allocate outside; others take no turns */
    bool any;             /* some stack has a phase */
    bool forward;         /* some turn is forward */
    uint32_t last_alloc;  /* of those turns are made of; MP_NONE: none. What is freed later lived to the end */
};

/* Frames that say what is being done; of a stack the innermost one counts. */
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

static bool is_backward(unsigned phase)
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
        if (phase == MP_PHASE_FORWARD && is_backward(outer)) phase = MP_PHASE_RECOMPUTE;
        phases->of_stack[i] = (uint8_t)(phase == MP_PHASE_OUTSIDE ? outer : phase);
        phases->any |= phases->of_stack[i];
    }
    done = done && !scratch.failed;
    mp_buffer_free(&scratch);
    free(frames);
    return done;
}

static enum mp_phase phase_of_block(const struct mp_phases *phases, const struct mp_model *model, uint32_t block)
{
    uint32_t stack = model->blocks.stack[block];
    enum mp_phase phase = stack ? (enum mp_phase)phases->of_stack[stack] : (enum mp_phase)phases->unknown;
    bool called = phase == MP_PHASE_OUTSIDE && mp_model_module(model, block);
    return called ? MP_PHASE_FORWARD : phase;
}

/* Threads that load data, say, never do more than allocate outside. */
static bool find_threads(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    phases->works = calloc(model->threads.count + 1, 1);
    for (uint32_t event = 0; phases->works && event < events->count; event++)
        if (events->type[event] == MP_EVENT_ALLOC && events->thread[event] < model->threads.count &&
            !phases->works[events->thread[event]] &&
            phase_of_block(phases, model, events->subject[event]) != MP_PHASE_OUTSIDE)
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

static bool find_turns(const struct mp_model *model, struct mp_phases *phases)
{
    const struct mp_model_events *events = &model->events;
    bool done = find_threads(model, phases);
    for (uint32_t event = 0; done && event < events->count; event++) {
        unsigned type = events->type[event];
        if (type == MP_EVENT_FREE || type == MP_EVENT_RESIZE) continue;
        enum mp_phase phase = MP_PHASES;
        if (type != MP_EVENT_ALLOC) {
            phase = phase_of_note(model, event);
        } else {
            uint32_t thread = events->thread[event];
            phase = phase_of_block(phases, model, events->subject[event]);
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
    bool trains = backward != MP_NONE, fresh = true; /* fresh: what comes next begins a round */
    for (size_t i = 0; i < phases->turns.count; i++) {
        unsigned phase = phases->turns.at[i].phase;
        if (fresh && (trains ? is_backward(phase) : phase == MP_PHASE_FORWARD)) {
            round++;
            fresh = false;
        } else if (phase == MP_PHASE_OUTSIDE || phase == MP_PHASE_FORWARD) {
            fresh |= trains || phase == MP_PHASE_OUTSIDE;
        }
        phases->turns.at[i].round = round;
    }
}

/* PyTorch's own history has no frames of what autograd's threads do where it was told to keep only Python's. */
static bool lacks_backward(const struct mp_model *model, const struct mp_phases *phases)
{
    if (!model->format || strcmp(model->format, "pytorch") || !phases->any) return false;
    for (size_t i = 1; i < model->stacks.count; i++)
        if (phases->of_stack[i] == MP_PHASE_BACKWARD) return false;
    return true;
}

/* MP_NO_MEMORY. */
static enum mp_status phases_find(const struct mp_model *model, struct mp_phases *phases, struct mp_error *error)
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

/* The index of the turn that an event belongs to; MP_NONE before the first. */
static uint32_t phase_turn_of(const struct mp_phases *phases, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(phases->turns.count, i, phases->turns.at[i].first <= event);
    return before ? (uint32_t)before - 1 : MP_NONE;
}

static void phases_free(struct mp_phases *phases)
{
    free(phases->of_stack);
    free(phases->works);
    mp_vec_free(&phases->turns);
}

static const char *const names[MP_CATEGORIES] = {
    [MP_CATEGORY_PARAMETERS] = "parameters",
    [MP_CATEGORY_GRADIENTS] = "gradients",
    [MP_CATEGORY_OPTIMIZER_STATE] = "optimizer state",
    [MP_CATEGORY_BUFFERS] = "buffers",
    [MP_CATEGORY_ACTIVATIONS] = "activations",
    [MP_CATEGORY_INPUT] = "input",
    [MP_CATEGORY_TEMPORARY] = "temporary",
    [MP_CATEGORY_WORKSPACE] = "workspace",
    [MP_CATEGORY_COMMUNICATION] = "communication",
};

/* Those without doubt come first. */
static const struct mp_category_rule built_in[] = {
    {"workspace", "at::(cuda|native)::.*[Ww]orkspace", true},
    /* Where the functions that ask for it have no name, those around them have. */
    {"workspace", "at::cuda::(getCurrentCUDABlas|getCurrentCUDASolver|getCurrentCUDASparse|blas::)", true},
    {"workspace", "at::native::(.*run_conv_plan|raw_cudnn_convolution_)", true},
    {"communication", "c10d::", true},
    {"communication", "ncclComm", true},
    {"communication", "(all_gather|all_reduce|reduce_scatter|foreach_reduce|unshard)[^ ]* .*torch/distributed/", true},
    {"communication", "torch/distributed/distributed_c10d\\.py:", true},
    {"gradients", "torch::autograd::AccumulateGrad", true},
    {"input", "torch/utils/data/", true},
    {"optimizer state", "(^|\\.)_init_group .*torch/optim/", true},
    {"parameters", "(^|\\.)_broadcast_coalesced_reshape .*torch/nn/parallel/", true}, /* of DataParallel's replicas */
    {"parameters", "(^|\\.)(__init__|reset_parameters|_apply|to|cuda|cpu|half|convert) .*torch/nn/modules/", false},
    {"parameters", "torch/nn/init\\.py:", false},
    {"parameters",
     "(^|\\.)(from_pretrained|load_state_dict|_load_from_state_dict|init_weights?|_init_weights) .*\\.py:", false},
    {"optimizer state", "(^|\\.)(__init__|load_state_dict) .*optim[a-z_]*\\.py:", false},
    {"parameters", "(^|\\.)__init__ [^ ]+\\.py:", false},
};

#define BUILT_IN (sizeof built_in / sizeof *built_in)

const struct mp_category_rule *mp_category_rule(size_t index)
{
    return index < BUILT_IN ? &built_in[index] : NULL;
}

/* Labels of the blocks of one stack, module and size: a count for each role. */
struct usual {
    uint32_t votes[MP_ROLES];
};

struct mp_categories {
    const struct mp_model *model;
    const struct mp_rules *user; /* may be NULL */
    uint16_t *by_user, *by_rule; /* by stack: one more than the first rule that fits, the user's and a built-in one */
    struct mp_phases phases;
    unsigned char *feeds;  /* by stack: enum feeding */
    struct mp_intern keys; /* of what is usual: number N + 1 */
    MP_VEC(struct usual) usual;
};

static unsigned category_named(const struct mp_categories *categories, uint32_t rule)
{
    uint32_t id = categories->user->rules.at[rule].name;
    const char *name = mp_intern_get(&categories->user->names, id, NULL);
    for (unsigned i = 1; i < MP_CATEGORIES; i++)
        if (!strcmp(name, names[i])) return i;
    return MP_CATEGORIES + id;
}

/* By stack: one more than the first rule that fits any of its frames, 0 where none does. `makers`: the frames count,
 * too, that made the node of the graph whose backward it is. A parent stands before its children, so one pass over the
 * nodes settles every stack. */
static uint16_t *match_stacks(const struct mp_model *model, const struct mp_rules *rules, bool makers)
{
    struct mp_buffer scratch = {0};
    uint32_t *frames = malloc((model->frames.count + 1) * sizeof *frames);
    uint16_t *stacks = calloc(model->stacks.count + 1, sizeof *stacks);
    bool done = frames && stacks;
    for (uint32_t i = 0; done && i < model->frames.count; i++)
        frames[i] = mp_rules_find_frame(rules, model, i, &scratch);
    for (size_t i = 1; done && i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t own = node->frame == MP_FRAME_CUT ? MP_NONE : frames[node->frame];
        bool border = node->frame != MP_FRAME_CUT && model->frames.at[node->frame].raw.language == MP_BACKWARD;
        uint16_t outer = border && !makers ? 0 : stacks[node->parent];
        stacks[i] = own != MP_NONE && (!outer || own + 1 < outer) ? (uint16_t)(own + 1) : outer;
    }
    done = done && !scratch.failed;
    mp_buffer_free(&scratch);
    free(frames);
    if (done) return stacks;
    free(stacks);
    return NULL;
}

const char *mp_category_phase(const struct mp_categories *categories, uint32_t moment)
{
    static const char *const words[MP_PHASES] = {[MP_PHASE_FORWARD] = "forward",
                                                 [MP_PHASE_RECOMPUTE] = "backward",
                                                 [MP_PHASE_BACKWARD] = "backward",
                                                 [MP_PHASE_OPTIMIZER] = "optimizer"};
    uint32_t turn = moment ? phase_turn_of(&categories->phases, moment - 1) : MP_NONE;
    return turn == MP_NONE ? NULL : words[categories->phases.turns.at[turn].phase];
}

static enum mp_status match_built_in(struct mp_categories *categories, struct mp_error *error)
{
    struct mp_rules rules = {0};
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < BUILT_IN; i++)
        status = mp_rules_add(&rules, built_in[i].category, built_in[i].regex, error);
    if (!status) categories->by_rule = match_stacks(categories->model, &rules, false);
    mp_rules_free(&rules);
    return status;
}

/* What blocks have in common of which most got the same label. */
static void usual_key(const struct mp_model *model, uint32_t block, uint64_t key[3])
{
    key[0] = model->blocks.stack[block];
    key[1] = mp_model_module(model, block);
    key[2] = model->blocks.bytes[block];
}

/* Each block votes once, with its first label. */
static bool count_labels(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *label = &model->labels.at[i];
        uint64_t key[3];
        if (i && label[-1].block == label->block) continue;
        usual_key(model, label->block, key);
        uint32_t id = mp_intern_bytes(&categories->keys, (const char *)key, sizeof key);
        struct usual fresh = {{0}};
        if (id == MP_INTERN_FAILED || (id > categories->usual.count && !mp_vec_push(&categories->usual, fresh)))
            return false;
        if (label->role < MP_ROLES) categories->usual.at[id - 1].votes[label->role]++;
    }
    return true;
}

unsigned mp_categories_count(const struct mp_categories *categories)
{
    return MP_CATEGORIES + (categories->user ? categories->user->names.count : 0);
}

const char *mp_category_name(const struct mp_categories *categories, unsigned category)
{
    if (category < MP_CATEGORIES) return names[category];
    return mp_intern_get(&categories->user->names, category - MP_CATEGORIES, NULL);
}

static enum mp_category of_role(unsigned role)
{
    static const unsigned char of[MP_ROLES] = {[MP_ROLE_PARAMETER] = MP_CATEGORY_PARAMETERS,
                                               [MP_ROLE_GRADIENT] = MP_CATEGORY_GRADIENTS,
                                               [MP_ROLE_OPTIMIZER_STATE] = MP_CATEGORY_OPTIMIZER_STATE,
                                               [MP_ROLE_BUFFER] = MP_CATEGORY_BUFFERS,
                                               [MP_ROLE_INPUT] = MP_CATEGORY_INPUT};
    return role < MP_ROLES ? (enum mp_category)of[role] : MP_CATEGORY_NONE;
}

const char *mp_category_of_role(unsigned role)
{
    return names[of_role(role)];
}

static enum mp_category by_label(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    const struct mp_model *model = categories->model;
    if (!model->labels.count) return MP_CATEGORY_NONE;
    const struct mp_model_label *label = mp_model_label_at(model, block, moment ? moment - 1 : MP_NONE);
    if (!label || !moment) label = mp_model_label_first(model, block);
    return label ? of_role(label->role) : MP_CATEGORY_NONE;
}

static enum mp_category by_usual_label(const struct mp_categories *categories, uint32_t block)
{
    uint64_t key[3];
    usual_key(categories->model, block, key);
    uint32_t id = mp_intern_find(&categories->keys, (const char *)key, sizeof key);
    if (id == MP_INTERN_FAILED) return MP_CATEGORY_NONE;
    const struct usual *usual = &categories->usual.at[id - 1];
    unsigned best = MP_ROLE_NONE;
    for (unsigned role = 1; role < MP_ROLES; role++)
        if (usual->votes[role] > usual->votes[best]) best = role;
    return of_role(best);
}

/* A block's life as turns see it. */
struct life {
    const struct mp_phases *phases;
    uint32_t turn;  /* in which it was born */
    uint32_t freed; /* MP_NONE: it lived as long as there was anything to see */
};

static const struct mp_phase_turn *turn_at(const struct life *life, uint32_t index)
{
    return &life->phases->turns.at[index];
}

static bool lives_at(const struct life *life, uint32_t turn)
{
    return life->freed > turn_at(life, turn)->first;
}

/* The first turn after the birth whose phase is none of those in `mask`; MP_NONE. */
static uint32_t turn_beyond(const struct life *life, unsigned mask)
{
    for (uint32_t i = life->turn + 1; i < life->phases->turns.count; i++)
        if (!(mask & 1u << turn_at(life, i)->phase)) return i;
    return MP_NONE;
}

static enum mp_category if_it_lasts(const struct life *life, unsigned mask, enum mp_category category)
{
    uint32_t end = turn_beyond(life, mask);
    bool lasts = end == MP_NONE ? life->freed == MP_NONE : lives_at(life, end);
    return lasts ? category : MP_CATEGORY_TEMPORARY;
}

static enum mp_category of_forward(const struct life *life)
{
    uint32_t backward = turn_at(life, life->turn)->backward;
    bool lasts = backward == MP_NONE ? life->freed == MP_NONE : lives_at(life, backward);
    return lasts ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_TEMPORARY;
}

#define ROUNDS_OF_INPUT 4 /* that a batch may be used for: fetched ahead, shared by two networks */

/* Whether it is gone some rounds after that of its birth. */
static bool is_passing(const struct life *life)
{
    uint32_t last = life->freed == MP_NONE ? MP_NONE : phase_turn_of(life->phases, life->freed);
    return last != MP_NONE && turn_at(life, last)->round <= turn_at(life, life->turn)->round + ROUNDS_OF_INPUT;
}

/* Between phases: what the next forward takes is its input, what is made behind it and lives on for backward belongs to
 * the loss. `aside`: on a thread that takes no turns, at any time. */
static enum mp_category of_outside(const struct life *life, bool aside)
{
    unsigned before = 1u << MP_PHASE_OUTSIDE | 1u << MP_PHASE_BOUNDARY | 1u << MP_PHASE_OPTIMIZER;
    if (aside) before |= 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE;
    uint32_t next = turn_beyond(life, before), after = life->turn + 1;
    if (next != MP_NONE && lives_at(life, next) && is_passing(life)) {
        unsigned phase = turn_at(life, next)->phase;
        if (phase == MP_PHASE_FORWARD) return MP_CATEGORY_INPUT;
        if (phase == MP_PHASE_BACKWARD || phase == MP_PHASE_RECOMPUTE) return MP_CATEGORY_ACTIVATIONS;
    }
    bool same = after < life->phases->turns.count ? !lives_at(life, after) : life->freed != MP_NONE;
    return same ? MP_CATEGORY_TEMPORARY : MP_CATEGORY_NONE;
}

/* A block freed after the last allocation lived to the end, unless it was just made: then nobody can tell. */
#define EVENTS_OF_TEMPORARY 8

/* `round`: that of its birth; 0 where nothing is known. */
static enum mp_category by_turns(const struct mp_categories *categories, uint32_t block, uint32_t *round)
{
    const struct mp_model *model = categories->model;
    const struct mp_phases *phases = &categories->phases;
    uint32_t born = model->blocks.alloc_event[block], freed = model->blocks.free_event[block];
    *round = 0;
    if (!phases->any || born == MP_NONE || phases->last_alloc == MP_NONE ||
        model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_DRIVER)
        return MP_CATEGORY_NONE;
    struct life life = {phases, phase_turn_of(phases, born), freed};
    if (life.turn == MP_NONE) return MP_CATEGORY_NONE;
    if (freed > phases->last_alloc && freed - born > EVENTS_OF_TEMPORARY) life.freed = MP_NONE;
    uint32_t thread = model->events.thread[born];
    *round = turn_at(&life, life.turn)->round;
    switch (phase_of_block(phases, model, block)) {
    case MP_PHASE_FORWARD:
    case MP_PHASE_RECOMPUTE:
        return of_forward(&life);
    case MP_PHASE_BACKWARD:
        return if_it_lasts(&life, 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE, MP_CATEGORY_GRADIENTS);
    case MP_PHASE_OPTIMIZER:
        return if_it_lasts(&life, 1u << MP_PHASE_OPTIMIZER, MP_CATEGORY_OPTIMIZER_STATE);
    default:
        return of_outside(&life, thread < model->threads.count && !phases->works[thread]);
    }
}

/* Whether blocks of a stack that were made before the first round are input. They live like it where there are few
 * rounds, so it is one only where such blocks are made in later rounds, too. */
enum feeding { FEEDING_UNASKED, FEEDING_ASKED, FEEDING_SURE };

static enum mp_category by_life(const struct mp_categories *categories, uint32_t block)
{
    uint32_t round;
    enum mp_category category = by_turns(categories, block, &round);
    bool sure = category != MP_CATEGORY_INPUT || round ||
                categories->feeds[categories->model->blocks.stack[block]] == FEEDING_SURE;
    return sure ? category : MP_CATEGORY_NONE;
}

static bool find_feeds(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t round, block = 0;
    bool any = false;
    categories->feeds = calloc(model->stacks.count + 1, 1);
    if (!categories->feeds || !categories->phases.turns.count) return categories->feeds;
    for (; block < blocks->count; block++) {
        if (blocks->alloc_event[block] == MP_NONE) continue;
        bool input = by_turns(categories, block, &round) == MP_CATEGORY_INPUT;
        if (round) break;
        if (!input) continue;
        categories->feeds[blocks->stack[block]] = FEEDING_ASKED;
        any = true;
    }
    for (; any && block < blocks->count; block++)
        if (categories->feeds[blocks->stack[block]] == FEEDING_ASKED &&
            by_turns(categories, block, &round) == MP_CATEGORY_INPUT)
            categories->feeds[blocks->stack[block]] = FEEDING_SURE;
    return true;
}

static enum mp_category by_rule(const struct mp_categories *categories, uint32_t block, bool doubtless)
{
    uint16_t rule = categories->by_rule[categories->model->blocks.stack[block]];
    if (!rule || (doubtless && !built_in[rule - 1].doubtless)) return MP_CATEGORY_NONE;
    for (unsigned i = 1; i < MP_CATEGORIES; i++)
        if (!strcmp(built_in[rule - 1].category, names[i])) return (enum mp_category)i;
    return MP_CATEGORY_NONE;
}

unsigned mp_category_of(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    uint16_t rule = categories->by_user ? categories->by_user[categories->model->blocks.stack[block]] : 0;
    if (rule) return category_named(categories, rule - 1u);
    enum mp_category category = by_label(categories, block, moment);
    if (category) return category;
    enum mp_category life = by_life(categories, block);
    if (life != MP_CATEGORY_TEMPORARY) category = by_usual_label(categories, block);
    if (!category) category = by_rule(categories, block, true);
    if (!category) category = life;
    bool labelled = categories->model->labels.count; /* then what nothing was said of is nothing of that kind */
    return category || labelled ? category : by_rule(categories, block, false);
}

const char *mp_category_of_block(const void *context, uint32_t block)
{
    const struct mp_categories *categories = context;
    uint32_t end = (uint32_t)categories->model->events.count;
    const char *name = mp_category_name(categories, mp_category_of(categories, block, end));
    return name ? name : "";
}

enum mp_status mp_categories_make(const struct mp_model *model, const struct mp_rules *rules,
                                  struct mp_categories **categories, struct mp_error *error)
{
    struct mp_categories *made = calloc(1, sizeof *made);
    if (!made) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the categories");
    made->model = model;
    made->user = rules;
    enum mp_status status = phases_find(model, &made->phases, error);
    if (!status) status = match_built_in(made, error);
    bool done = !status && made->by_rule && count_labels(made) && find_feeds(made);
    if (done && rules && rules->rules.count) done = (made->by_user = match_stacks(model, rules, true));
    if (done) {
        *categories = made;
        return MP_OK;
    }
    mp_categories_free(made);
    return status ? status : mp_fail(error, MP_NO_MEMORY, "not enough memory for the categories");
}

bool mp_categories_by_stack(const struct mp_model *model)
{
    struct mp_phases phases = {0};
    struct mp_error ignored;
    bool none = !model->labels.count && !mp_model_has_source(model, "torch") &&
                !phases_find(model, &phases, &ignored) && !phases.any;
    phases_free(&phases);
    return none;
}

void mp_categories_free(struct mp_categories *categories)
{
    if (!categories) return;
    phases_free(&categories->phases);
    mp_intern_free(&categories->keys);
    mp_vec_free(&categories->usual);
    free(categories->feeds);
    free(categories->by_user);
    free(categories->by_rule);
    free(categories);
}
