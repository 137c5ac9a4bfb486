#include "analysis/leaks.h"

#include "analysis/growth.h"

static enum mp_status sites_at(const struct mp_model *model, const struct mp_leaks_query *query, uint32_t moment,
                               const struct mp_steps *steps, struct mp_sites *sites, struct mp_error *error)
{
    struct mp_live live = {0};
    enum mp_status status = MP_OK;
    if (!mp_live_at(model, query->track, moment, query->filter, &live))
        status = mp_fail(error, MP_NO_MEMORY, "not enough memory for the outstanding blocks");
    if (status == MP_OK) status = mp_sites_make(model, &live, steps, &query->grouping, sites, error);
    mp_live_free(&live);
    return status;
}

static enum mp_status find_held(const struct mp_model *model, const struct mp_leaks_query *query,
                                const struct mp_steps *steps, struct mp_leaks *leaks, struct mp_error *error)
{
    uint32_t moment;
    if (!mp_growth_moment(model, query->track, &query->window, steps, query->filter, &moment))
        return mp_fail(error, MP_NO_MEMORY, "not enough memory to look for what grows");
    leaks->held_moment = moment;
    leaks->held_ns = moment == query->window.last ? query->window.to_ns : model->events.time_ns[moment - 1];
    return sites_at(model, query, moment, steps, &leaks->held, error);
}

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error)
{
    *leaks = (struct mp_leaks){.verdict = MP_VERDICT_UNKNOWN};
    struct mp_steps steps = {0};
    enum mp_status status = MP_OK;
    if (!mp_steps_find(model, &steps)) status = mp_fail(error, MP_NO_MEMORY, "not enough memory for the steps");
    leaks->step_count = (uint32_t)steps.count;
    leaks->step_source = mp_steps_source(model, &steps);
    if (status == MP_OK) status = sites_at(model, query, query->window.last, &steps, &leaks->outstanding, error);
    if (status == MP_OK) status = find_held(model, query, &steps, leaks, error);
    mp_steps_free(&steps);
    if (status != MP_OK) mp_leaks_free(leaks);
    return status;
}

const char *mp_verdict_name(enum mp_verdict verdict)
{
    static const char *const names[] = {"leak", "clean", "unknown"};
    return names[verdict];
}

void mp_leaks_free(struct mp_leaks *leaks)
{
    mp_sites_free(&leaks->outstanding);
    mp_sites_free(&leaks->held);
}
