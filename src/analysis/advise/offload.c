#include <string.h>

#include "analysis/advise/passes.h"
#include "base/search.h"
#include "model/track.h"

/*
 * What forward keeps for backward waits in the CPU's memory: a block ends when forward lets go of it, and is made anew
 * just before the operator of backward that frees it. Parameters are kept likewise, and brought back as copies. With a
 * link's bandwidth, only blocks go that wait longer than their bytes take there and back.
 */

static uint64_t time_of(const struct mp_passes *p, uint32_t event)
{
    const struct mp_model *model = p->e->model;
    return event < model->events.count ? model->events.time_ns[event] : model->duration_ns;
}

/* The first act of the operator of backward that runs when an event comes; SIZE_MAX: none. */
static size_t user_of(const struct mp_passes *p, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(p->acts.count, i, p->acts.at[i].event < event);
    if (!before || mp_pass_phase(p, before - 1) != MP_PHASE_BACKWARD) return SIZE_MAX;
    return mp_pass_first(p, before - 1);
}

static bool is_too_short(const struct mp_passes *p, uint64_t bytes, uint32_t from, uint32_t to)
{
    double there_and_back = p->e->link ? 2e9 * (double)bytes / (double)p->e->link : 0;
    return (double)(time_of(p, to) - time_of(p, from)) < there_and_back;
}

static void move_blocks(const struct mp_passes *p, struct mp_change *change)
{
    const struct mp_model_blocks *blocks = &p->e->model->blocks;
    uint32_t first = MP_NONE; /* backward */
    for (size_t at = 0, next; at < p->acts.count; at = next) {
        next = mp_pass_next(p, at);
        uint32_t turn = mp_phase_turn_of(&p->e->phases, p->acts.at[at].event);
        uint32_t backward = turn == MP_NONE ? MP_NONE : p->e->phases.turns.at[turn].backward;
        if (mp_pass_phase(p, at) != MP_PHASE_FORWARD || backward == MP_NONE) continue;
        uint32_t start = p->e->phases.turns.at[backward].first;
        size_t reader = next < p->acts.count ? mp_pass_next(p, next) : next;
        for (size_t i = at; i < next; i++) {
            uint32_t block = p->acts.at[i].block, freed = blocks->free_event[block];
            if (freed == MP_NONE || freed < start || p->e->category[block] != MP_CATEGORY_ACTIVATIONS) continue;
            uint32_t gone = mp_pass_let_go(p, at, block, mp_pass_after(p, reader));
            size_t user = user_of(p, freed);
            if (gone >= start || user == SIZE_MAX) continue;
            uint32_t again = p->acts.at[user].event;
            uint64_t bytes = mp_pass_bytes(p, block);
            if (is_too_short(p, bytes, gone, again)) continue;
            const struct mp_edit_end end = {.block = block, .freed = gone};
            mp_vec_add(&change->edits.ends, end);
            mp_pass_add(p, change, block, bytes, again, freed);
            change->blocks++;
            if (first == MP_NONE) first = backward;
            if (first == backward) change->bytes += bytes;
        }
    }
}

static void bring_parameters(const struct mp_passes *p, struct mp_change *change)
{
    for (size_t at = 0, next; at < p->acts.count; at = next) {
        next = mp_pass_next(p, at);
        const struct mp_pass_act *act = &p->acts.at[at];
        uint64_t bytes = mp_pass_phase(p, at) == MP_PHASE_BACKWARD ? mp_pass_parameters(p, act->module) : 0;
        if (bytes && mp_pass_operator(p, at)->node)
            mp_pass_add(p, change, act->block, bytes, act->event, mp_pass_after(p, next));
    }
}

void mp_offload_find(struct mp_estimator *e, const struct mp_passes *passes)
{
    struct mp_change change = {
        .kind = MP_CHANGE_OFFLOAD, .what = MP_CHANGE_SAVE_ON_CPU, .estimated = true, .link = e->link};
    change.at_home = !strcmp(mp_track_device(e->model, e->history->track), "cpu");
    move_blocks(passes, &change);
    if (change.edits.ends.count) bring_parameters(passes, &change);
    mp_estimate_propose(e, &change);
}
