#include "analysis/advise/advise.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/advise/checkpoint.h"
#include "analysis/advise/held.h"
#include "analysis/advise/lifetimes.h"
#include "analysis/advise/tune_phases.h"
#include "analysis/leaks/leaks.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/search.h"
#include "base/words.h"
#include "model/module_path.h"
#include "model/steps_infer.h"
#include "model/track.h"

#define WORTH      100    /* a change must save at least 1/WORTH of the peak */
#define QUICK      100000 /* events of a recording whose settings are searched without being asked for */
#define WORTH_TIME 50     /* the same for a change that costs time */
#define COVERED    10     /* of a leak's blocks, fewer than 1/COVERED lack in a change that frees the others */

#define UNHELD_PART 10 /* if less of the peak has no holder, that it has none is no reason to look again */

#define MOST_PART 4 /* a name that holds less of the peak is not shown */

struct adviser {
    const struct mp_model *model;
    const struct mp_advise_query *query;
    struct mp_advise *advise;
    struct mp_torch_history history;
    struct mp_checkpoints *checkpoints;
};

/* The results of one replay with some of the changes made. */
struct outcome {
    uint64_t peak, reserved, ooms;
};

static const char *const kinds[MP_CHANGE_KINDS] = {"allocator", "checkpoint", "lifetime", "trial"};

const char *mp_change_kind_name(enum mp_change_kind kind)
{
    return kinds[kind];
}

const char *mp_change_pattern_name(enum mp_change_pattern pattern)
{
    static const char *const names[MP_CHANGE_PATTERNS] = {
        "settings",        "late_zero_grad", "gradients_kept", "gradients_idle",   "held_variables", "fused",
        "one_by_one",      "checkpoint",     "phase_settings", "one_stream",       "idle_variable",  "no_grad",
        "backward_sooner", "leak",           "chunked_loss",   "evaluation_batch", "collect",        "autocast",
        "garbage",         "cycle",          "kept_graph",     "eight_bit",        "sparse",         "gathered"};
    return names[pattern];
}

enum mp_change_kind mp_change_kind_named(const char *name)
{
    unsigned kind = 0;
    while (kind < MP_CHANGE_KINDS && strcmp(kinds[kind], name))
        kind++;
    return (enum mp_change_kind)kind;
}

unsigned mp_advise_quick_kinds(const struct mp_model *model)
{
    return model->events.count <= QUICK ? ~0u : ~(1u << MP_CHANGE_ALLOCATOR);
}

static bool is_wanted(const struct adviser *a, enum mp_change_kind kind)
{
    return a->query->kinds & 1u << kind;
}

/* `capacity`: the device's bytes in the replay; MP_BYTES_UNKNOWN: no limit. `curve` is NULL, or starts empty. */
static struct outcome replay(struct adviser *a, const struct mp_edits *edits, const struct mp_torch_settings *settings,
                             uint64_t capacity, struct mp_curve *curve)
{
    const struct mp_torch_history *history = &a->history;
    struct mp_torch_history edited = {0};
    struct mp_torch_replay result;
    struct mp_curve_maker maker = {0};
    mp_torch_watch *watch = curve ? mp_curve_watch : NULL;
    uint64_t total = a->advise->tuning.total == MP_BYTES_UNKNOWN ? (uint64_t)1 << 40 : a->advise->tuning.total;
    if (edits->ends.count || edits->extras.count || edits->one_stream) {
        mp_edits_apply(a->model, history, edits, &edited);
        history = &edited;
    }
    struct outcome outcome = {0};
    if (curve) mp_curve_start(&maker, a->model, history, curve);
    if (a->advise->has_allocator) {
        mp_torch_replay_watched(a->model, history, settings, capacity, total, watch, &maker, &result);
        outcome = (struct outcome){result.allocated_peak, result.reserved_peak, result.ooms};
    } else {
        outcome.peak = mp_edited_peak(a->model, history, watch, &maker);
    }
    mp_curve_end(&maker);
    if (history == &edited) mp_edited_free(&edited);
    return outcome;
}

static uint64_t less(uint64_t from, uint64_t pattern)
{
    return from > pattern ? from - pattern : 0;
}

static bool is_worth(const struct mp_advise *advise, const struct mp_change *change)
{
    unsigned parts = change->kind == MP_CHANGE_CHECKPOINT ? WORTH_TIME : WORTH;
    return (change->saved && change->saved >= advise->peak / parts) ||
           (mp_change_is_reserved(change) && change->saved_reserved >= advise->reserved / parts);
}

static void fill_savings(const struct mp_advise *advise, const struct outcome *outcome, struct mp_change *change)
{
    change->peak = outcome->peak;
    change->reserved = outcome->reserved;
    change->saved = less(advise->peak, outcome->peak);
    change->saved_reserved = less(advise->reserved, outcome->reserved);
}

/* The stack of the block that an event allocates, or 0. */
static uint32_t stack_at(const struct mp_model *model, uint32_t event)
{
    return model->events.type[event] == MP_EVENT_ALLOC ? model->blocks.stack[model->events.subject[event]] : 0;
}

static void add_setting(struct adviser *a, const struct mp_torch_settings *settings,
                        const struct mp_torch_replay *replay, const struct mp_tune_phased *phased)
{
    struct mp_advise *advise = a->advise;
    struct mp_buffer text = {0};
    mp_torch_settings_text(settings, &text);
    struct mp_change change = {.kind = MP_CHANGE_ALLOCATOR,
                               .pattern = phased ? MP_CHANGE_PHASE_SETTINGS : MP_CHANGE_SETTINGS,
                               .exact = advise->tuning.known,
                               .settings = *settings,
                               .setting = mp_text_copy_part((const char *)text.data, text.size),
                               .phased = phased,
                               .stack = phased ? stack_at(a->model, phased->event) : 0,
                               .driver_calls = replay->driver_calls,
                               .ooms = replay->ooms,
                               .ooms_before = advise->tuning.as_set.ooms,
                               .driver_calls_before = advise->tuning.as_set.driver_calls};
    const struct outcome outcome = {replay->allocated_peak, replay->reserved_peak, 0};
    fill_savings(advise, &outcome, &change);
    mp_buffer_free(&text);
    mp_vec_add(&advise->changes, change);
}

static void add_settings(struct adviser *a)
{
    const struct mp_tuning *tuning = &a->advise->tuning;
    for (size_t i = 0; i < tuning->found.count; i++)
        add_setting(a, &tuning->found.at[i].settings, &tuning->found.at[i].replay, NULL);
    for (size_t i = 0; i < tuning->phased.count; i++)
        add_setting(a, &tuning->phased.at[i].settings, &tuning->phased.at[i].replay, &tuning->phased.at[i]);
}

static void free_change(struct mp_change *change)
{
    free(change->setting);
    free(change->module);
    free(change->variable);
    mp_edits_free(&change->edits);
    mp_vec_free(&change->curve);
}

/* Replays the proposed changes, and drops those that lower nothing. */
static void prove(struct adviser *a, struct mp_changes *proposed)
{
    for (size_t i = 0; i < proposed->count; i++) {
        struct mp_change *change = &proposed->at[i];
        struct outcome outcome = replay(a, &change->edits, &a->history.settings, a->advise->tuning.capacity, NULL);
        fill_savings(a->advise, &outcome, change);
        if (is_wanted(a, change->kind) && is_worth(a->advise, change))
            mp_vec_add(&a->advise->changes, *change);
        else
            free_change(change);
    }
    mp_vec_free(proposed);
}

/* True if another kind of module saves as much at a lower cost. */
static bool is_outdone(const struct mp_advise *advise, size_t number)
{
    const struct mp_change *change = &advise->changes.at[number];
    for (size_t i = 0; change->pattern == MP_CHANGE_CHECKPOINTING && i < advise->changes.count; i++) {
        const struct mp_change *other = &advise->changes.at[i];
        if (other->pattern != MP_CHANGE_CHECKPOINTING || mp_change_saving(other) < mp_change_saving(change) ||
            mp_change_price(other) > mp_change_price(change))
            continue;
        if (mp_change_saving(other) > mp_change_saving(change) || mp_change_price(other) < mp_change_price(change) ||
            i < number)
            return true;
    }
    return false;
}

static void drop_outdone(struct mp_advise *advise)
{
    size_t kept = 0;
    unsigned char *gone = mp_alloc_zeroed(advise->changes.count + 1, 1);
    for (size_t i = 0; i < advise->changes.count; i++)
        gone[i] = is_outdone(advise, i);
    for (size_t i = 0; i < advise->changes.count; i++) {
        if (gone[i])
            free_change(&advise->changes.at[i]);
        else
            advise->changes.at[kept++] = advise->changes.at[i];
    }
    advise->changes.count = kept;
    free(gone);
}

/* PyTorch's allocator never gives one stream's segment to another stream, even an empty one. All requests go to the
 * stream with most bytes. The change names the stack with most bytes of the other streams. */
static void propose_one_stream(const struct adviser *a, struct mp_changes *proposed)
{
    struct mp_change change = {.kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_ONE_STREAM, .exact = a->history.traced};
    struct mp_map sums[2] = {{0}}; /* bytes by stream, and by stack of side streams */
    uint64_t most[2] = {0}, best[2] = {0};
    if (!a->advise->has_allocator) return;
    for (unsigned pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < a->history.steps.count; i++) {
            const struct mp_torch_step *step = &a->history.steps.at[i];
            bool known = step->action == MP_TORCH_ALLOC && step->block < a->model->blocks.count;
            if (!known || (pass && step->stream == best[0])) continue;
            if (pass == 2) change.blocks += a->model->blocks.stack[step->block] == best[1];
            if (pass == 2) continue;
            uint64_t key = pass ? a->model->blocks.stack[step->block] : step->stream;
            uint64_t *sum = mp_map_at(&sums[pass], key + 1, NULL);
            *sum += step->bytes;
            if (*sum > most[pass]) best[pass] = key;
            if (*sum > most[pass]) most[pass] = *sum;
        }
    change.edits.one_stream = true;
    change.edits.stream = best[0];
    change.stack = (uint32_t)best[1];
    change.bytes = most[1];
    if (change.blocks) mp_vec_add(proposed, change);
    mp_map_free(&sums[0]);
    mp_map_free(&sums[1]);
}

/* True if only a graph keeps the blocks, and no backward pass has run: nobody uses the graph so far. */
static bool is_unused_graph(const struct mp_leak_finding *finding, const struct mp_holder *holder)
{
    return finding->untrained && holder && strstr(holder->path, ".grad_fn");
}

/* Makes the change for a cause of a leak. The first finding of a cause has the sums of all its findings. All findings
 * without a known holder share one change: there is one thing to say of them. */
static struct mp_change leak_change(const struct mp_leaks *leaks, const struct mp_leak_finding *first)
{
    const struct mp_holders_site *held = first->held;
    const struct mp_holder *holder = held && held->count ? &leaks->holders.holders.at[held->first] : NULL;
    struct mp_change change = {
        .kind = MP_CHANGE_LIFETIME, .pattern = MP_CHANGE_LEAK, .exact = true, .stack = first->stack};
    if (holder && (holder->kind != MP_HOLDER_UNKNOWN || mp_holder_is_cycle(holder)))
        change.variable = mp_text_copy_part(holder->path, mp_holder_root(holder->path));
    change.advice = holder ? mp_holder_advice(holder) : NULL;
    if (!change.advice && mp_leak_is_leak(first)) change.advice = mp_leak_advice(first->class);
    return change;
}

/* By stack: 1 + the index of the change for the stack's leak; 0: the stack leaks nothing. */
static uint32_t *find_leaking(const struct adviser *a, const struct mp_leaks *leaks, struct mp_changes *changes)
{
    uint32_t *leaking = mp_alloc_zeroed(a->model->stacks.count + 1, sizeof *leaking), number = 0, unheld = 0;
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        if (finding->sum.sites) { /* the first finding of a cause */
            struct mp_change change = leak_change(leaks, finding);
            const struct mp_holders_site *held = finding->held;
            const struct mp_holder *holder = held && held->count ? &leaks->holders.holders.at[held->first] : NULL;
            bool waits = holder && mp_holder_awaits_gc(holder);
            change.before_backward = is_unused_graph(finding, holder);
            bool is_sure = finding->confidence != MP_LEAK_POSSIBLE || change.before_backward ||
                           (finding->twins.whole && change.variable); /* each repetition stays whole, and is held */
            bool keeps = mp_leak_is_leak(finding) && is_sure;
            /* If it waits for Python's collector, held.c knows how much of it is in use. */
            bool is_taken = keeps && !waits && finding->stack && finding->track == a->query->track;
            bool is_again = is_taken && !change.variable && unheld;
            number = !is_taken ? 0 : is_again ? unheld : (uint32_t)changes->count + 1;
            if (is_taken && !change.variable) unheld = number;
            if (is_taken && !is_again)
                mp_vec_add(changes, change);
            else
                free(change.variable);
        }
        for (size_t k = 0; number && k <= finding->stack_count; k++) {
            uint32_t stack = k ? leaks->stacks.at[finding->first_stack + k - 1] : finding->stack;
            if (!leaking[stack]) leaking[stack] = number;
        }
    }
    leaking[0] = 0;
    return leaking;
}

/* Ends each block of a leaking stack with its step, or at the site's next allocation. Goes from the last block to the
 * first: `next` is then the site's next allocation. */
static void end_leaks(const struct adviser *a, const uint32_t *leaking, struct mp_changes *changes)
{
    const struct mp_model_blocks *blocks = &a->model->blocks;
    struct mp_steps steps = {0};
    uint32_t *next = mp_alloc((a->model->stacks.count + 1) * sizeof *next);
    mp_steps_find(a->model, &steps);
    for (size_t i = 0; i <= a->model->stacks.count; i++)
        next[i] = MP_NONE;
    for (uint32_t block = (uint32_t)blocks->count; block--;) {
        uint32_t born = blocks->alloc_event[block], stack = blocks->stack[block];
        if (!leaking[stack] || born == MP_NONE || blocks->track[block] != a->query->track) continue;
        size_t step = MP_COUNT_BEFORE(steps.count, i, steps.at[i].first <= born);
        uint32_t end = step < steps.count ? steps.at[step].first : next[stack];
        next[stack] = born;
        if (end < blocks->free_event[block]) mp_change_end(&changes->at[leaking[stack] - 1], block, end);
    }
    free(next);
    mp_steps_free(&steps);
}

static enum mp_status propose_leaks(const struct adviser *a, struct mp_changes *proposed, struct mp_error *error)
{
    const struct mp_leaks_query query = {.track = a->query->track, .window = mp_window_all(a->model)};
    struct mp_leaks leaks;
    struct mp_changes changes = {0};
    if (!is_wanted(a, MP_CHANGE_LIFETIME)) return MP_OK;
    enum mp_status status = mp_leaks_find(a->model, &query, &leaks, error);
    if (status) return status;
    uint32_t *leaking = find_leaking(a, &leaks, &changes);
    if (changes.count) end_leaks(a, leaking, &changes);
    for (size_t i = 0; i < changes.count; i++) {
        mp_edits_sort(&changes.at[i].edits);
        if (changes.at[i].blocks)
            mp_vec_add(proposed, changes.at[i]);
        else
            free_change(&changes.at[i]);
    }
    mp_vec_free(&changes);
    free(leaking);
    mp_leaks_free(&leaks);
    return MP_OK;
}

/* True if a path leads through the variable that a change of no_grad names; `named` NULL: none does. */
static bool is_in(const char *path, const char *named)
{
    size_t length = named ? strlen(named) : 0;
    return path && length && !strncmp(path, named, length) && strchr("[.", path[length]);
}

/* Drops leaks whose blocks a change of no_grad frees, too, and what the variable holds that it names: it removes
 * the cause. Where memory ran out before a backward, drops checkpoints that free most of its blocks: none follows. */
static void drop_graphs(struct mp_advise *advise, size_t blocks)
{
    unsigned char *freed = mp_alloc_zeroed(blocks + 1, 1);
    const char *named = NULL; /* there is at most one such change */
    size_t kept = 0, all = 0;
    mp_vec_each (const struct mp_change, change, &advise->changes) {
        if (change->pattern != MP_CHANGE_NO_GRAD) continue;
        named = change->variable;
        all = change->edits.ends.count;
        mp_vec_each (const struct mp_edit_end, end, &change->edits.ends)
            freed[end->block] = 1;
    }
    for (size_t i = 0; i < advise->changes.count; i++) {
        struct mp_change *change = &advise->changes.at[i];
        size_t others = 0;
        mp_vec_each (const struct mp_edit_end, end, &change->edits.ends)
            others += !freed[end->block];
        if ((change->pattern == MP_CHANGE_LEAK && others * COVERED < change->edits.ends.count) ||
            (change->pattern == MP_CHANGE_CHECKPOINTING && change->before_backward && all &&
             (change->edits.ends.count - others) * 2 >= all) ||
            ((change->pattern == MP_CHANGE_KEPT_GRAPH || change->pattern == MP_CHANGE_IDLE_VARIABLE) &&
             is_in(change->variable, named)))
            free_change(change);
        else
            advise->changes.at[kept++] = *change;
    }
    advise->changes.count = kept;
    free(freed);
}

/* Puts leaks first. If leaks are most of the peak, drops the other changes: their peaks would include the leak. A graph
 * without a backward stays: it may be the leak. */
static void put_leaks_first(struct mp_advise *advise)
{
    uint64_t leaked = 0;
    size_t kept = 0;
    for (size_t i = 0; i < advise->changes.count; i++)
        if (advise->changes.at[i].pattern == MP_CHANGE_LEAK) leaked += advise->changes.at[i].saved;
    for (size_t i = 0; i < advise->changes.count; i++) {
        struct mp_change *change = &advise->changes.at[i];
        bool stays = change->pattern == MP_CHANGE_LEAK || change->pattern == MP_CHANGE_NO_GRAD ||
                     change->kind == MP_CHANGE_ALLOCATOR;
        if (leaked > advise->peak / 2 && !stays)
            free_change(change);
        else
            advise->changes.at[kept++] = *change;
    }
    advise->changes.count = kept;
}

/* With another form of a checkpoint's change. */
static uint64_t peak_of(struct adviser *a, const struct mp_change *change, enum mp_checkpoint_form form)
{
    struct mp_change other;
    mp_checkpoints_change(a->checkpoints, change->number, change->modules, form, &other);
    uint64_t peak = replay(a, &other.edits, &a->history.settings, a->advise->tuning.capacity, NULL).peak;
    free_change(&other);
    return peak;
}

static void add_checkpoints(struct adviser *a)
{
    if (!is_wanted(a, MP_CHANGE_CHECKPOINT)) return;
    a->checkpoints = mp_checkpoints_find(a->model, &a->history);
    for (size_t i = 0; i < mp_checkpoints_kinds(a->checkpoints); i++) {
        struct mp_changes one = {0};
        struct mp_change change;
        mp_checkpoints_change(a->checkpoints, i, mp_checkpoints_modules(a->checkpoints, i), MP_CHECKPOINT_AGAIN,
                              &change);
        change.number = i;
        mp_vec_add(&one, change);
        prove(a, &one);
    }
    drop_outdone(a->advise);
    mp_vec_each (struct mp_change, change, &a->advise->changes) {
        if (change->pattern != MP_CHANGE_CHECKPOINTING || change->before_backward) continue;
        change->reentrant_peak = peak_of(a, change, MP_CHECKPOINT_REENTRANT);
        if (mp_checkpoints_offload(a->checkpoints))
            change->offloaded_peak = peak_of(a, change, MP_CHECKPOINT_OFFLOADED);
    }
}

/* The saving that ranks a change: the measured one, if it was measured. */
static uint64_t rank_of(const struct mp_change *change)
{
    if (change->run == MP_RUN_ENDS) return UINT64_MAX - change->run_peak;
    if (change->run != MP_RUN_DONE) return change->run == MP_RUN_NONE ? mp_change_saving(change) : 0;
    return change->measured > change->measured_reserved ? change->measured : change->measured_reserved;
}

static int by_saving(const void *a, const void *b)
{
    const struct mp_change *x = a, *y = b;
    bool leaks = x->pattern == MP_CHANGE_LEAK, other = y->pattern == MP_CHANGE_LEAK;
    if (leaks != other) return leaks ? -1 : 1;
    if (rank_of(x) != rank_of(y)) return rank_of(x) < rank_of(y) ? 1 : -1;
    if (x->pattern != y->pattern) return x->pattern < y->pattern ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* ---- together */

static bool is_chosen(const struct mp_advise_fit *fit, size_t change)
{
    for (size_t i = 0; i < fit->changes.count; i++)
        if (fit->changes.at[i] == change) return true;
    return false;
}

static void join(const struct mp_change *change, struct mp_edits *edits, struct mp_torch_settings *settings)
{
    if (change->pattern == MP_CHANGE_SETTINGS)
        *settings = change->settings;
    else
        mp_edits_join(edits, &change->edits);
}

/* Replays the chosen changes and one more (NULL: no other). */
static struct outcome replay_chosen(struct adviser *a, const struct mp_change *more)
{
    const struct mp_advise *advise = a->advise;
    struct mp_edits edits = {0};
    struct mp_torch_settings settings = a->history.settings;
    for (size_t i = 0; i < advise->fit.changes.count; i++)
        join(&advise->changes.at[advise->fit.changes.at[i]], &edits, &settings);
    if (more) join(more, &edits, &settings);
    uint64_t room = less(advise->fit.capacity, advise->fit.outside);
    struct outcome outcome = replay(a, &edits, &settings, room, NULL);
    mp_edits_free(&edits);
    return outcome;
}

static bool does_fit(const struct mp_advise *advise, const struct outcome *outcome)
{
    uint64_t room = less(advise->fit.capacity, advise->fit.outside);
    return advise->has_allocator ? !outcome->ooms && outcome->reserved <= room : outcome->peak <= room;
}

/* True if the modules of one kind lie within those of the other. */
static bool overlap(const char *a, const char *b)
{
    size_t length = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
    return mp_module_is_under(a, b, length) && mp_module_is_under(b, a, length);
}

/* Two settings exclude one another, and two checkpoints of the same modules do, too. Settings for one phase combine
 * with nothing. */
static bool may_join(const struct mp_advise *advise, const struct mp_change *change)
{
    if (change->phased) return false;
    for (size_t i = 0; i < advise->fit.changes.count; i++) {
        const struct mp_change *chosen = &advise->changes.at[advise->fit.changes.at[i]];
        if (change->pattern == MP_CHANGE_SETTINGS && chosen->pattern == MP_CHANGE_SETTINGS) return false;
        if (change->module && chosen->module && overlap(change->module, chosen->module)) return false;
    }
    return true;
}

static bool is_less(const struct outcome *a, const struct outcome *b)
{
    if (a->ooms != b->ooms) return a->ooms < b->ooms;
    if (a->reserved != b->reserved) return a->reserved < b->reserved;
    return a->peak < b->peak;
}

/* Chooses the change that leaves the lowest peak; SIZE_MAX: no change lowers it. `twice`: among changes that cost time
 * or precision, otherwise among the others. */
static size_t find_next(struct adviser *a, bool twice, struct outcome *now)
{
    const struct mp_advise *advise = a->advise;
    size_t chosen = SIZE_MAX;
    for (size_t i = 0; i < advise->changes.count; i++) {
        const struct mp_change *change = &advise->changes.at[i];
        if (mp_change_is_dear(change) != twice || is_chosen(&advise->fit, i) || !may_join(advise, change)) continue;
        struct outcome outcome = replay_chosen(a, change);
        if (!is_less(&outcome, now) || (twice && outcome.peak >= now->peak)) continue;
        *now = outcome;
        chosen = i;
    }
    return chosen;
}

/* Finds the fewest modules of a kind whose checkpointing makes the program fit, with an allocated peak below `peak`. If
 * that change costs less than `cheapest`, it replaces `cheapest`. */
static void find_fewest(struct adviser *a, size_t kind, uint64_t peak, struct mp_change *cheapest, struct outcome *now)
{
    size_t low = 1, high = mp_checkpoints_modules(a->checkpoints, kind) + 1;
    while (low < high) {
        size_t modules = high > mp_checkpoints_modules(a->checkpoints, kind) ? high - 1 : low + (high - low) / 2;
        struct mp_change change;
        mp_checkpoints_change(a->checkpoints, kind, modules, false, &change);
        if (!may_join(a->advise, &change)) {
            free_change(&change);
            return;
        }
        struct outcome outcome = replay_chosen(a, &change);
        bool fits = does_fit(a->advise, &outcome) && outcome.peak < peak;
        if (!fits) low = modules + 1;
        if (fits) high = modules;
        if (fits && (!cheapest->module || mp_change_price(&change) < mp_change_price(cheapest))) {
            free_change(cheapest);
            *cheapest = change;
            *now = outcome;
        } else {
            free_change(&change);
        }
    }
}

/* Adds the cheapest checkpointing that makes the program fit. */
static void find_cheapest(struct adviser *a, struct outcome *now)
{
    struct mp_advise *advise = a->advise;
    struct mp_change change = {0};
    uint64_t peak = now->peak;
    for (size_t i = 0; i < mp_checkpoints_kinds(a->checkpoints); i++)
        find_fewest(a, i, peak, &change, now);
    if (!change.module) return;
    struct outcome alone = replay(a, &change.edits, &a->history.settings, advise->tuning.capacity, NULL);
    fill_savings(advise, &alone, &change);
    size_t at = 0;
    while (at < advise->changes.count &&
           (!advise->changes.at[at].module || strcmp(advise->changes.at[at].module, change.module) ||
            advise->changes.at[at].modules != change.modules))
        at++;
    mp_vec_add(&advise->fit.changes, at);
    if (at < advise->changes.count)
        free_change(&change);
    else
        mp_vec_add(&advise->changes, change);
}

/* Adds one change after the other until the program fits, each time the change that leaves the lowest peak. Changes
 * that cost no time come first. */
static void find_fit(struct adviser *a)
{
    struct mp_advise *advise = a->advise;
    struct mp_advise_fit *fit = &advise->fit;
    size_t chosen = 0;
    fit->capacity = a->query->capacity;
    if (!fit->capacity) return;
    const struct mp_tuning *t = &advise->tuning;
    if (advise->has_allocator && t->total != MP_BYTES_UNKNOWN && t->capacity != MP_BYTES_UNKNOWN)
        fit->outside = less(t->total, t->capacity);
    struct outcome now = replay_chosen(a, NULL);
    fit->fits_now = does_fit(advise, &now);
    for (bool twice = false; chosen != SIZE_MAX && !does_fit(advise, &now);) {
        if (twice) find_cheapest(a, &now);
        if (does_fit(advise, &now)) break;
        chosen = find_next(a, twice, &now);
        if (chosen != SIZE_MAX) mp_vec_add(&fit->changes, chosen);
        if (chosen != SIZE_MAX || twice) continue;
        twice = true;
        chosen = 0;
    }
    fit->fits = does_fit(advise, &now);
    fit->peak = now.peak;
    fit->reserved = now.reserved;
}

/* Sorts by saved bytes, most first. */
static void sort_changes(struct mp_advise *advise)
{
    size_t *places = mp_alloc_zeroed(advise->changes.count + 1, sizeof *places);
    for (size_t i = 0; i < advise->changes.count; i++)
        advise->changes.at[i].place = i;
    if (advise->changes.count) qsort(advise->changes.at, advise->changes.count, sizeof *advise->changes.at, by_saving);
    for (size_t i = 0; i < advise->changes.count; i++)
        places[advise->changes.at[i].place] = i;
    for (size_t i = 0; i < advise->fit.changes.count; i++)
        advise->fit.changes.at[i] = places[advise->fit.changes.at[i]];
    free(places);
}

static void draw_curves(struct adviser *a)
{
    for (size_t i = 0; i < a->advise->changes.count && i < a->query->curves; i++) {
        struct mp_change *change = &a->advise->changes.at[i];
        const struct mp_tune_phased *phased = change->phased;
        bool begins_with = change->pattern == MP_CHANGE_SETTINGS || (phased && phased->early);
        struct mp_torch_history whole = a->history;
        if (phased) mp_tune_phased_apply(&whole, phased, &a->history);
        replay(a, &change->edits, begins_with ? &change->settings : &whole.settings, a->advise->tuning.capacity,
               &change->curve);
        if (phased) mp_tune_phased_free(&a->history);
        a->history = whole;
    }
}

/* No rule knows whether the program still needs what its names hold, so that is no change. */
static void find_most(struct adviser *a)
{
    struct mp_advise *advise = a->advise;
    advise->most = mp_held_most_find(a->model, advise->track);
    bool worth = advise->most.bytes >= advise->peak / MOST_PART;
    mp_vec_each (const struct mp_change, change, &advise->changes)
        worth &= change->saved < advise->most.bytes / 5 * 4;
    if (worth) return;
    free(advise->most.path);
    advise->most = (struct mp_held_most){0};
}

static void begin(struct adviser *a)
{
    struct mp_advise *advise = a->advise;
    const struct mp_model *model = a->model;
    advise->has_allocator = model->tracks.at[advise->track].layer == MP_LAYER_TORCH &&
                            !strncmp(mp_track_device(model, advise->track), "cuda", strlen("cuda"));
    advise->peak = model->sums.at[advise->track].peak_bytes;
    mp_torch_history_make(model, advise->track, true, &a->history);
    advise->replayed = a->history.steps.count;
    advise->has_allocator = advise->has_allocator && advise->replayed;
    if (advise->replayed && !advise->has_allocator) {
        /* A folded recording may lack the events of its peak. */
        uint64_t replayed = mp_edited_peak(model, &a->history, NULL, NULL);
        if (replayed < advise->peak) advise->peak = replayed;
    }
    if (!advise->has_allocator) return;
    bool search = is_wanted(a, MP_CHANGE_ALLOCATOR);
    mp_tune(model, &a->history, search, a->query->progress, a->query->context, &advise->tuning);
    if (search) mp_tune_phases(model, &a->history, &advise->tuning);
    advise->reserved = advise->tuning.reserved;
    /* Requested bytes, not block sizes. */
    bool requested = model->tracks.at[advise->track].size_basis == MP_BASIS_REQUESTED;
    if (requested || advise->tuning.as_set.allocated_peak < advise->peak)
        advise->peak = advise->tuning.as_set.allocated_peak;
}

enum mp_status mp_advise_find(const struct mp_model *model, const struct mp_advise_query *query,
                              struct mp_advise *advise, struct mp_error *error)
{
    struct adviser a = {.model = model, .query = query, .advise = advise};
    struct mp_changes proposed = {0};
    *advise =
        (struct mp_advise){.track = query->track, .tuning = {.capacity = MP_BYTES_UNKNOWN, .total = MP_BYTES_UNKNOWN}};
    if (mp_model_sample_of(model, query->track))
        return mp_fail(error, MP_UNSUPPORTED,
                       "the recording has a sample of these blocks (%s), so savings by the other blocks are not known",
                       model->tracks.at[query->track].layer == MP_LAYER_MALLOC ? "--host" : "--sample");
    begin(&a);
    add_settings(&a);
    mp_lifetimes_propose(model, &a.history, &proposed);
    propose_one_stream(&a, &proposed);
    enum mp_status status = propose_leaks(&a, &proposed, error);
    if (!status) mp_held_propose(model, query->track, &proposed);
    prove(&a, &proposed);
    add_checkpoints(&a);
    drop_graphs(advise, model->blocks.count);
    put_leaks_first(advise);
    sort_changes(advise);
    find_fit(&a);
    sort_changes(advise);
    if (!advise->changes.count) advise->unheld = mp_held_unknown(model, query->track);
    if (advise->unheld * UNHELD_PART < advise->peak) advise->unheld = 0;
    find_most(&a);
    draw_curves(&a);
    mp_checkpoints_free(a.checkpoints);
    mp_torch_history_free(&a.history);
    if (status) mp_advise_free(advise);
    return status;
}

void mp_advise_add_trials(struct mp_advise *advise)
{
    bool has_garbage = false; /* its run collects after each step, too */
    mp_vec_each (const struct mp_change, change, &advise->changes)
        has_garbage |= change->pattern == MP_CHANGE_GARBAGE;
    for (enum mp_change_pattern pattern = MP_CHANGE_COLLECT + has_garbage; pattern <= MP_CHANGE_AUTOCAST; pattern++)
        mp_vec_add(&advise->changes, ((struct mp_change){.kind = MP_CHANGE_TRIAL, .pattern = pattern}));
}

void mp_advise_settle_trials(struct mp_advise *advise)
{
    size_t kept = 0;
    for (size_t i = 0; i < advise->changes.count; i++) {
        struct mp_change *change = &advise->changes.at[i];
        bool tried = change->run == MP_RUN_DONE, ends = change->run == MP_RUN_ENDS;
        bool saves = (change->measured && change->measured >= advise->peak / WORTH) ||
                     (change->measured_reserved && change->measured_reserved >= advise->reserved / WORTH);
        bool is_dropped = !ends && (tried ? !saves : change->kind == MP_CHANGE_TRIAL);
        advise->saved_nothing += tried && !saves;
        if (is_dropped)
            free_change(change);
        else
            advise->changes.at[kept++] = *change;
    }
    advise->changes.count = kept;
    advise->fit = (struct mp_advise_fit){0};
    sort_changes(advise);
}

void mp_advise_free(struct mp_advise *advise)
{
    for (size_t i = 0; i < advise->changes.count; i++)
        free_change(&advise->changes.at[i]);
    mp_vec_free(&advise->changes);
    mp_vec_free(&advise->fit.changes);
    free(advise->most.path);
    mp_tuning_free(&advise->tuning);
}
