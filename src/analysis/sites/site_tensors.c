#include "analysis/sites/site_tensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/categories/phases.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/uses.h"

/* Blocks of a site with tensors of one type and as many dimensions, made by one operator in one phase, and saved for
 * one node. */
struct kind {
    uint32_t site;
    struct mp_shape shape;
    struct mp_site_tensor of;
    uint64_t largest;
};

struct kinds {
    MP_VEC(struct kind) at;
    struct mp_map first; /* by site + 1: index + 1 of its first kind */
    MP_VEC(size_t) next; /* by index: the next one of the site, + 1 */
};

MP_ORDER(by_site_heaviest_first, struct kind,
         MP_RISING(site) ?: MP_FALLING(of.bytes) ?: MP_FALLING(of.blocks) ?: MP_RISING(of.operator) ?: MP_RISING(of.saved) ?:
         MP_RISING(of.phase))

static struct kind *kind_of(struct kinds *kinds, uint32_t site, const struct mp_site_tensor *of,
                            const struct mp_shape *shape)
{
    uint64_t *first = mp_map_at(&kinds->first, (uint64_t)site + 1, NULL);
    for (size_t at = *first; at; at = kinds->next.at[at - 1]) {
        struct kind *kind = &kinds->at.at[at - 1];
        if (kind->of.operator== of->operator&& kind->of.saved == of->saved && kind->of.phase == of->phase &&
            mp_shape_add(&kind->shape, shape))
            return kind;
    }
    const struct kind kind = {.site = site, .shape = *shape, .of = *of};
    mp_vec_add(&kinds->at, kind);
    mp_vec_add(&kinds->next, *first);
    *first = kinds->at.count;
    return &kinds->at.at[kinds->at.count - 1];
}

static void add_block(struct kinds *kinds, const struct mp_model *model, const struct mp_phases *phases, uint32_t site,
                      const struct mp_idle_view *view, const struct mp_live_block *live)
{
    struct mp_tensor tensor;
    struct mp_shape shape;
    struct mp_idle idle;
    mp_tensor_of(model, live->block, &tensor);
    if (!tensor.operator&& !tensor.shape) return;
    mp_shape_read(mp_model_text(model, tensor.shape), &shape);
    const struct mp_site_tensor of = {.operator= tensor.operator,
                                      .saved = mp_phase_saved_for(phases, model, live->block),
                                      .phase = mp_phase_of_block(phases, model, live->block)};
    struct kind *kind = kind_of(kinds, site, &of, &shape);
    uint64_t bytes = mp_known(live->bytes);
    kind->of.bytes += bytes;
    kind->of.blocks++;
    mp_idle_of(view, live->block, &idle);
    if (idle.never) kind->of.never_bytes += bytes, kind->of.never_blocks++;
    if (bytes < kind->largest || idle.since_ns == MP_BYTES_UNKNOWN) return;
    uint64_t then_ns = idle.again_ns != MP_BYTES_UNKNOWN ? idle.again_ns : idle.freed_ns;
    kind->largest = bytes;
    kind->of.idle_ns = view->time_ns > idle.since_ns ? view->time_ns - idle.since_ns : 0;
    kind->of.again_ns = idle.again_ns != MP_BYTES_UNKNOWN ? idle.again_ns - view->time_ns : MP_BYTES_UNKNOWN;
    kind->of.until_ns = then_ns != MP_BYTES_UNKNOWN ? then_ns - view->time_ns : MP_BYTES_UNKNOWN;
}

void mp_site_tensors_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                          struct mp_sites *sites)
{
    struct kinds kinds = {0};
    struct mp_phases phases;
    struct mp_idle_view view;
    mp_idle_view_at(model, live->moment ? model->events.time_ns[live->moment - 1] : 0, &view);
    mp_phases_find(model, &phases);
    for (size_t i = 0; i < live->count; i++)
        add_block(&kinds, model, &phases, site_of[i], &view, &live->at[i]);
    if (kinds.at.count) qsort(kinds.at.at, kinds.at.count, sizeof *kinds.at.at, by_site_heaviest_first);
    mp_vec_each (struct kind, kind, &kinds.at) {
        char text[MP_SHAPE_TEXT];
        struct mp_site *site = &sites->at[kind->site];
        if (!site->tensor_count++) site->first_tensor = (uint32_t)sites->tensors.count;
        mp_shape_text(&kind->shape, text, sizeof text);
        bool known = *kind->shape.dtype;
        kind->of.dtype = known ? mp_intern_add_text(&sites->groups, kind->shape.dtype) : MP_NONE;
        kind->of.shape = known ? mp_intern_add_text(&sites->groups, text) : MP_NONE;
        sites->never_bytes += kind->of.never_bytes;
        mp_vec_add(&sites->tensors, kind->of);
    }
    mp_phases_free(&phases);
    mp_vec_free(&kinds.at);
    mp_vec_free(&kinds.next);
    mp_map_free(&kinds.first);
}

void mp_stack_tensors_find(const struct mp_model *model, uint16_t track, uint32_t stack, struct mp_sites *sites)
{
    struct mp_live_blocks all = {0};
    *sites = (struct mp_sites){0};
    mp_vec_add(sites, ((struct mp_site){.stack = stack, .track = track}));
    for (uint32_t block = 0; model->uses.count && block < model->blocks.count; block++)
        if (model->blocks.stack[block] == stack && model->blocks.track[block] == track)
            mp_vec_add(&all, ((struct mp_live_block){.block = block, .bytes = model->blocks.bytes[block]}));
    sites->at->blocks = all.count;
    uint32_t *site_of = mp_alloc_zeroed(all.count + 1, sizeof *site_of);
    mp_site_tensors_find(model, &all, site_of, sites);
    free(site_of);
    mp_live_blocks_free(&all);
}
