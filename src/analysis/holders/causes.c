#include "analysis/holders/causes.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/categories/phases.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"

struct finder {
    const struct mp_model *model;
    uint16_t track;
    uint32_t moment;
    struct mp_phases phases;
    uint64_t *live_of, *counted_of; /* by stack: bytes at the moment; the part of them that has a cause */
    unsigned char *leaves;          /* mp_holders_leave_garbage() */
    struct mp_held_causes *causes;
};

/* True if a backward pass that ran after the block was made, or that made it, was over at the look. */
static bool is_behind_backward(const struct finder *f, const struct mp_model_holder *row)
{
    uint32_t born = f->model->blocks.alloc_event[row->block];
    uint32_t end = born == MP_NONE ? MP_NONE : mp_phase_backward_end(&f->phases, born);
    if (end == MP_NONE || row->look >= f->model->looks.count) return false;
    /* A backward pass with create_graph=True saves tensors for the next one. */
    uint32_t turn = mp_phase_turn_of(&f->phases, born);
    const char *path = mp_model_text(f->model, row->path), *last = strrchr(path, '.');
    if (turn != MP_NONE && mp_phase_is_backward(f->phases.turns.at[turn].phase) &&
        (!last || strcmp(last, ".grad") != 0))
        return false;
    return end < mp_model_events_before(f->model, f->model->looks.at[row->look].time_ns, true);
}

/* The path with * in place of numbers in the keys of entries, so that ['loss/0'] and ['loss/1'] have the same root, as
 * one entry and many do. */
static char *pattern_of(const char *path)
{
    char *pattern = mp_alloc(strlen(path) + 1), *to = pattern;
    bool is_key = false;
    for (const char *at = path; *at;) {
        size_t digits = is_key ? strspn(at, "0123456789") : 0;
        is_key = *at == '[' || (is_key && *at != ']');
        *to++ = digits ? '*' : *at;
        at += digits ? digits : 1;
    }
    *to = '\0';
    return pattern;
}

static enum mp_held_why why_of(const struct finder *f, const struct mp_holder *holder,
                               const struct mp_model_holder *row)
{
    const char *entry = strstr(holder->path, "["), *graph = strstr(holder->path, ".grad_fn");
    if (mp_holder_awaits_gc(holder)) return MP_HELD_GARBAGE;
    if (mp_holder_is_cycle(holder)) return MP_HELD_CYCLE;
    bool is_kept = holder->certain && graph && entry && entry < graph;
    return is_kept && is_behind_backward(f, row) ? MP_HELD_GRAPH : MP_HELD_WHYS;
}

static struct mp_held_cause *cause_of(const struct finder *f, const struct mp_holder *holder, enum mp_held_why why)
{
    char *root = pattern_of(holder->path);
    root[mp_holder_root(root)] = '\0';
    for (size_t i = 0; i < f->causes->count; i++)
        if (f->causes->at[i].why == why && (why == MP_HELD_GARBAGE || !strcmp(f->causes->at[i].root, root))) {
            free(root);
            return &f->causes->at[i];
        }
    mp_vec_add(
        f->causes,
        ((struct mp_held_cause){
            .why = why, .root = root, .advice = mp_holder_advice(holder), .file = holder->file, .line = holder->line}));
    return &f->causes->at[f->causes->count - 1];
}

static void add_row(struct finder *f, const struct mp_model_holder *row, bool counts)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    const struct mp_holder holder = {.path = mp_model_text(f->model, row->path),
                                     .kind = row->kind,
                                     .certain = row->certain,
                                     .file = row->file,
                                     .line = row->line};
    enum mp_held_why why = why_of(f, &holder, row);
    uint32_t stack = blocks->stack[row->block];
    uint64_t bytes = blocks->bytes[row->block];
    if (why == MP_HELD_WHYS || bytes == MP_BYTES_UNKNOWN) return;
    if (why == MP_HELD_GARBAGE && !f->leaves[stack]) return;
    struct mp_held_cause *cause = cause_of(f, &holder, why);
    f->causes->of_block[row->block] = (uint32_t)(cause - f->causes->at) + 1;
    uint64_t room = f->live_of[stack] - f->counted_of[stack]; /* another look may have seen more than lives now */
    if (!counts || !room) return;
    cause->blocks++;
    cause->bytes += bytes < room ? bytes : room;
    f->counted_of[stack] += bytes < room ? bytes : room;
    if (f->counted_of[stack] > cause->site_bytes) {
        cause->site_bytes = f->counted_of[stack];
        cause->stack = stack;
    }
}

static bool lives(const struct finder *f, uint32_t block)
{
    uint32_t born = f->model->blocks.alloc_event[block], died = f->model->blocks.free_event[block];
    return f->model->blocks.track[block] == f->track && (born == MP_NONE || born < f->moment) &&
           (died == MP_NONE || died >= f->moment);
}

static uint64_t key_of(uint32_t stack, uint32_t look)
{
    return ((uint64_t)stack << 32 | look) + 1;
}

/* By stack: the look with most of its rows; MP_NONE if as many blocks that live at the moment have a row, whatever look
 * it is from. */
static uint32_t *choose_looks(const struct finder *f)
{
    const struct mp_model *model = f->model;
    uint32_t *chosen = mp_alloc_zeroed(model->stacks.count + 1, sizeof *chosen);
    uint64_t *most = mp_alloc_zeroed(model->stacks.count + 1, sizeof *most);
    uint64_t *living = mp_alloc_zeroed(model->stacks.count + 1, sizeof *living);
    struct mp_map counts = {0};
    mp_vec_each (const struct mp_model_holder, row, &model->holders) {
        uint32_t stack = model->blocks.stack[row->block];
        if (model->blocks.track[row->block] != f->track) continue;
        living[stack] += lives(f, row->block);
        uint64_t *count = mp_map_at(&counts, key_of(stack, row->look), NULL);
        if (++*count <= most[stack]) continue;
        most[stack] = *count;
        chosen[stack] = row->look;
    }
    for (size_t stack = 0; stack <= model->stacks.count; stack++)
        if (living[stack] >= most[stack]) chosen[stack] = MP_NONE;
    mp_map_free(&counts);
    free(most);
    free(living);
    return chosen;
}

/* Sorts the causes, and numbers the blocks' causes anew. */
static void sort(const struct mp_model *model, struct mp_held_causes *causes)
{
    uint32_t *place = mp_alloc_zeroed(causes->count + 1, sizeof *place);
    struct mp_held_cause *sorted = mp_alloc((causes->count + 1) * sizeof *sorted);
    for (size_t i = 0; i < causes->count; i++) {
        size_t at = 0;
        for (size_t k = 0; k < causes->count; k++)
            at += causes->at[k].bytes > causes->at[i].bytes || (causes->at[k].bytes == causes->at[i].bytes && k < i);
        sorted[at] = causes->at[i];
        place[i + 1] = (uint32_t)at + 1;
    }
    memcpy(causes->at, sorted, causes->count * sizeof *sorted);
    for (size_t block = 0; block < model->blocks.count; block++)
        causes->of_block[block] = place[causes->of_block[block]];
    free(sorted);
    free(place);
}

void mp_held_causes_find(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_held_causes *causes)
{
    struct finder f = {.model = model, .track = track, .moment = moment, .causes = causes};
    *causes = (struct mp_held_causes){0};
    if (!model->holders.count) return;
    causes->of_block = mp_alloc_zeroed(model->blocks.count + 1, sizeof *causes->of_block);
    f.live_of = mp_alloc_zeroed(model->stacks.count + 1, sizeof *f.live_of);
    f.counted_of = mp_alloc_zeroed(model->stacks.count + 1, sizeof *f.counted_of);
    f.leaves = mp_holders_leave_garbage(model, track, moment);
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (lives(&f, block) && model->blocks.bytes[block] != MP_BYTES_UNKNOWN)
            f.live_of[model->blocks.stack[block]] += model->blocks.bytes[block];
    mp_phases_find(model, &f.phases);
    uint32_t *looks = choose_looks(&f);
    mp_vec_each (const struct mp_model_holder, row, &model->holders) {
        uint32_t look = looks[model->blocks.stack[row->block]];
        if (model->blocks.track[row->block] == track)
            add_row(&f, row, look == MP_NONE ? lives(&f, row->block) : row->look == look);
    }
    mp_phases_free(&f.phases);
    free(looks);
    free(f.leaves);
    free(f.live_of);
    free(f.counted_of);
    if (causes->count) sort(model, causes);
}

void mp_held_causes_free(struct mp_held_causes *causes)
{
    for (size_t i = 0; i < causes->count; i++)
        free(causes->at[i].root);
    free(causes->of_block);
    mp_vec_free(causes);
}

const char *mp_held_why_name(enum mp_held_why why)
{
    static const char *const names[MP_HELD_WHYS] = {"garbage", "cycle", "graph"};
    return names[why];
}
