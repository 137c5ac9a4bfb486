#include "analysis/leaks/leak_causes.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leak_bounds.h"
#include "analysis/leaks/leak_confidence.h"
#include "base/order.h"

/* The holder of most bytes of a site, if the program is known to hold them; else NULL. */
static const struct mp_holder *holder_of(const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = site && site->count ? &holders->holders.at[site->first] : NULL;
    bool known = holder && ((holder->certain && holder->kind < MP_HOLDER_NATIVE) || mp_holder_is_cycle(holder) ||
                            mp_holder_is_native_graph(holder->path));
    return known ? holder : NULL;
}

static bool share_cause(const struct mp_holders *holders, const struct mp_leak_finding *a,
                        const struct mp_leak_finding *b)
{
    const struct mp_holder *one = holder_of(holders, a->held), *other = holder_of(holders, b->held);
    bool alike = mp_leak_is_leak(a) ? mp_leak_is_leak(b) : a->class == b->class;
    if (!one || !other || !alike) return false;
    size_t length = mp_holder_root(one->path);
    return length == mp_holder_root(other->path) && !memcmp(one->path, other->path, length);
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
        const struct mp_holder *holder = holder_of(holders, at[i].held);
        if (at[i].class == MP_LEAK_RETENTION && holder && mp_holder_awaits_gc(holder)) at[i].class = MP_LEAK_CYCLE;
        /* Python's collector does not free what a name leads to. */
        if (at[i].class == MP_LEAK_CYCLE && holder && !mp_holder_is_cycle(holder)) at[i].class = MP_LEAK_RETENTION;
        mp_leak_bound(model, steps, holders, stacks, &at[i]);
        mp_leak_confide(&at[i], holder, steps->guessed);
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
        at[i].follows = i && at[i].class == MP_LEAK_HIDDEN && at[i].bytes_per_step < at[0].sum.bytes_per_step;
        if (at[i].follows) at[i].confidence = MP_LEAK_POSSIBLE;
        leaks += first == i && mp_leak_is_leak(&at[i]) && !at[i].follows;
    }
    qsort(at, count, sizeof *at, by_cause);
    return leaks;
}
