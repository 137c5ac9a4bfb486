#include "analysis/leaks/leak_causes.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_limits.h"
#include "base/order.h"
#include "base/words.h"
#include "model/model.h"
#include "model/spans.h"

/* The holder of nearly all bytes of a site; NULL: there is none, or it is not certain. */
static const struct mp_holder *holder_of(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = site && site->count ? &holders->holders.at[site->first] : NULL;
    return holder && holder->certain && holder->bytes + site->bytes / MP_LEAK_EXCEPTIONS >= site->bytes ? holder : NULL;
}

/* True if the holder may stop growing at a number of entries that is not known: by its code, or since its keys come
 * again, so that fewer and fewer are new. */
static bool may_fill(const struct mp_holder *holder, const struct mp_leak_finding *finding)
{
    return mp_holder_may_be_bounded(holder) || (finding->change < 0 && holder->kind == MP_HOLDER_DICT);
}

static bool is_bounded(const struct mp_holder *holder, const struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    return mp_holder_is_bounded(holder, &entries, &most) || may_fill(holder, finding);
}

static bool is_read_later(const struct mp_holder *holder, const struct mp_leak_finding *finding)
{
    uint32_t line;
    (void)finding;
    return mp_holder_later(holder, &line) == MP_HOLDER_READ_LATER;
}

/* True if holders for which `is` holds have the blocks of all stacks. */
static bool are_all_held(const struct mp_holders *holders, const uint32_t *stacks,
                         const struct mp_leak_finding *finding,
                         bool is(const struct mp_holder *, const struct mp_leak_finding *))
{
    for (size_t i = finding->first_stack; i < finding->first_stack + finding->stack_count; i++) {
        const struct mp_holder *holder = holder_of(holders, mp_holders_of(holders, finding->track, stacks[i]));
        if (!holder || !is(holder, finding)) return false;
    }
    return true;
}

/* True if entries of the holder's container keep graphs, which nobody wants. */
static bool keeps_graphs(const struct mp_holders *holders, const struct mp_holder *holder)
{
    size_t length = mp_holder_root(holder->path);
    mp_vec_each (const struct mp_holder, other, &holders->holders) {
        if (mp_holder_root(other->path) == length && !memcmp(other->path, holder->path, length) &&
            strstr(other->path, ".grad_fn"))
            return true;
    }
    return false;
}

/* Makes a leak a finding of class kept if code behind the loop reads the blocks that the loop collects. */
static void leak_keep(const struct mp_holders *holders, const uint32_t *stacks, struct mp_leak_finding *finding)
{
    const struct mp_holder *holder = holder_of(holders, finding->held);
    if (finding->regrown || !mp_leak_is_leak(finding) || !holder || !is_read_later(holder, finding) ||
        keeps_graphs(holders, holder) || !are_all_held(holders, stacks, finding, is_read_later))
        return;
    mp_holder_later(holder, &finding->read_line);
    finding->class = MP_LEAK_KEPT;
}

/* The number of events before the site's look. */
static uint32_t events_until(const struct mp_model *model, const struct mp_holders_site *site)
{
    return site->look < model->looks.count ? mp_model_events_before(model, model->looks.at[site->look].time_ns, true)
                                           : (uint32_t)model->events.count;
}

/* True if code has dropped some of the site's blocks before the look, a later step than made them, and the others still
 * grew. A program that ends drops all of them. */
static bool dropped_some(const struct mp_model *model, const struct mp_steps *steps, const struct mp_holders_site *site)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t until = events_until(model, site);
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->stack[i] == site->stack && blocks->track[i] == site->track && blocks->alloc_event[i] != MP_NONE &&
            blocks->free_event[i] < until &&
            mp_step_of(steps, blocks->alloc_event[i]) + 1 < mp_step_of(steps, blocks->free_event[i]))
            return true;
    return false;
}

/* The number of steps in which blocks of the site were born that lived at its look. */
static uint64_t births_at_look(const struct mp_model *model, const struct mp_steps *steps,
                               const struct mp_holders_site *site)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t until = events_until(model, site), last = MP_NONE;
    uint64_t births = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        uint32_t born = blocks->alloc_event[i];
        if (blocks->stack[i] != site->stack || blocks->track[i] != site->track || born == MP_NONE || born >= until ||
            blocks->free_event[i] < until)
            continue;
        uint32_t step = mp_step_of(steps, born);
        births += step != last;
        last = step;
    }
    return births;
}

/* True if blocks were born in more steps than their container has entries: it is the entries that grow. */
static bool do_entries_grow(const struct mp_model *model, const struct mp_steps *steps,
                            const struct mp_holders_site *site, uint64_t entries)
{
    uint64_t births = births_at_look(model, steps, site);
    return births > entries + births / MP_LEAK_EXCEPTIONS;
}

/* Makes a leak a finding of class bounded if a container with a bound holds its blocks, unless memory runs out first.
 * `stacks`: the stacks of the findings. */
static void leak_bound(const struct mp_model *model, const struct mp_steps *steps, const struct mp_holders *holders,
                       const uint32_t *stacks, struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    if (finding->regrown || !mp_leak_is_leak(finding) || finding->class == MP_LEAK_HIDDEN) return;
    const struct mp_holder *holder = holder_of(holders, finding->held);
    if (!holder || !are_all_held(holders, stacks, finding, is_bounded)) return;
    if (!mp_holder_is_bounded(holder, &entries, &most)) {
        if (!may_fill(holder, finding) || dropped_some(model, steps, finding->held)) return;
        finding->class = MP_LEAK_BOUNDED;
        finding->entries = holder->blocks;
        return;
    }
    if (do_entries_grow(model, steps, finding->held, entries)) return;
    double each = (double)finding->held->bytes / (double)entries;
    uint64_t now = each > 0 ? (uint64_t)((double)finding->bytes / each + 0.5) : most;
    finding->entries = now < most ? now : most;
    finding->most = most;
    finding->to_come = (uint64_t)((double)(most - finding->entries) * each);
    if (finding->eta_oom_steps != UINT64_MAX &&
        (double)finding->to_come > (double)finding->eta_oom_steps * finding->bytes_per_step)
        return;
    finding->class = MP_LEAK_BOUNDED;
    if (finding->at_twice > finding->bytes + finding->to_come) finding->at_twice = finding->bytes + finding->to_come;
    finding->eta_oom_steps = UINT64_MAX;
}

/* The holder of most bytes of a site, if the program is known to hold them; else NULL. */
static const struct mp_holder *known_holder(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = site && site->count ? &holders->holders.at[site->first] : NULL;
    bool known = holder && ((holder->certain && holder->kind < MP_HOLDER_NATIVE) || mp_holder_is_cycle(holder) ||
                            mp_holder_is_native_graph(holder->path));
    return known ? holder : NULL;
}

/* True if both paths begin in the same container. */
static bool have_one_root(const struct mp_holder *one, const struct mp_holder *other)
{
    size_t length = one && other ? mp_holder_root(one->path) : 0;
    return one && other && length == mp_holder_root(other->path) && !memcmp(one->path, other->path, length);
}

/* True if code fills another container, without a bound, with a part of the site's blocks. */
static bool fills_another(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    uint64_t entries, most;
    for (size_t i = site->first + 1; i < site->first + site->count; i++) {
        const struct mp_holder *other = &holders->holders.at[i];
        if (other->line && strstr(other->path, "[*]") && !mp_holder_is_bounded(other, &entries, &most)) return true;
    }
    return false;
}

/* Makes a leak a finding of class bounded if most of its blocks lie in a container that bounds another finding, and no
 * code fills another one with the rest. These have second names, as a batch that was drawn from a replay buffer. */
static void leak_share_bound(const struct mp_model *model, const struct mp_steps *steps,
                             const struct mp_leak_findings *findings, const struct mp_holders *holders,
                             struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    const struct mp_holder *holder = known_holder(holders, finding->held);
    if (finding->regrown || !mp_leak_is_leak(finding) || !holder || holder->bytes * 2 < finding->held->bytes ||
        !mp_holder_is_bounded(holder, &entries, &most) || do_entries_grow(model, steps, finding->held, entries) ||
        fills_another(holders, finding->held))
        return;
    for (size_t i = 0; i < findings->count; i++) {
        const struct mp_leak_finding *other = &findings->at[i];
        if (other->class != MP_LEAK_BOUNDED || !have_one_root(holder, known_holder(holders, other->held))) continue;
        finding->class = MP_LEAK_BOUNDED;
        finding->entries = other->entries;
        finding->most = most;
        finding->to_come = (most - other->entries) * (finding->held->bytes / entries);
        finding->eta_oom_steps = UINT64_MAX;
        return;
    }
}

/* True if a program's name leads to the blocks: not native code, no cycle that only the collector knows. */
static bool is_from_root(const struct mp_holder *holder)
{
    return holder && holder->certain && holder->kind < MP_HOLDER_NATIVE && !mp_holder_is_cycle(holder) &&
           !mp_holder_is_native_graph(holder->path);
}

/* True if the blocks are saved for a backward pass, and none has run: the first one may free them. */
static bool awaits_backward(const struct mp_leak_finding *finding, const struct mp_holder *holder)
{
    return finding->untrained && holder && strstr(holder->path, ".grad_fn");
}

/* True if the holder has most of the blocks that the look saw, and the look saw not too few. */
static bool explains(const struct mp_leak_finding *finding, const struct mp_holder *holder)
{
    return !finding->held || (holder->blocks * 2 >= finding->held->blocks &&
                              finding->held->blocks * MP_LEAK_SEEN_PART >= finding->blocks);
}

static bool awaits_gc(const struct mp_holder *holder)
{
    return holder && mp_holder_awaits_gc(holder);
}

/* The first missing fact; NULL: none. */
static const char *missing_fact(const struct mp_leak_finding *finding, const struct mp_holder *holder, bool guessed)
{
    bool each = finding->births >= MP_LEAK_EACH_STEP * finding->why.steps;
    if (finding->class == MP_LEAK_HIDDEN) return "no recorded block explains the growth";
    if (finding->maybe_request) return "the steps may be one request or forward, whose blocks are freed when it ends";
    if (awaits_gc(holder)) return "Python's collector would free the blocks, and the program has switched it off";
    if (guessed) return "the steps are guessed from the order of allocations";
    if (!holder) return "no look for holders found a path to the blocks";
    if (!explains(finding, holder)) return "no look saw most of the blocks at one holder";
    if (!is_from_root(holder)) return "the path to the blocks does not begin at a name of the program";
    if (finding->twins.whole) return "it did not grow in each step, and in few repetitions";
    if (finding->why.old_freed) return "some of its blocks were freed after many steps";
    if (!each) return "it did not grow in each step";
    if (finding->regrown) return "its buffer may be a part of the work that grows";
    if (holder->kind == MP_HOLDER_DICT || holder->kind == MP_HOLDER_CACHE)
        return "the keys of what holds the blocks may come again";
    uint32_t line;
    if (mp_holder_later(holder, &line))
        return "code behind the loop counts the entries of what holds the blocks, or takes one";
    return NULL;
}

/* Sets confidence and missing. `holder`: of most of its blocks, NULL: not known; `guessed`: the steps were guessed. */
static void leak_confide(struct mp_leak_finding *finding, const struct mp_holder *holder, bool guessed)
{
    if (finding->class == MP_LEAK_BOUNDED) { /* the bound was read: from the container, or from code */
        bool by_code = holder && mp_holder_bound_is_code(holder);
        finding->confidence = !finding->most ? MP_LEAK_POSSIBLE : by_code ? MP_LEAK_PROBABLE : MP_LEAK_CERTAIN;
        finding->missing = finding->most ? by_code ? "the code that keeps the bound may not always run" : NULL
                           : !holder || mp_holder_may_be_bounded(holder)
                               ? "its code drops entries beyond a number that is not known"
                               : "it grows more and more slowly, as if its keys came again";
        return;
    }
    if (finding->class == MP_LEAK_GARBAGE) {
        finding->confidence = finding->why.freed ? MP_LEAK_CERTAIN : MP_LEAK_PROBABLE;
        finding->missing = finding->why.freed ? NULL : "the collector has freed none of it so far";
        finding->eta_oom_steps = UINT64_MAX;
    }
    if (!mp_leak_is_leak(finding)) return;
    bool rooted = is_from_root(holder);
    finding->maybe_request |= awaits_backward(finding, holder);
    finding->missing = missing_fact(finding, holder, guessed);
    bool otherwise = finding->maybe_request || guessed || (finding->twins.whole && !rooted);
    finding->confidence = otherwise ? MP_LEAK_POSSIBLE : finding->missing ? MP_LEAK_PROBABLE : MP_LEAK_CERTAIN;
}

static bool share_cause(const struct mp_holders *holders, const struct mp_leak_finding *a,
                        const struct mp_leak_finding *b)
{
    bool alike = mp_leak_is_leak(a) ? mp_leak_is_leak(b) : a->class == b->class;
    return alike && have_one_root(known_holder(holders, a->held), known_holder(holders, b->held));
}

/* The largest of the track's blocks that lived within one step. malloc() maps larger ones than MP_LEAK_MAPPED_FROM by
 * themselves. */
static uint64_t largest_temporary(const struct mp_model *model, const struct mp_steps *steps, uint16_t track)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint64_t most = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->track[i] != track || blocks->alloc_event[i] == MP_NONE || blocks->bytes[i] <= most ||
            blocks->bytes[i] > MP_LEAK_MAPPED_FROM || blocks->free_event[i] >= model->events.count)
            continue;
        if (mp_step_of(steps, blocks->alloc_event[i]) == mp_step_of(steps, blocks->free_event[i]))
            most = blocks->bytes[i];
    }
    return most;
}

/* True if holes may be what grows on the host: a block that stays lies where a temporary one was, and the next
 * temporary one does not fit into the rest. */
static bool may_be_holes(const struct mp_model *model, const struct mp_steps *steps,
                         const struct mp_leak_findings *findings, const struct mp_leak_finding *hidden)
{
    uint32_t device = model->tracks.at[hidden->track].device;
    double holes = 0;
    if (hidden->shared || strcmp(mp_model_text(model, model->devices.at[device].name), "cpu") != 0) return false;
    for (uint16_t track = 0; track < model->tracks.count; track++) {
        double blocks_per_step = 0;
        if (model->tracks.at[track].device != device || model->tracks.at[track].layer != MP_LAYER_TORCH) continue;
        mp_vec_each (const struct mp_leak_finding, finding, findings)
            blocks_per_step += finding->track == track && finding->blocks_per_step > 0 ? finding->blocks_per_step : 0;
        if (blocks_per_step > 0) holes += blocks_per_step * (double)largest_temporary(model, steps, track);
    }
    return hidden->bytes_per_step <= holes;
}

MP_ORDER(by_cause, struct mp_leak_finding, MP_RISING(cause) ?: mp_leak_by_rate(a, b))

uint32_t mp_leak_causes_find(const struct mp_model *model, const struct mp_steps *steps, const uint32_t *stacks,
                             struct mp_holders *holders, struct mp_leak_findings *findings)
{
    size_t count = findings->count;
    struct mp_leak_finding *at = findings->at;
    uint32_t leaks = 0;
    if (!count) return 0;
    mp_holders_find(model, false, holders);
    for (size_t i = 0; i < count; i++) {
        at[i].held = at[i].stack ? mp_holders_of(holders, at[i].track, at[i].stack) : NULL;
        const struct mp_holder *holder = known_holder(holders, at[i].held);
        bool is_made_by_python = at[i].class == MP_LEAK_RETENTION || at[i].class == MP_LEAK_CYCLE;
        if (is_made_by_python && awaits_gc(holder))
            at[i].class = mp_holder_gc_is_off(holder) ? MP_LEAK_CYCLE : MP_LEAK_GARBAGE;
        /* Python's collector does not free what a name leads to. */
        if (at[i].class == MP_LEAK_CYCLE && holder && !mp_holder_is_cycle(holder)) at[i].class = MP_LEAK_RETENTION;
        leak_bound(model, steps, holders, stacks, &at[i]);
        leak_keep(holders, stacks, &at[i]);
    }
    for (size_t i = 0; i < count; i++) {
        leak_share_bound(model, steps, findings, holders, &at[i]);
        leak_confide(&at[i], known_holder(holders, at[i].held), steps->guessed);
    }
    qsort(at, count, sizeof *at, mp_leak_by_rate);
    for (size_t i = 0, causes = 0; i < count; i++) {
        size_t first = 0;
        while (first < i && !(at[first].sum.sites && share_cause(holders, &at[first], &at[i])))
            first++;
        at[i].cause = first < i ? at[first].cause : (uint32_t)causes++;
        at[first].sum.sites++;
        at[first].sum.bytes += at[i].bytes;
        at[first].sum.blocks += at[i].blocks;
        at[first].sum.bytes_per_step += at[i].bytes_per_step;
        at[first].sum.blocks_per_step += at[i].blocks_per_step;
        at[i].follows = at[i].class == MP_LEAK_HIDDEN && ((i && at[i].bytes_per_step < at[0].sum.bytes_per_step) ||
                                                          may_be_holes(model, steps, findings, &at[i]));
        if (at[i].follows) at[i].confidence = MP_LEAK_POSSIBLE;
        leaks += first == i && mp_leak_is_leak(&at[i]) && !at[i].follows;
    }
    qsort(at, count, sizeof *at, by_cause);
    return leaks;
}
