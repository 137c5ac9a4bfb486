#include "model/uses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "model/spans.h"

void mp_tensor_of(const struct mp_model *model, uint32_t block, struct mp_tensor *tensor)
{
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(model, block, &count);
    *tensor = (struct mp_tensor){0};
    if (count && uses[0].how & MP_USE_MADE) tensor->operator= uses[0].operator, tensor->node = uses[0].node;
    for (size_t i = 0; i < count && !tensor->operator; i++)
        if (uses[i].how & (MP_USE_WRITTEN | MP_USE_OUTPUT))
            tensor->operator= uses[i].operator, tensor->node = uses[i].node;
    for (size_t i = 0; i < count; i++)
        if (uses[i].shape && (!tensor->shape || uses[i].how & MP_USE_MADE)) tensor->shape = uses[i].shape;
}

struct moment {
    uint64_t time_ns;
    uint32_t use;
};
MP_ORDER(by_time, struct moment, MP_RISING(time_ns) ?: MP_RISING(use))

/* The row of an allocation waits for the end of its operator. `last`: by operator, 1 + the last one that waits;
 * `before`: by row, the one before it. */
static void end_operation(struct mp_operations *o, const struct moment *rows, size_t count,
                          const struct mp_model *model, uint64_t *last, const uint32_t *before, size_t *used)
{
    const struct mp_model_use *end = &model->uses.at[rows[0].use];
    struct mp_operation op = {end->time_ns, end->time_ns, end->operator, end->node, end->module, *used, 0};
    mp_vec_add(&o->ops, op);
    for (uint64_t row = *last; row; row = before[row - 1]) {
        const struct mp_model_use *use = &model->uses.at[row - 1];
        o->uses[(*used)++] = use;
        o->made_by[use->block] = (uint32_t)o->ops.count;
        if (use->time_ns < op.began_ns) op.began_ns = use->time_ns;
    }
    for (size_t i = 0; i < count; i++)
        o->uses[(*used)++] = &model->uses.at[rows[i].use];
    *last = 0;
    op.count = *used - op.first;
    o->ops.at[o->ops.count - 1] = op;
}

void mp_operations_find(const struct mp_model *model, struct mp_operations *operations)
{
    size_t count = model->uses.count, used = 0;
    struct moment *moments = mp_alloc((count + 1) * sizeof *moments);
    uint32_t *before = mp_alloc_zeroed(count + 1, sizeof *before);
    struct mp_map waiting = {0};
    *operations = (struct mp_operations){.uses = mp_alloc_zeroed(count + 1, sizeof *operations->uses),
                                         .made_by = mp_alloc_zeroed(model->blocks.count + 1, sizeof(uint32_t))};
    for (uint32_t i = 0; i < count; i++)
        moments[i] = (struct moment){model->uses.at[i].time_ns, i};
    if (count) qsort(moments, count, sizeof *moments, by_time);
    for (size_t i = 0, end; i < count; i = end) {
        const struct mp_model_use *use = &model->uses.at[moments[i].use];
        for (end = i + 1; end < count && moments[end].time_ns == moments[i].time_ns;)
            end++;
        if (i && (use->node != model->uses.at[moments[i - 1].use].node ||
                  use->module != model->uses.at[moments[i - 1].use].module))
            mp_map_free(&waiting); /* an operator runs within one node and module */
        uint64_t *last = mp_map_at(&waiting, (uint64_t)use->operator+ 1, NULL);
        if (use->how & MP_USE_MADE && !operations->made_by[use->block] && end == i + 1) {
            before[moments[i].use] = (uint32_t)*last;
            *last = (uint64_t)moments[i].use + 1;
        } else {
            end_operation(operations, &moments[i], end - i, model, last, before, &used);
        }
    }
    free(moments);
    free(before);
    mp_map_free(&waiting);
}

size_t mp_operations_before(const struct mp_operations *operations, uint64_t time_ns)
{
    return MP_COUNT_BEFORE(operations->ops.count, i, operations->ops.at[i].ended_ns < time_ns);
}

void mp_operations_free(struct mp_operations *operations)
{
    mp_vec_free(&operations->ops);
    free(operations->uses);
    free(operations->made_by);
}

bool mp_shape_read(const char *text, struct mp_shape *shape)
{
    size_t length = strcspn(text, " ");
    *shape = (struct mp_shape){.dims = 0};
    if (length >= sizeof shape->dtype || strncmp(text + length, " [", 2) != 0) return false;
    memcpy(shape->dtype, text, length);
    const char *at = text + length + 2;
    while (*at && *at != ']' && shape->dims < MP_SHAPE_DIMS) {
        char *end;
        shape->least[shape->dims] = shape->most[shape->dims] = strtoull(at, &end, 10);
        if (end == at) return false;
        shape->dims++;
        at = end + strspn(end, ", ");
    }
    return *at == ']';
}

bool mp_shape_add(struct mp_shape *to, const struct mp_shape *shape)
{
    if (to->dims != shape->dims || strcmp(to->dtype, shape->dtype) != 0) return false;
    for (uint32_t i = 0; i < to->dims; i++) {
        if (shape->least[i] < to->least[i]) to->least[i] = shape->least[i];
        if (shape->most[i] > to->most[i]) to->most[i] = shape->most[i];
    }
    return true;
}

void mp_shape_text(const struct mp_shape *shape, char *to, size_t room)
{
    size_t used = (size_t)snprintf(to, room, "[");
    for (uint32_t i = 0; i < shape->dims && used < room; i++) {
        used += (size_t)snprintf(to + used, room - used, "%s%llu", i ? ", " : "", (unsigned long long)shape->least[i]);
        if (shape->most[i] > shape->least[i] && used < room)
            used += (size_t)snprintf(to + used, room - used, "..%llu", (unsigned long long)shape->most[i]);
    }
    if (used < room) snprintf(to + used, room - used, "]");
}

/* A view reads nothing. */
static bool is_use(const struct mp_model_use *use)
{
    return use->how & (MP_USE_READ | MP_USE_WRITTEN | MP_USE_MADE);
}

static bool came_to_its_end(const struct mp_model *model)
{
    return model->how.known && !model->how.by_signal && !model->how.status &&
           strncmp(mp_model_text(model, model->how.text), MP_STILL_RUNNING, strlen(MP_STILL_RUNNING)) != 0;
}

void mp_idle_view_at(const struct mp_model *model, uint64_t time_ns, struct mp_idle_view *view)
{
    *view = (struct mp_idle_view){model, time_ns, MP_BYTES_UNKNOWN, 0, MP_BYTES_UNKNOWN};
    mp_vec_each (const struct mp_model_use, use, &model->uses) {
        if (use->time_ns > view->log_ns) view->log_ns = use->time_ns;
        if (use->time_ns > time_ns && use->time_ns < view->next_ns && use->how & ~MP_USE_MADE)
            view->next_ns = use->time_ns;
    }
    if (came_to_its_end(model) || !model->uses.count) return;
    struct mp_steps steps = {0};
    mp_steps_marked(model, &steps);
    view->whole_ns = 0;
    for (size_t i = 0; i < steps.count && steps.at[i].end_ns <= view->log_ns; i++)
        view->whole_ns = steps.at[i].start_ns;
    mp_steps_free(&steps);
}

void mp_idle_of(const struct mp_idle_view *view, uint32_t block, struct mp_idle *idle)
{
    size_t count;
    const struct mp_model_use *uses = mp_model_uses_of(view->model, block, &count);
    uint32_t freed = view->model->blocks.free_event[block];
    uint64_t last_ns = 0, longest_ns = 0;
    *idle = (struct mp_idle){MP_BYTES_UNKNOWN, MP_BYTES_UNKNOWN, MP_BYTES_UNKNOWN, false};
    if (freed != MP_NONE) idle->freed_ns = view->model->events.time_ns[freed];
    for (size_t i = 0; i < count; i++) {
        if (!is_use(&uses[i])) continue;
        if (last_ns && uses[i].time_ns - last_ns > longest_ns) longest_ns = uses[i].time_ns - last_ns;
        last_ns = uses[i].time_ns;
        if (last_ns <= view->time_ns) idle->since_ns = last_ns;
        if (last_ns > view->time_ns && idle->again_ns == MP_BYTES_UNKNOWN) idle->again_ns = last_ns;
    }
    /* The operator that runs works in blocks that it frees, and in blocks without any tensor. */
    bool works = idle->freed_ns < view->next_ns && view->time_ns != MP_BYTES_UNKNOWN;
    bool is_room = count == 1 && !(uses[0].how & ~MP_USE_MADE);
    if (!last_ns || works || is_room || idle->again_ns != MP_BYTES_UNKNOWN) return;
    bool freed_in_time = freed != MP_NONE && (idle->freed_ns <= view->log_ns || view->whole_ns == MP_BYTES_UNKNOWN);
    idle->never = freed_in_time || (view->log_ns - last_ns > longest_ns && last_ns < view->whole_ns);
}
