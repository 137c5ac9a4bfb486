#include "analysis/leaks.h"

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error)
{
    *leaks = (struct mp_leaks){.verdict = MP_VERDICT_UNKNOWN};
    struct mp_live live = {0};
    struct mp_steps steps = {0};
    enum mp_status status = MP_OK;
    if (!mp_live_at(model, query->track, query->window.last, query->filter, &live) || !mp_steps_find(model, &steps))
        status = mp_fail(error, MP_NO_MEMORY, "not enough memory for the outstanding blocks");
    if (status == MP_OK) {
        leaks->step_count = (uint32_t)steps.count;
        leaks->step_source = mp_steps_source(&steps);
        status = mp_sites_make(model, &live, &steps, &query->grouping, &leaks->outstanding, error);
    }
    mp_live_free(&live);
    mp_steps_free(&steps);
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
}
