#include "analysis/categories/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/uses.h"

static void take_use(const struct mp_model *model, const struct mp_model_use *use, unsigned char *flow)
{
    bool accumulates = use->node && strstr(mp_model_text(model, use->node), "AccumulateGrad");
    if (use->how & MP_USE_MADE) *flow |= MP_FLOW_TOLD | (use->node ? MP_FLOW_BACKWARD : 0);
    if (accumulates && use->how & (MP_USE_MADE | MP_USE_WRITTEN | MP_USE_VIEW | MP_USE_OUTPUT))
        *flow |= MP_FLOW_GRADIENT;
    if (use->node && use->how & (MP_USE_READ | MP_USE_VIEW) && !(*flow & MP_FLOW_BACKWARD)) *flow |= MP_FLOW_SAVED;
}

static void derive(const struct mp_operations *operations, unsigned char *flow)
{
    mp_vec_each (const struct mp_operation, op, &operations->ops) {
        const struct mp_model_use **uses = &operations->uses[op->first];
        bool derived = false;
        for (size_t i = 0; i < op->count && !op->node; i++)
            derived |= uses[i]->how & MP_USE_READ && flow[uses[i]->block] & MP_FLOW_DERIVED;
        for (size_t i = 0; i < op->count && derived; i++) {
            if (uses[i]->how & MP_USE_READ) flow[uses[i]->block] |= MP_FLOW_READ;
            if (uses[i]->how & (MP_USE_WRITTEN | MP_USE_OUTPUT | MP_USE_MADE)) flow[uses[i]->block] |= MP_FLOW_DERIVED;
        }
    }
}

unsigned char *mp_flow_find(const struct mp_model *model)
{
    if (!model->uses.count) return NULL;
    unsigned char *flow = mp_alloc_zeroed(model->blocks.count + 1, 1);
    mp_vec_each (const struct mp_model_label, label, &model->labels) {
        if (label->role == MP_ROLE_PARAMETER) flow[label->block] |= MP_FLOW_DERIVED;
    }
    struct mp_operations operations;
    mp_vec_each (const struct mp_model_use, use, &model->uses)
        take_use(model, use, &flow[use->block]);
    mp_operations_find(model, &operations);
    derive(&operations, flow);
    mp_operations_free(&operations);
    return flow;
}
