#include "analysis/leaks/leak_bounds.h"

#include "model/model.h"

/* The holder of nine in ten bytes of a site; NULL: there is none, or it is not certain. */
static const struct mp_holder *holder_of(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = site && site->count ? &holders->holders.at[site->first] : NULL;
    return holder && holder->certain && holder->bytes * 10 >= site->bytes * 9 ? holder : NULL;
}

/* True if the holder may stop growing at a number of entries that is not known: by its code, or since its keys come
 * again, so that fewer and fewer are new. */
static bool may_fill(const struct mp_holder *holder, const struct mp_leak_finding *finding)
{
    return mp_holder_may_be_bounded(holder) || (finding->change < 0 && holder->kind == MP_HOLDER_DICT);
}

/* True if containers with a bound, or with one that is not known, hold the blocks of all stacks. */
static bool are_stacks_bounded(const struct mp_holders *holders, const uint32_t *stacks,
                               const struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    for (size_t i = finding->first_stack; i < finding->first_stack + finding->stack_count; i++) {
        const struct mp_holder *holder = holder_of(holders, mp_holders_of(holders, finding->track, stacks[i]));
        if (!holder || !(mp_holder_is_bounded(holder, &entries, &most) || may_fill(holder, finding))) return false;
    }
    return true;
}

/* The number of steps in which blocks of the site were born that lived at its look. */
static uint64_t births_at_look(const struct mp_model *model, const struct mp_steps *steps,
                               const struct mp_holders_site *site)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t until = (uint32_t)model->events.count, last = MP_NONE;
    uint64_t births = 0;
    if (site->look < model->looks.count)
        until = mp_model_events_before(model, model->looks.at[site->look].time_ns, true);
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

void mp_leak_bound(const struct mp_model *model, const struct mp_steps *steps, const struct mp_holders *holders,
                   const uint32_t *stacks, struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    if (finding->regrown || !mp_leak_is_leak(finding) || finding->class == MP_LEAK_HIDDEN) return;
    const struct mp_holder *holder = holder_of(holders, finding->held);
    if (!holder || !are_stacks_bounded(holders, stacks, finding)) return;
    if (!mp_holder_is_bounded(holder, &entries, &most)) {
        if (!may_fill(holder, finding) || finding->why.freed) return; /* what dropped entries did not stop it */
        finding->class = MP_LEAK_BOUNDED;
        finding->entries = holder->blocks;
        return;
    }
    if (births_at_look(model, steps, finding->held) * 9 > entries * 10) return;
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
