#include "analysis/categories/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/vec.h"

#define WAITS 64 /* in addition to enum mp_flow */

/* Uses outside of backward, in order of time. The rows of one operator have one time, except that of a block which it
 * allocated: that has the time of the allocation. */
struct moment {
    uint64_t time_ns;
    uint32_t use;
};
struct moments {
    struct moment *at;
    size_t count, room;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    return x->time_ns != y->time_ns ? (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns)
                                    : (x->use > y->use) - (x->use < y->use);
}

static void take_use(const struct mp_model *model, const struct mp_model_use *use, unsigned char *flow)
{
    bool accumulates = use->node && strstr(mp_model_text(model, use->node), "AccumulateGrad");
    if (use->how & MP_USE_MADE) *flow |= MP_FLOW_TOLD | (use->node ? MP_FLOW_BACKWARD : 0);
    if (accumulates && use->how & (MP_USE_MADE | MP_USE_WRITTEN | MP_USE_VIEW | MP_USE_OUTPUT))
        *flow |= MP_FLOW_GRADIENT;
    if (use->node && use->how & (MP_USE_READ | MP_USE_VIEW) && !(*flow & MP_FLOW_BACKWARD)) *flow |= MP_FLOW_SAVED;
}

/* The blocks that an operator allocated wait for its end, which has its arguments. */
static void derive(const struct mp_model *model, const struct moments *moments, unsigned char *flow)
{
    struct mp_map waiting = {0}; /* by operator + 1: the last block + 1 that it allocated */
    uint32_t *before = mp_alloc_zeroed(model->blocks.count + 1, sizeof *before); /* the one before it, + 1 */
    for (size_t i = 0, end; i < moments->count; i = end) {
        const struct mp_model_use *first = &model->uses.at[moments->at[i].use];
        bool derived = false;
        for (end = i; end < moments->count && moments->at[end].time_ns == first->time_ns; end++) {
            const struct mp_model_use *use = &model->uses.at[moments->at[end].use];
            derived |= use->how & MP_USE_READ && flow[use->block] & MP_FLOW_DERIVED;
        }
        uint64_t *last = mp_map_at(&waiting, (uint64_t)first->operator+ 1, NULL);
        for (size_t k = i; k < end; k++) {
            const struct mp_model_use *use = &model->uses.at[moments->at[k].use];
            if (derived && use->how & MP_USE_READ) flow[use->block] |= MP_FLOW_READ;
            if (derived && use->how & (MP_USE_WRITTEN | MP_USE_OUTPUT)) flow[use->block] |= MP_FLOW_DERIVED;
            if (!(use->how & MP_USE_MADE) || flow[use->block] & WAITS) continue;
            flow[use->block] |=
                WAITS; /* once: a block has a row for its allocation, and may have one for its operator */
            before[use->block] = (uint32_t)*last;
            *last = use->block + 1;
        }
        if (first->how & MP_USE_MADE && end == i + 1) continue; /* an allocation: its operator goes on */
        for (uint32_t block = (uint32_t)*last; derived && block; block = before[block - 1])
            flow[block - 1] |= MP_FLOW_DERIVED;
        *last = 0;
    }
    free(before);
    mp_map_free(&waiting);
}

unsigned char *mp_flow_find(const struct mp_model *model)
{
    struct moments moments = {0};
    if (!model->uses.count) return NULL;
    unsigned char *flow = mp_alloc_zeroed(model->blocks.count + 1, 1);
    mp_vec_each (const struct mp_model_label, label, &model->labels) {
        if (label->role == MP_ROLE_PARAMETER) flow[label->block] |= MP_FLOW_DERIVED;
    }
    for (uint32_t i = 0; i < model->uses.count; i++) {
        const struct mp_model_use *use = &model->uses.at[i];
        take_use(model, use, &flow[use->block]);
        if (!use->node) mp_vec_add(&moments, ((struct moment){use->time_ns, i}));
    }
    if (moments.count) qsort(moments.at, moments.count, sizeof *moments.at, by_time);
    derive(model, &moments, flow);
    mp_vec_free(&moments);
    return flow;
}
