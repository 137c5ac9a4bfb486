/* The rules of other tools, as their sources or documents have them, on the same events. Where a rule needs steps and
 * the trace marks none, it is given ours. All but the first judge before the program's end. */
#include <stdlib.h>

#include "analysis/sites/level.h"
#include "leakbench/bench.h"

static uint32_t heaviest(const struct world *world, const uint64_t *bytes)
{
    uint32_t best = MP_NONE;
    for (uint32_t i = 0; i < world->places.count; i++)
        if (bytes[i] && (best == MP_NONE || bytes[i] > bytes[best])) best = i;
    return best;
}

static uint32_t *places_of_nodes(const struct world *world)
{
    uint32_t *places = calloc(world->nodes.count, sizeof *places);
    if (!places) exit(99);
    for (size_t i = 0; i < world->stacks.count; i++)
        places[world->stacks.at[i].node] = world->stacks.at[i].place;
    return places;
}

/* Sanitizers, RMM, GPUprobe, DrGPUM: what is not freed when the program ends. */
static bool at_exit(const struct mp_model *model, const struct world *world, const struct mp_steps *steps,
                    uint32_t *place)
{
    uint64_t *bytes = calloc(world->places.count, sizeof *bytes);
    uint32_t *places = places_of_nodes(world);
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.free_event[i] == MP_NONE) bytes[places[model->blocks.stack[i]]] += model->blocks.bytes[i];
    *place = heaviest(world, bytes);
    free(bytes);
    free(places);
    (void)steps;
    return *place != MP_NONE;
}

/* msMemScope: allocated after the first step and live at the end of a later step than its own. */
static bool step_boundary(const struct mp_model *model, const struct world *world, const struct mp_steps *steps,
                          uint32_t *place)
{
    uint64_t *bytes = calloc(world->places.count, sizeof *bytes);
    uint32_t *places = places_of_nodes(world);
    for (size_t i = 0; steps->count && i < model->blocks.count; i++) {
        uint32_t born = mp_step_of(steps, model->blocks.alloc_event[i]), freed = model->blocks.free_event[i];
        uint32_t died = freed == MP_NONE ? (uint32_t)steps->count : mp_step_of(steps, freed);
        if (born > 1 && died > born + 1) bytes[places[model->blocks.stack[i]]] += model->blocks.bytes[i];
    }
    *place = heaviest(world, bytes);
    free(bytes);
    free(places);
    return *place != MP_NONE;
}

/* Scalene: by line, 1 - (frees + 1) / (allocs - frees + 2) of at least 0.95, while the footprint grows by 1 %. */
static bool succession(const struct mp_model *model, const struct world *world, const struct mp_steps *steps,
                       uint32_t *place)
{
    uint64_t *bytes = calloc(world->places.count, sizeof *bytes), *allocs = calloc(world->places.count, sizeof *allocs);
    uint64_t *frees = calloc(world->places.count, sizeof *frees);
    uint32_t *places = places_of_nodes(world);
    uint32_t end = steps->count ? steps->at[steps->count - 1].first : (uint32_t)model->events.count;
    uint64_t half = 0, whole = 0;
    for (size_t i = 0; i < model->blocks.count; i++) {
        uint32_t at = places[model->blocks.stack[i]], born = model->blocks.alloc_event[i];
        if (born >= end) continue;
        bool freed = model->blocks.free_event[i] < end;
        allocs[at]++;
        frees[at] += freed;
        if (born < end / 2 && model->blocks.free_event[i] >= end / 2) half += model->blocks.bytes[i];
        if (!freed) whole += model->blocks.bytes[i];
    }
    for (uint32_t i = 0; i < world->places.count; i++) {
        double score = 1 - ((double)frees[i] + 1) / ((double)(allocs[i] - frees[i]) + 2);
        if (score >= 0.95) bytes[i] = allocs[i];
    }
    *place = whole * 100 >= half * 101 ? heaviest(world, bytes) : MP_NONE;
    free(bytes);
    free(allocs);
    free(frees);
    free(places);
    return *place != MP_NONE;
}

/* gpulse: a line of least squares through what is used, R2 of at least 0.7, rising by 1 % of it over the run. */
static bool least_squares(const struct mp_model *model, const struct world *world, const struct mp_steps *steps,
                          uint32_t *place)
{
    uint32_t end = steps->count ? steps->at[steps->count - 1].first : (uint32_t)model->events.count;
    struct mp_level levels[W_TRACKS];
    double n = 0, x1 = 0, y1 = 0, xx = 0, xy = 0, yy = 0;
    for (uint16_t track = 0; track < W_TRACKS; track++)
        levels[track] = mp_level_start(model, track);
    for (uint32_t event = 0; event < end; event++) {
        for (uint16_t track = 0; track < W_TRACKS; track++)
            mp_level_apply(&levels[track], model, track, event);
        if (event % 16) continue;
        double x = event, y = (double)(levels[0].bytes + levels[1].bytes + levels[2].bytes);
        n++, x1 += x, y1 += y, xx += x * x, xy += x * y, yy += y * y;
    }
    *place = MP_NONE;
    double sx = n * xx - x1 * x1, sy = n * yy - y1 * y1, cross = n * xy - x1 * y1;
    (void)world;
    if (sx <= 0 || sy <= 0) return false;
    return cross * cross / (sx * sy) >= 0.7 && cross / sx * end > 0.01 * y1 / n;
}

const struct rival rivals[] = {{"outstanding at exit", at_exit},
                               {"msMemScope", step_boundary},
                               {"Scalene", succession},
                               {"least squares (gpulse)", least_squares}};
const size_t rival_count = sizeof rivals / sizeof *rivals;
