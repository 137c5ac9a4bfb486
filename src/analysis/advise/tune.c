#include "analysis/advise/tune.h"

#include <stdlib.h>

#include "analysis/allocator/torch_room.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/words.h"

/*
 * The reserved peak jumps up and down over the values of an option, so only a replay gives it. The search first tries
 * every option alone. It then starts from two settings, the best with and the best without expandable segments. From
 * each it moves one option after the other to its best value, until no move helps. It tries the rounding of each class
 * of sizes last. Most replays stop early, once they reserve more than the best so far.
 */
#define STEPS_MOST   500000000 /* steps of all replays together; if none stops early, they take half a minute */
#define REPLAYS_MIN  40
#define REPLAYS_MOST 400
#define ROUNDS       4
#define SIZES        8                   /* sizes of the program's own blocks, tried as max_split */
#define CLOSE        50                  /* the replay of the recording is close if it is within 1/CLOSE */
#define WORTH        100                 /* a change must save at least 1/WORTH of the reserved bytes */
#define OOM          ((uint64_t)1 << 45) /* price of a failed request, in bytes: more than any device has */
#define MIB          ((uint64_t)1 << 20)

enum option { OPTION_EXPANDABLE, OPTION_MAX_SPLIT, OPTION_ROUNDUP, OPTION_GC, OPTIONS };

struct search {
    const struct mp_model *model;
    struct mp_torch_history *history;
    struct mp_tuning *tuning;
    mp_tune_progress *progress;
    void *context;
    size_t most; /* replays */
    uint64_t total;
    MP_VEC(struct mp_torch_settings) tried;
    MP_VEC(uint64_t) splits;                     /* values of max_split */
    bool has_limit;                              /* without a limit the threshold collects nothing */
    bool classes[MP_TORCH_DIVISIONS];            /* classes of requested sizes */
    struct mp_tune_found best, single, sides[2]; /* best of all, best with one option changed, best of each value of
                                                  * `expandable` */
};

static const uint64_t splits[] = {512, 256, 128, 64, 32, 21, 1024, 2048};
static const uint32_t roundups[] = {8, 4, 16, 2, 32, 64, 0};
static const double thresholds[] = {0.8, 0.6, 0.9, 0.7, 0.5, 0};

static bool same_divisions(const struct mp_torch_settings *a, const struct mp_torch_settings *b)
{
    struct mp_torch_settings like = *a;
    for (unsigned i = 0; i < MP_TORCH_DIVISIONS; i++)
        like.divisions[i] = b->divisions[i];
    return mp_torch_settings_same(a, &like);
}

static unsigned options_changed(const struct mp_torch_settings *from, const struct mp_torch_settings *to)
{
    return (unsigned)(from->expandable != to->expandable) + (unsigned)(from->max_split != to->max_split) +
           (unsigned)(from->gc_threshold != to->gc_threshold) + (unsigned)!same_divisions(from, to);
}

static bool is_list(const struct mp_torch_settings *settings)
{
    for (unsigned i = 1; i < MP_TORCH_DIVISIONS; i++)
        if (settings->divisions[i] != settings->divisions[0]) return true;
    return false;
}

/* The least bytes that an additional option has to save. */
static uint64_t price(const struct search *s, const struct mp_tune_found *found)
{
    unsigned parts = found->options + (found->options && is_list(&found->settings));
    return s->tuning->reserved / WORTH * parts;
}

static uint64_t cost(const struct search *s, const struct mp_tune_found *found)
{
    uint64_t reserved = found->replay.reserved_peak, more = price(s, found);
    uint64_t ooms = found->replay.ooms < UINT64_MAX / 2 / OOM ? found->replay.ooms * OOM : UINT64_MAX / 2;
    if (reserved > UINT64_MAX / 4) return UINT64_MAX; /* nothing found yet */
    return reserved + more + ooms;
}

/* True if the first reserves less, or reserves the same with fewer calls of the driver. */
static bool is_better(const struct search *s, const struct mp_tune_found *a, const struct mp_tune_found *b)
{
    uint64_t x = cost(s, a), y = cost(s, b);
    return x < y || (x == y && a->replay.driver_calls < b->replay.driver_calls);
}

static bool was_tried(const struct search *s, const struct mp_torch_settings *settings)
{
    for (size_t i = 0; i < s->tried.count; i++)
        if (mp_torch_settings_same(&s->tried.at[i], settings)) return true;
    return false;
}

static void keep(struct search *s, const struct mp_tune_found *found)
{
    if (is_better(s, found, &s->best)) s->best = *found;
    if (found->options == 1 && is_better(s, found, &s->single)) s->single = *found;
    struct mp_tune_found *side = &s->sides[found->settings.expandable];
    if (is_better(s, found, side)) *side = *found;
}

static void try(struct search *s, const struct mp_torch_settings *settings)
{
    struct mp_tune_found found = {.settings = *settings, .options = options_changed(&s->history->settings, settings)};
    if (s->tuning->replays >= s->most || was_tried(s, settings)) return;
    mp_vec_add(&s->tried, *settings);
    uint64_t most = cost(s, &s->sides[settings->expandable]), other = cost(s, &s->single);
    if (found.options == 1 && other > most) most = other;
    if (most <= price(s, &found)) return;
    most -= price(s, &found);
    if (most >= OOM) most = 0; /* no limit: the program ran out of memory before */
    mp_torch_replay_below(s->model, s->history, settings, s->tuning->capacity, s->total, most, &found.replay);
    s->tuning->replays++;
    if (s->progress) s->progress(s->context, s->tuning->replays, s->most);
    if (!found.replay.given_up && found.replay.ooms <= s->tuning->as_set.ooms) keep(s, &found);
}

/* Tries every value of an option. */
static void vary(struct search *s, struct mp_torch_settings settings, enum option option)
{
    switch (option) {
    case OPTION_EXPANDABLE:
        settings.expandable = !settings.expandable;
        try(s, &settings);
        break;
    case OPTION_MAX_SPLIT:
        for (size_t i = 0; i < s->splits.count; i++) {
            settings.max_split = s->splits.at[i];
            if (settings.max_split > settings.large_segment) try(s, &settings);
        }
        break;
    case OPTION_ROUNDUP:
        for (size_t i = 0; i < sizeof roundups / sizeof *roundups; i++) {
            for (unsigned k = 0; k < MP_TORCH_DIVISIONS; k++)
                settings.divisions[k] = roundups[i];
            try(s, &settings);
        }
        break;
    case OPTION_GC:
        for (size_t i = 0; s->has_limit && i < sizeof thresholds / sizeof *thresholds; i++) {
            settings.gc_threshold = thresholds[i];
            try(s, &settings);
        }
        break;
    default:
        break;
    }
}

static void descend(struct search *s)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t before[2] = {s->sides[0].replay.reserved_peak, s->sides[1].replay.reserved_peak};
        for (unsigned side = 0; side < 2; side++)
            for (enum option option = OPTION_MAX_SPLIT; option < OPTIONS; option++)
                vary(s, s->sides[side].settings, option);
        if (s->sides[0].replay.reserved_peak == before[0] && s->sides[1].replay.reserved_peak == before[1]) return;
    }
}

/* Classes without requests have no effect of their own. The lowest class with requests also holds for the sizes below
 * it. */
static void set_class(const struct search *s, struct mp_torch_settings *settings, unsigned class, uint32_t divisions)
{
    unsigned lowest = 0;
    while (!s->classes[lowest])
        lowest++;
    settings->divisions[class] = divisions ? divisions : 1;
    for (unsigned k = 0; k < MP_TORCH_DIVISIONS; k++) {
        if (k < lowest)
            settings->divisions[k] = settings->divisions[lowest] ? settings->divisions[lowest] : 1;
        else if (!s->classes[k])
            settings->divisions[k] = 0;
        else if (!settings->divisions[k])
            settings->divisions[k] = 1;
    }
}

static void refine_classes(struct search *s)
{
    for (unsigned k = MP_TORCH_DIVISIONS; k--;) {
        for (size_t i = 0; s->classes[k] && i < sizeof roundups / sizeof *roundups; i++) {
            struct mp_torch_settings settings = s->best.settings;
            set_class(s, &settings, k, roundups[i]);
            try(s, &settings);
        }
    }
}

struct size_count {
    uint64_t bytes, count;
};

MP_ORDER(by_bytes, struct size_count, MP_RISING(bytes))

MP_ORDER(by_sum, struct size_count, MP_COMPARE(b->count * b->bytes, a->count * a->bytes) ?: by_bytes(a, b))

/* The sizes with most requested bytes, as values of max_split: rounded to whole MiB so that blocks of that size are not
 * split. */
static void find_sizes(struct search *s)
{
    MP_VEC(struct size_count) sizes = {0};
    size_t distinct = 0;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        mp_vec_add(&s->splits, splits[i] * MIB);
    mp_vec_add(&s->splits, MP_TORCH_UNLIMITED);
    mp_vec_each (const struct mp_torch_step, step, &s->history->steps) {
        if (step->action != MP_TORCH_ALLOC || !step->bytes) continue;
        unsigned class = 63 - (unsigned)__builtin_clzll(step->bytes);
        s->classes[class < 20 ? 0 : class - 20 < MP_TORCH_DIVISIONS ? class - 20 : MP_TORCH_DIVISIONS - 1] = true;
        const struct size_count one = {step->bytes / MIB * MIB, 1};
        if (step->bytes >= MP_TORCH_LARGE) mp_vec_add(&sizes, one);
    }
    if (sizes.count) qsort(sizes.at, sizes.count, sizeof *sizes.at, by_bytes);
    for (size_t i = 0; i < sizes.count; i++) {
        if (distinct && sizes.at[distinct - 1].bytes == sizes.at[i].bytes)
            sizes.at[distinct - 1].count++;
        else
            sizes.at[distinct++] = sizes.at[i];
    }
    if (distinct) qsort(sizes.at, distinct, sizeof *sizes.at, by_sum);
    for (size_t i = 0; i < distinct && i < SIZES; i++)
        mp_vec_add(&s->splits, sizes.at[i].bytes);
    mp_vec_free(&sizes);
}

static uint64_t rounded(uint64_t bytes)
{
    return bytes <= MP_TORCH_MINIMUM ? MP_TORCH_MINIMUM : (bytes + MP_TORCH_MINIMUM - 1) & ~(MP_TORCH_MINIMUM - 1);
}

/* The highest sum of requested bytes, rounded to the allocator's smallest unit: no setting reserves less. */
static uint64_t find_bound(const struct mp_torch_history *history)
{
    uint64_t level = 0, peak = 0;
    for (size_t i = 0; i < history->base.count; i++)
        level += rounded(history->base.at[i].requested);
    peak = level;
    mp_vec_each (const struct mp_torch_step, step, &history->steps) {
        if (step->action == MP_TORCH_ALLOC) level += step->bytes ? rounded(step->bytes) : 0;
        if (step->action == MP_TORCH_FREE_COMPLETED && step->block != MP_NONE)
            level -= step->bytes ? rounded(step->bytes) : 0;
        if (level > peak && level < UINT64_MAX / 2) peak = level;
    }
    return (peak + MP_TORCH_PAGE - 1) / MP_TORCH_PAGE * MP_TORCH_PAGE;
}

static bool requests_known(const struct mp_model *model, const struct mp_torch_history *history)
{
    size_t known = 0, allocs = 0;
    if (history->traced) return true;
    for (size_t i = 0; i < model->requests.count; i++)
        known += model->blocks.track[model->requests.at[i].block] == history->track;
    for (size_t i = 0; i < history->steps.count; i++)
        allocs += history->steps.at[i].action == MP_TORCH_ALLOC;
    return known >= allocs;
}

static bool is_close(uint64_t a, uint64_t b)
{
    uint64_t apart = a > b ? a - b : b - a;
    return apart <= b / CLOSE;
}

/* The device's memory for the allocator at the out-of-memory: reserved plus free bytes. */
static void find_room_at_oom(struct search *s, uint64_t *room)
{
    struct mp_torch_history *history = s->history;
    struct mp_torch_moment moment = {0};
    struct mp_torch_replay replay;
    size_t at = history->steps.count;
    while (at && (history->steps.at[at - 1].action != MP_TORCH_OUT_OF_MEMORY ||
                  history->steps.at[at - 1].address == MP_BYTES_UNKNOWN))
        at--;
    if (!at) return;
    mp_torch_replay_recorded(s->model, history, (uint32_t)at, &moment, &replay);
    if (!replay.differences) {
        *room = history->steps.at[at - 1].address / MP_TORCH_PAGE * MP_TORCH_PAGE;
        for (size_t i = 0; i < moment.listing.segments.count; i++)
            *room += moment.listing.segments.at[i].bytes;
    }
    mp_torch_moment_free(&moment);
}

/* Replays the recording unchanged, which shows where the program emptied the cache. False: the replay differs. */
static bool replay_trace(struct search *s)
{
    struct mp_torch_replay replay;
    if (!s->history->traced) return true;
    find_room_at_oom(s, &s->tuning->capacity);
    mp_torch_replay_recorded(s->model, s->history, MP_TORCH_TO_THE_END, NULL, &replay);
    return !replay.differences;
}

/* Replays the recording once more, under its own settings. */
static void replay_as_set(struct search *s)
{
    struct mp_tuning *t = s->tuning;
    const struct mp_model *model = s->model;
    uint16_t track = s->history->track;
    uint64_t recorded = model->sums.at[track].reserved_peak_bytes;
    t->recorded_reserved = recorded == MP_BYTES_UNKNOWN ? 0 : recorded;
    t->total = model->devices.at[model->tracks.at[track].device].total_bytes;
    s->total = t->total == MP_BYTES_UNKNOWN ? (uint64_t)1 << 40 : t->total;
    t->capacity = mp_torch_room(model, track, t->recorded_reserved);
    bool exact = replay_trace(s);
    mp_torch_replay_below(model, s->history, &s->history->settings, t->capacity, s->total, 0, &t->as_set);
    t->replays++;
    t->reserved = t->recorded_reserved && t->recorded_reserved < t->as_set.reserved_peak ? t->recorded_reserved
                                                                                         : t->as_set.reserved_peak;
    bool as_recorded =
        t->recorded_reserved ? is_close(t->as_set.reserved_peak, t->recorded_reserved) : s->history->traced;
    t->known = exact && as_recorded && !t->as_set.new_ooms && requests_known(model, s->history);
    t->bound = find_bound(s->history);
    for (size_t i = 0; i < s->history->base.count; i++)
        t->base_bytes += s->history->base.at[i].requested;
}

static void begin(struct search *s)
{
    struct mp_tuning *t = s->tuning;
    struct mp_tune_found as_set = {.settings = s->history->settings, .replay = t->as_set};
    size_t steps = s->history->steps.count + s->history->base.count;
    s->most = STEPS_MOST / (steps + 1);
    if (s->most < REPLAYS_MIN) s->most = REPLAYS_MIN;
    if (s->most > REPLAYS_MOST) s->most = REPLAYS_MOST;
    s->has_limit = s->history->limits.count || s->history->settings.fraction > 0;
    mp_vec_add(&s->tried, as_set.settings);
    as_set.replay.reserved_peak = t->reserved;
    as_set.replay.driver_calls = UINT64_MAX;
    s->best = s->single = as_set;
    for (unsigned side = 0; side < 2; side++) {
        s->sides[side] = as_set;
        s->sides[side].settings.expandable = side;
        if (as_set.settings.expandable != side) s->sides[side].replay.reserved_peak = UINT64_MAX;
    }
    find_sizes(s);
}

static bool is_worth(const struct mp_tuning *t, const struct mp_tune_found *found)
{
    if (!found->options) return false;
    if (found->replay.ooms < t->as_set.ooms && !mp_torch_is_full(found->replay.allocated_peak, t->capacity))
        return true;
    return found->replay.reserved_peak < t->reserved &&
           t->reserved - found->replay.reserved_peak >= t->reserved / WORTH;
}

static void find_settings(struct search *s)
{
    begin(s);
    for (enum option option = OPTION_EXPANDABLE; option < OPTIONS; option++)
        vary(s, s->history->settings, option);
    descend(s);
    refine_classes(s);
    descend(s);
    if (is_worth(s->tuning, &s->best)) mp_vec_add(&s->tuning->found, s->best);
    if (s->best.options > 1 && is_worth(s->tuning, &s->single)) mp_vec_add(&s->tuning->found, s->single);
}

void mp_tune(const struct mp_model *model, struct mp_torch_history *history, bool search, mp_tune_progress *progress,
             void *context, struct mp_tuning *tuning)
{
    struct search s = {.model = model, .history = history, .tuning = tuning, .progress = progress, .context = context};
    *tuning = (struct mp_tuning){.capacity = MP_BYTES_UNKNOWN};
    replay_as_set(&s);
    if (search) find_settings(&s);
    mp_vec_free(&s.tried);
    mp_vec_free(&s.splits);
}

void mp_tuning_free(struct mp_tuning *tuning)
{
    mp_vec_free(&tuning->found);
    for (size_t i = 0; i < tuning->phased.count; i++)
        free(tuning->phased.at[i].then);
    mp_vec_free(&tuning->phased);
}
