#include "analysis/categories/categories.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/flow.h"
#include "analysis/categories/guesses.h"
#include "analysis/categories/phases.h"
#include "base/error.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"
#include "model/model.h"
#include "model/rules.h"
#include "model/stack_facts.h"

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
    [MP_CATEGORY_PREVIOUS] = "previous graph",
    [MP_CATEGORY_WORKING] = "working memory",
    [MP_CATEGORY_KEPT] = "kept over calls",
    [MP_CATEGORY_KV_CACHE] = "KV cache",
};

/* Facts of frames, and the categories that they show. The first that applies counts; `doubtless` facts count before
 * phases. */
static const struct {
    uint32_t fact;
    enum mp_category category;
    bool doubtless;
} shown[] = {
    {MP_FACT_WORKSPACE, MP_CATEGORY_WORKSPACE, true},
    {MP_FACT_COMMUNICATES, MP_CATEGORY_COMMUNICATION, true},
    {MP_FACT_ACCUMULATES, MP_CATEGORY_GRADIENTS, true},
    {MP_FACT_LOADS_DATA, MP_CATEGORY_INPUT, true},
    {MP_FACT_MAKES_STATE, MP_CATEGORY_OPTIMIZER_STATE, true},
    {MP_FACT_REPLICATES, MP_CATEGORY_PARAMETERS, true},
    {MP_FACT_MAKES_PARAMETERS, MP_CATEGORY_PARAMETERS, false},
    {MP_FACT_BUILDS_OPTIMIZER, MP_CATEGORY_OPTIMIZER_STATE, false},
};

#define SHOWN (sizeof shown / sizeof *shown)

/* The index of the first row whose fact is among `facts`; SHOWN: none. */
static size_t first_shown(uint32_t facts)
{
    size_t i = 0;
    while (i < SHOWN && !(facts & shown[i].fact))
        i++;
    return i;
}

bool mp_category_rule(size_t index, struct mp_category_rule *rule)
{
    const struct mp_stack_pattern *pattern = mp_stack_pattern(index);
    size_t i = pattern ? first_shown(pattern->fact) : SHOWN;
    if (i == SHOWN) return false;
    *rule = (struct mp_category_rule){names[shown[i].category], pattern->regex, shown[i].doubtless};
    return true;
}

/* Labels of the blocks of one stack, module and size: a count for each role. */
struct usual {
    uint32_t votes[MP_ROLES];
};

struct mp_categories {
    const struct mp_model *model;
    const struct mp_rules *user; /* may be NULL */
    uint16_t *by_user;           /* by stack: 1 + the user's first rule that fits; NULL: no rules */
    const struct mp_stack_facts *facts;
    struct mp_phases phases;
    struct mp_guesses guesses;
    uint32_t first_call;   /* in a program that only infers: the turn of the first call; else MP_NONE */
    unsigned char *feeds;  /* by stack: enum feeding */
    struct mp_intern keys; /* keys of `usual`: number N + 1 is usual[N] */
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

/* Parents come before children, so one pass over the nodes settles every stack. */
static uint16_t *match_stacks(const struct mp_model *model, const struct mp_rules *rules)
{
    struct mp_buffer scratch = {0};
    uint32_t *frames = mp_alloc((model->frames.count + 1) * sizeof *frames);
    uint16_t *stacks = mp_alloc_zeroed(model->stacks.count + 1, sizeof *stacks);
    for (uint32_t i = 0; i < model->frames.count; i++)
        frames[i] = mp_rules_find_frame(rules, model, i, &scratch);
    for (size_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t own = node->frame == MP_FRAME_CUT ? MP_NONE : frames[node->frame];
        uint16_t outer = stacks[node->parent];
        stacks[i] = own != MP_NONE && (!outer || own + 1 < outer) ? (uint16_t)(own + 1) : outer;
    }
    mp_buffer_free(&scratch);
    free(frames);
    return stacks;
}

const char *mp_category_phase(const struct mp_categories *categories, uint32_t moment)
{
    static const char *const words[MP_PHASES] = {[MP_PHASE_FORWARD] = "forward",
                                                 [MP_PHASE_RECOMPUTE] = "backward",
                                                 [MP_PHASE_BACKWARD] = "backward",
                                                 [MP_PHASE_OPTIMIZER] = "optimizer"};
    uint32_t turn = moment ? mp_phase_turn_of(&categories->phases, moment - 1) : MP_NONE;
    if (turn != MP_NONE && categories->guesses.inference[turn]) return "inference";
    return turn == MP_NONE ? NULL : words[categories->phases.turns.at[turn].phase];
}

/* The key of blocks that mostly get the same label: stack, module and size. */
static void usual_key(const struct mp_model *model, uint32_t block, uint64_t key[3])
{
    key[0] = model->blocks.stack[block];
    key[1] = mp_model_module(model, block);
    key[2] = model->blocks.bytes[block];
}

/* Each block votes once, with its first label. */
static void count_labels(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *label = &model->labels.at[i];
        uint64_t key[3];
        if (i && label[-1].block == label->block) continue;
        usual_key(model, label->block, key);
        uint32_t id = mp_intern_add(&categories->keys, (const char *)key, sizeof key);
        struct usual fresh = {{0}};
        if (id > categories->usual.count) mp_vec_add(&categories->usual, fresh);
        if (label->role < MP_ROLES) categories->usual.at[id - 1].votes[label->role]++;
    }
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
                                               [MP_ROLE_INPUT] = MP_CATEGORY_INPUT,
                                               [MP_ROLE_KV_CACHE] = MP_CATEGORY_KV_CACHE};
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

/* A block's life, counted in turns. */
struct life {
    const struct mp_phases *phases;
    uint32_t turn;  /* turn of its birth */
    uint32_t freed; /* turn of its free; MP_NONE: not freed in the recording */
};

static const struct mp_phase_turn *turn_at(const struct life *life, uint32_t index)
{
    return &life->phases->turns.at[index];
}

static bool lives_at(const struct life *life, uint32_t turn)
{
    return life->freed > turn_at(life, turn)->first;
}

/* The first turn after the birth with a phase outside of `mask`; MP_NONE. */
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
    uint32_t backward = turn_at(life, life->turn)->backward, next = life->turn + 1;
    if (backward == MP_NONE && next < life->phases->turns.count)
        backward = next; /* without a backward, the block must outlive the turn */
    bool lasts = backward == MP_NONE ? life->freed == MP_NONE : lives_at(life, backward);
    return lasts ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_TEMPORARY;
}

#define MADE_MEANWHILE  4096 /* events in which another thread's forward pass must allocate */
#define ROUNDS_OF_INPUT 4    /* rounds that may use a batch: it is fetched ahead, or shared by two networks */

/* True if the block is freed a few rounds after its birth. */
static bool is_passing(const struct life *life)
{
    uint32_t last = life->freed == MP_NONE ? MP_NONE : mp_phase_turn_of(life->phases, life->freed);
    return last != MP_NONE && turn_at(life, last)->round <= turn_at(life, life->turn)->round + ROUNDS_OF_INPUT;
}

/* True if a forward pass on another thread, in the turn of the block's birth, allocates during the block's life. */
static bool lives_during_forward(const struct mp_model *model, const struct life *life, uint32_t block)
{
    const struct mp_model_events *events = &model->events;
    uint32_t born = model->blocks.alloc_event[block];
    if (turn_at(life, life->turn)->phase != MP_PHASE_FORWARD || life->freed == MP_NONE) return false;
    for (uint32_t event = born + 1; event < life->freed && event - born < MADE_MEANWHILE; event++)
        if (events->type[event] == MP_EVENT_ALLOC &&
            mp_phase_of_block(life->phases, model, events->subject[event]) == MP_PHASE_FORWARD)
            return true;
    return false;
}

/* Blocks made between phases. A block that the next forward uses is its input, unless it is of a micro-batch's loss. A
 * block made after forward that lives
 * until backward belongs to the loss. `aside`: the block is of a thread that takes no turns, so it may be made at any
 * time. */
static enum mp_category of_outside(const struct mp_model *model, const struct life *life, uint32_t block, bool aside)
{
    unsigned before = 1u << MP_PHASE_OUTSIDE | 1u << MP_PHASE_BOUNDARY | 1u << MP_PHASE_OPTIMIZER;
    if (aside) before |= 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE;
    uint32_t next = turn_beyond(life, before), after = life->turn + 1;
    if (next != MP_NONE && lives_at(life, next) && is_passing(life)) {
        unsigned phase = turn_at(life, next)->phase;
        bool of_loss = mp_stack_facts(model)->of_stack[model->blocks.stack[block]] & MP_FACT_CLASS_LOSS;
        if (phase == MP_PHASE_FORWARD) return of_loss ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_INPUT;
        if (phase == MP_PHASE_BACKWARD || phase == MP_PHASE_RECOMPUTE) return MP_CATEGORY_ACTIVATIONS;
    }
    if (aside && is_passing(life) && lives_during_forward(model, life, block)) return MP_CATEGORY_INPUT;
    bool same = after < life->phases->turns.count ? !lives_at(life, after) : life->freed != MP_NONE;
    return same ? MP_CATEGORY_TEMPORARY : MP_CATEGORY_NONE;
}

/* What the log of operators knows of a block with a turn. What backward makes and frees is temporary, unless autograd
 * makes it a gradient. What backward reads was saved: an activation, or input if no parameter and no module had part in
 * it. */
static enum mp_category by_log(const struct life *life, unsigned flow, enum mp_phase phase)
{
    if (!(flow & MP_FLOW_TOLD)) return MP_CATEGORY_NONE;
    if (flow & MP_FLOW_GRADIENT) return MP_CATEGORY_GRADIENTS;
    if (phase == MP_PHASE_BACKWARD)
        return if_it_lasts(life, 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE, MP_CATEGORY_NONE);
    if (phase != MP_PHASE_OUTSIDE && phase != MP_PHASE_FORWARD) return MP_CATEGORY_NONE;
    if (flow & MP_FLOW_DERIVED) return flow & MP_FLOW_SAVED ? MP_CATEGORY_ACTIVATIONS : of_forward(life);
    if (!(flow & (MP_FLOW_SAVED | MP_FLOW_READ))) return MP_CATEGORY_NONE;
    if (phase == MP_PHASE_OUTSIDE) return MP_CATEGORY_INPUT;
    return flow & MP_FLOW_SAVED ? MP_CATEGORY_ACTIVATIONS : MP_CATEGORY_NONE;
}

/* A block freed after the last allocation lived to the end. If it was just made, that is unknown. */
#define EVENTS_OF_TEMPORARY 8

/* `round`: the round of its birth; 0: unknown. */
static enum mp_category by_turns(const struct mp_categories *categories, uint32_t block, uint32_t *round)
{
    const struct mp_model *model = categories->model;
    const struct mp_phases *phases = &categories->phases;
    uint32_t born = model->blocks.alloc_event[block], freed = model->blocks.free_event[block];
    *round = 0;
    if (!phases->any || born == MP_NONE || phases->last_alloc == MP_NONE ||
        model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_DRIVER)
        return MP_CATEGORY_NONE;
    struct life life = {phases, mp_phase_turn_of(phases, born), freed};
    uint32_t thread = model->events.thread[born];
    bool aside = thread < model->threads.count && !phases->works[thread];
    if (freed > phases->last_alloc && freed - born > EVENTS_OF_TEMPORARY) life.freed = MP_NONE;
    if (life.turn == MP_NONE)
        return aside && life.freed != MP_NONE && freed > turn_at(&life, 0)->first ? MP_CATEGORY_INPUT
                                                                                  : MP_CATEGORY_NONE;
    *round = turn_at(&life, life.turn)->round;
    enum mp_phase phase = mp_phase_of_block(phases, model, block);
    enum mp_category told = by_log(&life, phases->flow ? phases->flow[block] : 0, phase);
    if (told) return told;
    switch (phase) {
    case MP_PHASE_FORWARD:
    case MP_PHASE_RECOMPUTE:
        return of_forward(&life);
    case MP_PHASE_BACKWARD:
        return if_it_lasts(&life, 1u << MP_PHASE_BACKWARD | 1u << MP_PHASE_RECOMPUTE, MP_CATEGORY_GRADIENTS);
    case MP_PHASE_OPTIMIZER:
        return if_it_lasts(&life, 1u << MP_PHASE_OPTIMIZER, MP_CATEGORY_OPTIMIZER_STATE);
    default:
        return of_outside(model, &life, block, aside);
    }
}

/* True if a stack's blocks from before the first round are input. If there are few rounds, other blocks live like
 * input. So the stack must also make input in later rounds. A stack that joins its last tensor and a new one, again and
 * again, keeps what earlier calls made: such blocks are no input. */
enum feeding { FEEDING_UNASKED, FEEDING_ASKED, FEEDING_SURE, FEEDING_JOINED };

static enum mp_category by_life(const struct mp_categories *categories, uint32_t block)
{
    uint32_t round;
    enum mp_category category = by_turns(categories, block, &round);
    unsigned char feeds = categories->feeds[categories->model->blocks.stack[block]];
    if (category != MP_CATEGORY_INPUT || (round && feeds != FEEDING_JOINED)) return category;
    return feeds == FEEDING_JOINED ? MP_CATEGORY_KEPT : feeds == FEEDING_SURE ? category : MP_CATEGORY_NONE;
}

/* A stack joins its tensors if ROUNDS_OF_INPUT of them are outgrown for one that is not: when they are freed, its
 * latest is larger. Of batches of random sizes half are. */
static void find_joined(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    uint32_t *latest = mp_alloc_zeroed(model->stacks.count + 1, sizeof *latest);
    int64_t *outgrown = mp_alloc_zeroed(model->stacks.count + 1, sizeof *outgrown);
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] > MP_EVENT_FREE) continue;
        uint32_t stack = model->blocks.stack[block], *last = &latest[stack];
        if (model->events.type[event] == MP_EVENT_ALLOC) *last = block;
        if (*last != block)
            outgrown[stack] += model->blocks.bytes[*last] > model->blocks.bytes[block] ? 1 : -ROUNDS_OF_INPUT;
    }
    for (size_t i = 0; i < model->stacks.count; i++)
        if (outgrown[i] > 2 * ROUNDS_OF_INPUT && categories->facts->of_stack[i] & MP_FACT_JOINS)
            categories->feeds[i] = FEEDING_JOINED;
    free(latest);
    free(outgrown);
}

static void find_feeds(struct mp_categories *categories)
{
    const struct mp_model *model = categories->model;
    uint32_t round;
    categories->feeds = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (uint32_t block = 0; categories->phases.turns.count && block < model->blocks.count; block++) {
        unsigned char *feeds = &categories->feeds[model->blocks.stack[block]];
        if (by_turns(categories, block, &round) != MP_CATEGORY_INPUT) continue;
        *feeds = !round ? FEEDING_ASKED : *feeds ? FEEDING_SURE : FEEDING_UNASKED;
    }
}

static enum mp_category by_rule(const struct mp_categories *categories, uint32_t block, bool doubtless)
{
    size_t i = first_shown(categories->facts->inside[categories->model->blocks.stack[block]]);
    return i < SHOWN && (shown[i].doubtless || !doubtless) ? shown[i].category : MP_CATEGORY_NONE;
}

/* Blocks made by inference. They are kept if a later call's forward pass uses and frees them, or if they stay. */
static enum mp_category of_inference(const struct mp_categories *categories, uint32_t block)
{
    const struct mp_phases *phases = &categories->phases;
    const struct mp_model_blocks *blocks = &categories->model->blocks;
    uint32_t made = blocks->alloc_event[block], born = mp_phase_turn_of(phases, made);
    uint32_t freed = blocks->free_event[block];
    bool stays = freed == MP_NONE || (freed > phases->last_alloc && freed - made > EVENTS_OF_TEMPORARY);
    if (stays || categories->feeds[blocks->stack[block]] == FEEDING_JOINED) return MP_CATEGORY_KEPT;
    uint32_t gone = mp_phase_turn_of(phases, freed), calls = 0;
    for (uint32_t i = born + 1; i <= gone && calls < 2; i++)
        calls += phases->turns.at[i].phase == MP_PHASE_FORWARD;
    return calls > 1 || (calls && phases->turns.at[gone].phase == MP_PHASE_FORWARD) ? MP_CATEGORY_KEPT
                                                                                    : MP_CATEGORY_WORKING;
}

static bool is_of_inference(const struct mp_categories *categories, uint32_t block)
{
    uint32_t born = categories->model->blocks.alloc_event[block];
    uint32_t turn = born == MP_NONE ? MP_NONE : mp_phase_turn_of(&categories->phases, born);
    return turn != MP_NONE && categories->guesses.inference[turn] &&
           mp_phase_of_block(&categories->phases, categories->model, block) == MP_PHASE_FORWARD;
}

static uint32_t find_first_call(const struct mp_categories *categories)
{
    const struct mp_phases *phases = &categories->phases;
    for (uint32_t i = 0; i < phases->turns.count; i++)
        if (phases->turns.at[i].phase == MP_PHASE_FORWARD)
            return phases->turns.at[i].backward == MP_NONE && categories->guesses.inference[i] ? i : MP_NONE;
    return MP_NONE;
}

/* Blocks made between two calls, mostly from the first call's answer: tokens, scores, results. */
static bool is_between_calls(const struct mp_categories *categories, uint32_t block)
{
    const struct mp_model *model = categories->model;
    uint32_t born = model->blocks.alloc_event[block];
    if (categories->first_call == MP_NONE || born == MP_NONE) return false;
    if (model->tracks.at[model->blocks.track[block]].layer == MP_LAYER_DRIVER) return false;
    uint32_t turn = mp_phase_turn_of(&categories->phases, born);
    return turn != MP_NONE && turn > categories->first_call &&
           mp_phase_of_block(&categories->phases, model, block) == MP_PHASE_OUTSIDE;
}

/* The category by facts that are no guess. */
static enum mp_category known_category(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    enum mp_category category = by_label(categories, block, moment);
    if (category) return category;
    enum mp_category life = by_life(categories, block);
    if (life != MP_CATEGORY_TEMPORARY) category = by_usual_label(categories, block);
    if (!category) category = by_rule(categories, block, true);
    bool passes = life == MP_CATEGORY_TEMPORARY || life == MP_CATEGORY_ACTIVATIONS;
    if (!category && passes && is_of_inference(categories, block)) return of_inference(categories, block);
    if (!category) category = life;
    bool labelled = categories->model->labels.count; /* if the program labels blocks, the doubtful rules do not apply */
    if (!category && !labelled) category = by_rule(categories, block, false);
    return !category && is_between_calls(categories, block) ? of_inference(categories, block) : category;
}

static unsigned known_at_end(const void *context, uint32_t block)
{
    const struct mp_categories *categories = context;
    return known_category(categories, block, (uint32_t)categories->model->events.count);
}

unsigned mp_category_look(const struct mp_categories *categories, uint32_t block, uint32_t moment, bool *guessed)
{
    uint16_t rule = categories->by_user ? categories->by_user[categories->model->blocks.stack[block]] : 0;
    *guessed = false;
    if (rule) return category_named(categories, rule - 1u);
    enum mp_category category = known_category(categories, block, moment);
    unsigned guess = categories->guesses.of_block[block];
    *guessed = guess && guess != category;
    if (*guessed) category = (enum mp_category)guess;
    bool keys = categories->facts->of_stack[categories->model->blocks.stack[block]] & MP_FACT_KV_CACHE;
    if (category == MP_CATEGORY_KEPT && keys) return MP_CATEGORY_KV_CACHE;
    if (category == MP_CATEGORY_ACTIVATIONS &&
        mp_guesses_is_previous(&categories->guesses, categories->model, &categories->phases, block, moment)) {
        *guessed = true;
        return MP_CATEGORY_PREVIOUS;
    }
    return category;
}

unsigned mp_category_of(const struct mp_categories *categories, uint32_t block, uint32_t moment)
{
    bool guessed;
    return mp_category_look(categories, block, moment, &guessed);
}

const char *mp_category_of_block(const void *context, uint32_t block)
{
    const struct mp_categories *categories = context;
    uint32_t end = (uint32_t)categories->model->events.count;
    const char *name = mp_category_name(categories, mp_category_of(categories, block, end));
    return name ? name : "";
}

struct mp_categories *mp_categories_make(const struct mp_model *model, const struct mp_rules *rules)
{
    struct mp_categories *made = mp_alloc_zeroed(1, sizeof *made);
    made->model = model;
    made->user = rules;
    made->facts = mp_stack_facts(model);
    made->first_call = MP_NONE; /* not known yet while guesses are made */
    mp_phases_find(model, &made->phases);
    count_labels(made);
    find_feeds(made);
    find_joined(made);
    mp_guesses_find(model, &made->phases, known_at_end, made, &made->guesses);
    made->first_call = find_first_call(made);
    if (rules && rules->rules.count) made->by_user = match_stacks(model, rules);
    return made;
}

void mp_categories_free(struct mp_categories *categories)
{
    if (!categories) return;
    mp_phases_free(&categories->phases);
    mp_guesses_free(&categories->guesses);
    mp_intern_free(&categories->keys);
    mp_vec_free(&categories->usual);
    free(categories->feeds);
    free(categories->by_user);
    free(categories);
}
