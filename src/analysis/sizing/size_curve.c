#include "analysis/sizing/size_curve.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"

#define COVERS 32 /* levels that were not covered lately are held against each new one */

/* A level is ten numbers, which are added and compared one by one. */
#define PARTS (sizeof(struct mp_size_level) / sizeof(int64_t))

struct following {
    struct mp_size_curve *curve;
    int64_t level[PARTS];
    struct mp_map seen; /* hash of a level */
};

static bool covers(const struct mp_size_level *above, const int64_t *below)
{
    int64_t parts[PARTS];
    memcpy(parts, above, sizeof parts);
    for (size_t i = 0; i < PARTS; i++)
        if (parts[i] < below[i]) return false;
    return true;
}

static void keep_level(struct following *following, uint32_t event)
{
    struct mp_size_curve *curve = following->curve;
    bool fresh;
    for (size_t i = curve->moments.count; i-- && curve->moments.count - i <= COVERS;)
        if (covers(&curve->moments.at[i].level, following->level)) return;
    mp_map_at(&following->seen, mp_hash_bytes(following->level, sizeof following->level) | 1, &fresh);
    if (!fresh) return;
    struct mp_size_moment moment = {.event = event};
    memcpy(&moment.level, following->level, sizeof moment.level);
    curve->varies = fmax(curve->varies, (double)moment.level.varies / MP_SIZE_UNIT);
    mp_vec_add(&curve->moments, moment);
}

/* Sizes that somebody made up may not fit: what is added modulo 2^64 is taken off again as exactly. */
static void add(struct following *following, uint32_t block, int64_t sign)
{
    const struct mp_size_plan *plan = following->curve->plan;
    const struct mp_size_value *value = &plan->values.at[plan->value_of[block]];
    struct mp_size_level level = {value->likely, value->low, value->high,
                                  value->at_random ? 0 : (int64_t)(value->varies * MP_SIZE_UNIT)};
    int64_t parts[PARTS];
    memcpy(parts, &level, sizeof parts);
    for (size_t i = 0; i < PARTS; i++)
        following->level[i] = (int64_t)((uint64_t)following->level[i] + (uint64_t)sign * (uint64_t)parts[i]);
}

static void follow(struct following *following)
{
    const struct mp_size_plan *plan = following->curve->plan;
    const struct mp_model *model = plan->source->model;
    bool risen = true;
    uint32_t last = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (plan->value_of[block] != MP_NONE && model->blocks.alloc_event[block] == MP_NONE) add(following, block, 1);
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t block = model->events.subject[event];
        if (plan->value_of[block] == MP_NONE) continue;
        if (type == MP_EVENT_FREE && risen) keep_level(following, last);
        risen = type == MP_EVENT_ALLOC;
        last = event + 1;
        add(following, block, risen ? 1 : -1);
    }
    if (risen) keep_level(following, last);
}

/* Drops the levels that a later one covers. */
static void thin(struct mp_size_curve *curve)
{
    size_t kept = 0;
    for (size_t i = 0; i < curve->moments.count; i++) {
        int64_t parts[PARTS];
        bool covered = false;
        memcpy(parts, &curve->moments.at[i].level, sizeof parts);
        for (size_t j = i + 1; j < curve->moments.count && j < i + COVERS && !covered; j++)
            covered = covers(&curve->moments.at[j].level, parts);
        if (!covered) curve->moments.at[kept++] = curve->moments.at[i];
    }
    curve->moments.count = kept;
}

void mp_size_curve_make(const struct mp_size_plan *plan, struct mp_size_curve *curve)
{
    struct following following = {.curve = curve};
    *curve = (struct mp_size_curve){.plan = plan};
    follow(&following);
    thin(curve);
    curve->varies += plan->queued;
    mp_map_free(&following.seen);
}

void mp_size_curve_free(struct mp_size_curve *curve)
{
    mp_vec_free(&curve->moments);
}

struct mp_size_height mp_size_curve_at(const struct mp_size_curve *curve, double batch)
{
    struct mp_size_height height = {0};
    double growth = mp_size_growth(curve->plan, batch);
    for (size_t i = 0; i < curve->moments.count; i++) {
        const struct mp_size_level *level = &curve->moments.at[i].level;
        double likely = mp_size_sum_at(&level->likely, batch);
        if (likely > height.likely) {
            height.likely = likely;
            height.moment = curve->moments.at[i].event;
        }
        height.low = fmax(height.low, mp_size_sum_at(&level->low, batch));
        height.high =
            fmax(height.high, mp_size_sum_at(&level->high, batch) + growth * (double)level->varies / MP_SIZE_UNIT);
    }
    height.high += growth * curve->plan->queued;
    return height;
}
