#include "analysis/advise/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

bool mp_node_reads_saved(const struct mp_model *model, const struct mp_phases *phases, const struct mp_model_use *use)
{
    return use->node && use->how & (MP_USE_READ | MP_USE_VIEW) && !(use->how & (MP_USE_WRITTEN | MP_USE_MADE)) &&
           !mp_phase_is_backward(mp_phase_of_block(phases, model, use->block));
}

/* A recomputation is within a node, too. */
static bool is_run(const struct mp_model *model, const struct mp_phases *phases, const struct mp_nodes *nodes,
                   const struct mp_operation *op)
{
    return !strstr(mp_model_text(model, op->node), "AccumulateGrad") &&
           mp_phase_of_use(phases, model, nodes->log.uses[op->first]) == MP_PHASE_BACKWARD;
}

void mp_nodes_find(const struct mp_model *model, const struct mp_phases *phases, struct mp_nodes *nodes)
{
    struct mp_node_run *run = NULL;
    uint32_t node = 0, module = 0;
    *nodes = (struct mp_nodes){0};
    if (!model->uses.count) return;
    mp_operations_find(model, &nodes->log);
    for (size_t i = 0; i < nodes->log.ops.count; i++) {
        const struct mp_operation *op = &nodes->log.ops.at[i];
        if (!op->node) continue;
        if (op->node != node || op->module != module) {
            run = NULL;
            node = op->node;
            module = op->module;
            if (!is_run(model, phases, nodes, op)) continue;
            mp_vec_add(&nodes->runs,
                       ((struct mp_node_run){.node = node, .module = module, .began_ns = op->began_ns, .first = i}));
            run = &nodes->runs.at[nodes->runs.count - 1];
        }
        if (!run) continue;
        run->last = i;
        if (op->began_ns < run->began_ns) run->began_ns = op->began_ns;
        for (size_t k = op->first; k < op->first + op->count; k++)
            run->saves |= mp_node_reads_saved(model, phases, nodes->log.uses[k]);
        run->event = mp_model_events_before(model, run->began_ns, false);
        run->end = mp_model_events_before(model, op->ended_ns, true);
    }
}

const struct mp_node_run *mp_node_run_of(const struct mp_nodes *nodes, const struct mp_model_use *use)
{
    size_t run = MP_COUNT_BEFORE(nodes->runs.count, i, nodes->runs.at[i].began_ns <= use->time_ns);
    const struct mp_node_run *at = run ? &nodes->runs.at[run - 1] : NULL;
    return at && at->node == use->node && at->module == use->module ? at : NULL;
}

static double elements(const struct mp_shape *shape)
{
    double all = 1;
    for (uint32_t i = 0; i < shape->dims; i++)
        all *= (double)shape->most[i];
    return all;
}

/* The length that a product of matrices sums over: of two factors with as many dimensions as the result. */
static double summed(const struct mp_shape *made, const struct mp_shape *read, size_t count)
{
    uint32_t row = made->dims - 2, column = made->dims - 1;
    for (size_t i = 0; made->dims >= 2 && i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (read[i].dims == made->dims && read[k].dims == made->dims && read[i].most[row] == made->most[row] &&
                read[k].most[column] == made->most[column] && read[i].most[column] == read[k].most[row])
                return (double)read[i].most[column];
    return 0;
}

#define READ_MOST 8

double mp_operation_flops(const struct mp_model *model, const struct mp_operations *log, const struct mp_operation *op)
{
    const char *name = mp_model_text(model, op->operator);
    struct mp_shape made = {0}, read[READ_MOST], one;
    size_t count = 0;
    double least = 0;
    bool multiplies = strstr(name, "mm"), attends = strstr(name, "attention"), convolves = strstr(name, "conv");
    if ((!multiplies && !attends && !convolves) || strstr(name, "backward")) return 0;
    for (size_t i = op->first; i < op->first + op->count; i++) {
        const struct mp_model_use *use = log->uses[i];
        if (use->how & MP_USE_VIEW || !mp_shape_read(mp_model_text(model, use->shape), &one)) continue;
        if (use->how & MP_USE_READ && count < READ_MOST) read[count++] = one;
        if (use->how & (MP_USE_MADE | MP_USE_WRITTEN | MP_USE_OUTPUT) && one.dims > made.dims) made = one;
    }
    if (attends && made.dims == 4 && count)
        return 4 * elements(&made) * (double)read[0].most[strstr(name, "scaled") ? 2 : 1];
    if (multiplies) return 2 * elements(&made) * summed(&made, read, count);
    for (size_t i = 0; convolves && i < count; i++) { /* the weight's first dimension is the result's second */
        double weight = read[i].dims == made.dims && read[i].most[0] == made.most[1] ? elements(&read[i]) : 0;
        if (weight > 0 && (least <= 0 || weight < least)) least = weight;
    }
    return made.dims > 1 && made.most[1] ? 2 * elements(&made) * least / (double)made.most[1] : 0;
}

void mp_nodes_free(struct mp_nodes *nodes)
{
    if (nodes->log.uses) mp_operations_free(&nodes->log);
    mp_vec_free(&nodes->runs);
}
