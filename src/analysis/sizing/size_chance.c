#include "analysis/sizing/size_chance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sizing/size_curve.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/words.h"

/* ---- batches that a DataLoader's workers end ----------------------------------------------------------------------
 */

static bool is_function(const char *function, const char *name)
{
    const char *last = strrchr(function, '.');
    return !strcmp(last ? last + 1 : function, name);
}

/* A frame that takes what a worker has put in the queue. */
static bool is_receiving(const struct mp_model *model, const struct mp_model_frame *frame)
{
    if (frame->raw.language != MP_PYTHON || !frame->line_count) return false;
    const struct mp_model_line *line = &model->lines.at[frame->first_line];
    const char *function = mp_model_text(model, line->function);
    return strstr(mp_model_text(model, line->file), "torch/utils/data/") &&
           (is_function(function, "_try_get_data") || is_function(function, "_pin_memory_loop"));
}

unsigned char *mp_size_loading(const struct mp_model *model)
{
    unsigned char *loading = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        loading[i] = node->parent < i && loading[node->parent];
        if (!loading[i] && node->frame < model->frames.count)
            loading[i] = is_receiving(model, &model->frames.at[node->frame]);
    }
    return loading;
}

/* Per block: part of a batch from a worker. */
static unsigned char *find_received(const struct mp_size_source *source)
{
    const struct mp_model *model = source->model;
    unsigned char *loading = mp_size_loading(model), *received = mp_alloc_zeroed(model->blocks.count + 1, 1);
    for (uint32_t block = 0; block < model->blocks.count; block++)
        received[block] = model->blocks.track[block] == source->track && loading[model->blocks.stack[block]];
    free(loading);
    return received;
}

static void read_marks(const struct mp_model *model, struct mp_size_chance *chance)
{
    for (size_t i = 0; i < model->noted.count; i++) {
        unsigned long long ahead;
        if (model->events.type[model->noted.at[i]] != MP_EVENT_MARK) continue;
        const char *name = mp_model_text(model, model->notes.at[i].name);
        if (sscanf(name, MP_TORCH_MARK "DataLoader %llu ahead", &ahead) != 1) continue;
        chance->known = true;
        if (ahead > chance->ahead) chance->ahead = ahead;
    }
}

/* Batches as they arrive from one loader, or from all as if they were one: runs of blocks between which nothing else is
 * made, each of one batch or some. */
struct arrivals {
    MP_VEC(uint32_t) blocks; /* in their order */
    MP_VEC(uint32_t) ends;   /* of runs, as indices of `blocks` */
    uint64_t alive, most;    /* blocks at once */
};

/* How many blocks a batch of a loader has, from the runs of all recordings. */
struct rhythm {
    uint32_t least, each; /* blocks of the shortest run; what divides all runs: a batch, or always so many of them */
};

/* One recording, and what came from each loader. */
struct recorded {
    const struct mp_size_source *source;
    MP_VEC(struct arrivals) loaders;
};

/* All recordings. A loader has one number in all of them, by the lines of the program that take its batches. */
struct loading {
    const struct mp_size_plan *plan;
    struct recorded *recorded;
    size_t count;
    bool apart;          /* each loader by itself */
    struct mp_map known; /* numbers of loaders from 1, by hashes of the lines */
    MP_VEC(struct rhythm) rhythms;
};

static void end_run(struct arrivals *arrivals, struct rhythm *rhythm)
{
    uint32_t first = arrivals->ends.count ? arrivals->ends.at[arrivals->ends.count - 1] : 0;
    uint32_t length = (uint32_t)arrivals->blocks.count - first, rest = length;
    if (!length) return;
    while (rest) {
        uint32_t left = rhythm->each % rest;
        rhythm->each = rest;
        rest = left;
    }
    if (!rhythm->least || length < rhythm->least) rhythm->least = length;
    mp_vec_add(&arrivals->ends, first + length);
}

static uint64_t hash_text(const struct mp_model *model, uint32_t text)
{
    const char *at = mp_model_text(model, text);
    return mp_hash_bytes(at, strlen(at));
}

static uint64_t hash_of(const struct mp_model *model, uint32_t frame, uint64_t hash)
{
    if (frame >= model->frames.count || !model->frames.at[frame].line_count) return hash;
    const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
    hash = mp_hash_step(mp_hash_step(hash, hash_text(model, line->file)), hash_text(model, line->function));
    return mp_hash_mix(mp_hash_step(hash, line->line));
}

/* Per stack, the loader whose queue one of its frames takes from: a hash of the lines down to the outermost such frame.
 * 0: none takes. */
static uint64_t *find_loaders(const struct mp_model *model, bool apart)
{
    unsigned char *receives = mp_size_loading(model);
    uint64_t *hashes = mp_alloc_zeroed(model->stacks.count + 1, sizeof *hashes);
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        uint32_t parent = model->stacks.at[i].parent < i ? model->stacks.at[i].parent : 0;
        hashes[i] = receives[parent] ? hashes[parent] : hash_of(model, model->stacks.at[i].frame, hashes[parent]) | 1;
    }
    for (uint32_t i = 1; i < model->stacks.count; i++)
        hashes[i] = receives[i] ? apart ? hashes[i] : 1 : 0;
    free(receives);
    return hashes;
}

static size_t number_of(struct loading *loading, struct recorded *recorded, uint64_t hash)
{
    bool added;
    uint64_t *number = mp_map_at(&loading->known, hash, &added);
    if (added) *number = loading->known.count;
    mp_vec_grow_to(&recorded->loaders, *number);
    mp_vec_grow_to(&loading->rhythms, *number);
    return *number - 1;
}

static void follow_arrivals(struct loading *loading, struct recorded *recorded)
{
    const struct mp_model *model = recorded->source->model;
    uint64_t *loaders = find_loaders(model, loading->apart);
    size_t current = SIZE_MAX; /* the loader whose run has not ended */
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t block = model->events.subject[event], stack = model->blocks.stack[block];
        if (model->blocks.track[block] != recorded->source->track) continue;
        size_t loader = SIZE_MAX;
        if (stack < model->stacks.count && loaders[stack]) loader = number_of(loading, recorded, loaders[stack]);
        if (type == MP_EVENT_FREE) {
            if (loader != SIZE_MAX && recorded->loaders.at[loader].alive) recorded->loaders.at[loader].alive--;
            continue;
        }
        if (current != SIZE_MAX && current != loader)
            end_run(&recorded->loaders.at[current], &loading->rhythms.at[current]);
        current = loader;
        if (loader == SIZE_MAX) continue;
        struct arrivals *arrivals = &recorded->loaders.at[loader];
        mp_vec_add(&arrivals->blocks, block);
        if (++arrivals->alive > arrivals->most) arrivals->most = arrivals->alive;
    }
    if (current != SIZE_MAX) end_run(&recorded->loaders.at[current], &loading->rhythms.at[current]);
    free(loaders);
}

/* Whether at each place in a batch of so many blocks most have one size. */
static bool is_periodic(const struct mp_model *model, const struct arrivals *arrivals, uint32_t each)
{
    for (uint32_t place = 0; place < each; place++) {
        uint64_t size = 0;
        int64_t votes = 0;
        for (size_t i = place; i < arrivals->blocks.count; i += each) {
            uint64_t bytes = mp_size_bytes(model, arrivals->blocks.at[i]);
            if (!votes) size = bytes;
            votes += bytes == size ? 1 : -1;
        }
        if (votes <= 0) return false;
    }
    return true;
}

/* Whether each batch has as many blocks as the others. */
static bool are_batches_alike(const struct mp_model *model, const struct arrivals *arrivals,
                              const struct rhythm *rhythm)
{
    return rhythm->each > 1 ? rhythm->each == rhythm->least || is_periodic(model, arrivals, rhythm->each)
                            : rhythm->least == 1 && is_periodic(model, arrivals, 1);
}

/* In all recordings; one that lacks the loader would leave its batch without a size at that probe. */
static bool is_loader_alike(const struct loading *loading, size_t loader)
{
    for (size_t i = 0; i < loading->count; i++) {
        const struct recorded *recorded = &loading->recorded[i];
        if (loader >= recorded->loaders.count || !recorded->loaders.at[loader].blocks.count ||
            !are_batches_alike(recorded->source->model, &recorded->loaders.at[loader], &loading->rhythms.at[loader]))
            return false;
    }
    return true;
}

struct batch {
    uint32_t blocks; /* 0: none arrived */
    uint64_t bytes;
};

/* The batch of most bytes; where batches are of different numbers of blocks, the run of most. */
static struct batch largest_batch(const struct mp_model *model, const struct arrivals *arrivals,
                                  const struct rhythm *rhythm, bool alike)
{
    struct batch largest = {0};
    for (uint32_t from = 0, run = 0, to; from < arrivals->blocks.count; from = to) {
        to = alike ? from + rhythm->each : arrivals->ends.at[run++];
        uint64_t bytes = 0;
        for (uint32_t i = from; i < to; i++)
            bytes += mp_size_bytes(model, arrivals->blocks.at[i]);
        if (bytes < largest.bytes) continue;
        largest.blocks = to - from;
        largest.bytes = bytes;
    }
    return largest;
}

/* The fewest blocks that may be a batch. Workers that always end two at once, of blocks A and B, show A B A B in every
 * run: the batch may be A B. */
static uint32_t smallest_batch(const struct mp_model *model, const struct arrivals *arrivals,
                               const struct rhythm *rhythm)
{
    uint32_t blocks = 1;
    while (blocks < rhythm->each && (rhythm->each % blocks || !is_periodic(model, arrivals, blocks)))
        blocks++;
    return blocks;
}

static double share_of(struct mp_size_point at, struct mp_size_point of)
{
    return (double)at.first * (double)at.second / ((double)of.first * (double)of.second);
}

/* What a recording held of its loaders' batches. */
struct waiting {
    uint64_t held;
    double spare;
};

/* Adds what the recordings have of a loader. Runs of more batches than one, and not always of so many, may have one in
 * a probe and four in the next: each counts for all then, in proportion. */
static void add_loader(const struct loading *loading, size_t loader, struct waiting *waiting, struct mp_size_seen *most)
{
    const struct mp_size_points *points = &loading->plan->points;
    const struct rhythm *rhythm = &loading->rhythms.at[loader];
    bool alike = is_loader_alike(loading, loader);
    for (size_t i = 0; i < loading->count; i++) {
        const struct recorded *recorded = &loading->recorded[i];
        if (loader >= recorded->loaders.count) continue;
        const struct mp_model *model = recorded->source->model;
        const struct arrivals *arrivals = &recorded->loaders.at[loader];
        struct batch batch = largest_batch(model, arrivals, rhythm, alike);
        if (!batch.blocks) continue;
        uint32_t alone = smallest_batch(model, arrivals, rhythm);
        waiting[i].held += (arrivals->most + batch.blocks - 1) / batch.blocks;
        if (arrivals->most > alone) waiting[i].spare += (double)(arrivals->most - alone) / batch.blocks;
        for (size_t k = 0; k < points->count && i < points->count; k++)
            if (!alike || i == k)
                most->high[k] = fmax(most->high[k], (double)batch.bytes * share_of(points->at[k], points->at[i]));
    }
}

static void forget_arrivals(struct loading *loading)
{
    for (size_t i = 0; i < loading->count; i++) {
        struct recorded *recorded = &loading->recorded[i];
        for (size_t loader = 0; loader < recorded->loaders.count; loader++) {
            mp_vec_free(&recorded->loaders.at[loader].blocks);
            mp_vec_free(&recorded->loaders.at[loader].ends);
        }
        mp_vec_free(&recorded->loaders);
    }
    mp_vec_free(&loading->rhythms);
    mp_map_free(&loading->known);
}

/* Two loaders whose batches have different blocks have no rhythm together: each is followed by itself then. Where they
 * have one they may be one, whose batches are received by two lines. */
static void follow_all(struct loading *loading)
{
    for (size_t i = 0; i < loading->count; i++)
        follow_arrivals(loading, &loading->recorded[i]);
    if (loading->apart || !loading->rhythms.count || is_loader_alike(loading, 0)) return;
    forget_arrivals(loading);
    for (size_t i = 0; i < loading->count; i++)
        loading->recorded[i] = (struct recorded){.source = loading->recorded[i].source};
    loading->apart = true;
    follow_all(loading);
}

static void find_batches(const struct mp_size_plan *plan, const struct mp_size_source *sources, size_t count,
                         struct mp_size_chance *chance)
{
    struct loading loading = {.plan = plan, .count = count};
    struct waiting *waiting = mp_alloc_zeroed(count + 1, sizeof *waiting);
    loading.recorded = mp_alloc_zeroed(count + 1, sizeof *loading.recorded);
    for (size_t i = 0; i < count; i++)
        loading.recorded[i].source = &sources[i];
    follow_all(&loading);
    for (size_t loader = 0; loader < loading.rhythms.count; loader++)
        add_loader(&loading, loader, waiting, &chance->batch);
    for (size_t i = 0; i < count; i++) {
        read_marks(sources[i].model, chance);
        chance->held = waiting[i].held > chance->held ? waiting[i].held : chance->held;
        chance->spare = fmax(chance->spare, waiting[i].spare);
        chance->loads |= waiting[i].held && sources[i].model == plan->source->model;
    }
    memcpy(chance->batch.low, chance->batch.high, sizeof chance->batch.low);
    if (chance->loads) mp_size_solve(&plan->points, &chance->batch, &chance->batch_size);
    forget_arrivals(&loading);
    free(loading.recorded);
    free(waiting);
    if (chance->loads) chance->received = find_received(plan->source);
    if (!chance->known) chance->ahead = chance->held;
}

static double high_of(const struct mp_size_points *points, const struct mp_size_seen *seen,
                      const struct mp_size_solution *solution, struct mp_size_point at)
{
    double monomials[MP_SIZE_TERMS];
    mp_size_monomials(at, monomials);
    if (solution->kind != MP_SIZE_OPAQUE) return mp_size_sum_at(&solution->high, monomials);
    return mp_size_bound(points, seen->high, mp_size_growth(points, seen->high), at).high;
}

void mp_size_chance_batches(const struct mp_size_chance *chance, struct mp_size_point at, double *lower, double *higher)
{
    double batch = chance->loads ? high_of(&chance->plan->points, &chance->batch, &chance->batch_size, at) : 0;
    *lower = batch * fmin(chance->spare, (double)chance->ahead);
    *higher = batch * (double)chance->ahead;
}

/* ---- threads ------------------------------------------------------------------------------------------------------
 */

static uint32_t thread_of(const struct mp_model *model, uint32_t block)
{
    uint32_t event = model->blocks.alloc_event[block];
    return event == MP_NONE ? MP_NONE : model->events.thread[event];
}

/* The thread that allocates most on the track. */
static uint32_t main_thread(const struct mp_size_source *source)
{
    const struct mp_model *model = source->model;
    uint64_t *counts = mp_alloc_zeroed(model->threads.count + 1, sizeof *counts);
    uint32_t most = MP_NONE;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint32_t thread = thread_of(model, block);
        if (model->blocks.track[block] != source->track || thread >= model->threads.count) continue;
        if (++counts[thread] > (most == MP_NONE ? 0 : counts[most])) most = thread;
    }
    free(counts);
    return most;
}

/* A frame of threads for which the main one waits: they make what it would. */
static bool is_waited_for(const struct mp_model *model, const struct mp_model_frame *frame)
{
    if (frame->raw.language == MP_BACKWARD) return true;
    if (frame->raw.language != MP_PYTHON || !frame->line_count) return false;
    return strstr(mp_model_text(model, model->lines.at[frame->first_line].file), "torch/nn/parallel/parallel_apply.py");
}

/* Per stack: not of a thread that goes on by itself; or of one whose batches are known. */
static unsigned char *find_waited(const struct mp_model *model)
{
    unsigned char *waited = mp_size_loading(model);
    for (uint32_t i = 1; i < model->stacks.count; i++) {
        const struct mp_stack_node *node = &model->stacks.at[i];
        waited[i] |= node->parent < i && waited[node->parent];
        if (node->frame < model->frames.count) waited[i] |= is_waited_for(model, &model->frames.at[node->frame]);
    }
    return waited;
}

/* Per block: made by another thread than the main one. */
static unsigned char *find_beside(const struct mp_size_source *source)
{
    const struct mp_model *model = source->model;
    uint32_t first = main_thread(source);
    unsigned char *waited = find_waited(model), *beside = mp_alloc_zeroed(model->blocks.count + 1, 1);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint32_t thread = thread_of(model, block), stack = model->blocks.stack[block];
        if (model->blocks.track[block] != source->track || thread >= model->threads.count || thread == first) continue;
        beside[block] = stack >= model->stacks.count || !waited[stack];
    }
    free(waited);
    return beside;
}

/* Whether the thread that made it did not free it. */
static bool is_handed_over(const struct mp_model *model, uint32_t block)
{
    uint32_t freed = model->blocks.free_event[block];
    return freed == MP_NONE || model->events.thread[freed] != thread_of(model, block);
}

/* What a thread frees itself is there as often at once whatever others do. */
static double count_most(const struct mp_size_source *source, const struct mp_size_places *places, uint32_t place)
{
    double handed = 0, own = 0, alive = places->live_blocks[place];
    for (uint32_t i = places->first[place]; i < places->first[place + 1]; i++)
        *(is_handed_over(source->model, places->order[i]) ? &handed : &own) += 1;
    return handed + fmin(own, alive);
}

static void add_aside(const struct mp_size_source *sources, const struct mp_size_sites *sites, uint32_t place,
                      struct mp_size_chance *chance)
{
    const struct mp_size_points *points = &chance->plan->points;
    struct mp_size_aside aside = {0};
    double most = 0;
    for (size_t i = 0; i < sites->count; i++) {
        const struct mp_size_places *of = &sites->of[i];
        double largest = 0, count = count_most(&sources[i], of, place);
        for (uint32_t k = of->first[place]; k < of->first[place + 1]; k++)
            largest = fmax(largest, (double)mp_size_bytes(sources[i].model, of->order[k]));
        most = fmax(most, count);
        if (i >= points->count) continue;
        aside.largest.low[i] = aside.largest.high[i] = largest;
        aside.most.low[i] = aside.most.high[i] = count;
    }
    mp_size_solve(points, &aside.largest, &aside.size);
    mp_size_solve(points, &aside.most, &aside.count);
    if (aside.count.kind == MP_SIZE_OPAQUE) { /* a run may have had time for more, whatever its size */
        for (size_t i = 0; i < points->count; i++)
            aside.most.low[i] = aside.most.high[i] = most;
        mp_size_solve(points, &aside.most, &aside.count);
    }
    mp_vec_add(&chance->asides, aside);
}

static void find_threads(const struct mp_size_source *sources, size_t count, const struct mp_size_sites *sites,
                         struct mp_size_chance *chance)
{
    unsigned char *of_place = mp_alloc_zeroed(sites->places + 1, 1);
    for (size_t i = 0; i < count; i++) {
        const struct mp_model *model = sources[i].model;
        unsigned char *beside = find_beside(&sources[i]);
        for (uint32_t block = 0; block < model->blocks.count; block++) {
            if (!beside[block] || sites->of[i].place[block] == MP_NONE) continue;
            of_place[sites->of[i].place[block]] = 1;
            chance->threads |= is_handed_over(model, block);
        }
        if (model == chance->plan->source->model)
            chance->beside = beside;
        else
            free(beside);
    }
    for (uint32_t place = 0; chance->threads && place < sites->places; place++)
        if (of_place[place]) add_aside(sources, sites, place, chance);
    free(of_place);
}

double mp_size_chance_threads(const struct mp_size_chance *chance, struct mp_size_point at)
{
    const struct mp_size_points *points = &chance->plan->points;
    double most = 0;
    for (size_t i = 0; i < chance->asides.count; i++) {
        const struct mp_size_aside *aside = &chance->asides.at[i];
        most += high_of(points, &aside->most, &aside->count, at) * high_of(points, &aside->largest, &aside->size, at);
    }
    return most;
}

/* ---- both ---------------------------------------------------------------------------------------------------------
 */

void mp_size_chance_find(const struct mp_size_plan *plan, const struct mp_size_source *sources, size_t count,
                         const struct mp_size_sites *sites, struct mp_size_chance *chance)
{
    *chance = (struct mp_size_chance){.plan = plan};
    find_batches(plan, sources, count, chance);
    find_threads(sources, count, sites, chance);
}

void mp_size_chance_free(struct mp_size_chance *chance)
{
    mp_vec_free(&chance->asides);
    free(chance->received);
    free(chance->beside);
}
