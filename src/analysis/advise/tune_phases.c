#include "analysis/advise/tune_phases.h"

#include <stdlib.h>

#include "analysis/categories/phases.h"
#include "base/memory.h"

#define WORTH 100 /* another setting must save at least 1/WORTH of the reserved bytes */

/* A moment at which a program could change the allocator's settings. */
struct border {
    uint32_t event;
    enum mp_tune_phase before, after;
};

struct search {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    struct mp_tuning *tuning;
    uint64_t best; /* reserved bytes of the best settings for the whole program */
    struct mp_tune_phased found;
};

/* Applies the text as a program's change does: unnamed settings become the default, except expandable segments. */
static char *text_of(const struct mp_torch_settings *settings)
{
    struct mp_buffer text = {0};
    if (!settings->expandable) mp_buffer_append_text(&text, "expandable_segments:False");
    if (!settings->expandable) {
        struct mp_buffer rest = {0};
        mp_torch_settings_text(settings, &rest);
        if (rest.size) mp_buffer_printf(&text, ",%.*s", (int)rest.size, (const char *)rest.data);
        mp_buffer_free(&rest);
    } else {
        mp_torch_settings_text(settings, &text);
    }
    char *copy = mp_text_copy_part((const char *)text.data, text.size);
    mp_buffer_free(&text);
    return copy;
}

void mp_tune_phased_apply(const struct mp_torch_history *history, const struct mp_tune_phased *phased,
                          struct mp_torch_history *changed)
{
    uint32_t at = mp_torch_step_of(history, phased->event);
    *changed = *history;
    changed->steps.at = NULL;
    changed->emptied.at = NULL;
    changed->changes.at = NULL;
    changed->steps.count = changed->steps.room = changed->emptied.count = changed->emptied.room = 0;
    changed->changes.count = changed->changes.room = 0;
    for (size_t i = 0; i < history->changes.count; i++)
        mp_vec_add(&changed->changes, history->changes.at[i]);
    const struct mp_torch_step step = {.bytes = changed->changes.count,
                                       .block = MP_NONE,
                                       .event = MP_NONE,
                                       .action = MP_TORCH_CALL + MP_TORCH_CALL_SETTINGS};
    mp_vec_add(&changed->changes, phased->then);
    for (size_t i = 0; i <= history->steps.count; i++) {
        if (i == at) mp_vec_add(&changed->steps, step);
        if (i < history->steps.count) mp_vec_add(&changed->steps, history->steps.at[i]);
    }
    for (size_t i = 0; i < history->emptied.count; i++)
        mp_vec_add(&changed->emptied, history->emptied.at[i] + (history->emptied.at[i] >= at));
}

void mp_tune_phased_free(struct mp_torch_history *changed)
{
    mp_vec_free(&changed->steps);
    mp_vec_free(&changed->emptied);
    mp_vec_free(&changed->changes);
}

/* True if the change reserves less than the best settings for the whole program. Expandable segments that end at the
 * event need to save only three quarters as much, because they do not affect the next phase. */
static bool is_worth(const struct search *s, const struct mp_tune_phased *phased)
{
    uint64_t reserved = phased->replay.reserved_peak, all = s->tuning->reserved, least = all / WORTH;
    if (phased->replay.ooms > s->tuning->as_set.ooms || reserved + least > all) return false;
    bool breaks_less = phased->early && phased->settings.expandable && !s->history->settings.expandable;
    return reserved + least <= s->best || (breaks_less && (all - reserved) * 4 >= (all - s->best) * 3);
}

static void try(struct search *s, const struct border *border, const struct mp_torch_settings *settings, bool early)
{
    const struct mp_torch_settings *as_set = &s->history->settings;
    struct mp_tune_phased phased = {.settings = *settings,
                                    .event = border->event,
                                    .phase = early ? border->before : border->after,
                                    .behind_training = border->before == MP_TUNE_TRAIN,
                                    .early = early,
                                    .then = text_of(early ? as_set : settings)};
    struct mp_torch_history changed;
    const struct mp_tuning *t = s->tuning;
    uint64_t total = t->total == MP_BYTES_UNKNOWN ? (uint64_t)1 << 40 : t->total;
    mp_tune_phased_apply(s->history, &phased, &changed);
    mp_torch_replay_below(s->model, &changed, early ? settings : as_set, t->capacity, total, 0, &phased.replay);
    mp_tune_phased_free(&changed);
    s->tuning->replays++;
    bool better = !s->found.then || phased.replay.reserved_peak < s->found.replay.reserved_peak;
    if (!is_worth(s, &phased) || !better) {
        free(phased.then);
        return;
    }
    free(s->found.then);
    s->found = phased;
}

static bool is_work(unsigned phase)
{
    return phase == MP_PHASE_FORWARD || phase == MP_PHASE_OPTIMIZER || mp_phase_is_backward(phase);
}

static bool allocates_before(const struct mp_torch_history *history, uint32_t event)
{
    uint32_t end = mp_torch_step_of(history, event);
    for (uint32_t i = 0; i < end; i++)
        if (history->steps.at[i].action == MP_TORCH_ALLOC) return true;
    return false;
}

/* Loading ends at the first call of a module. Training ends with the last optimizer step or backward, if modules are
 * called after it. */
static size_t find_borders(const struct search *s, struct border borders[2])
{
    struct mp_phases phases;
    size_t count = 0, first = SIZE_MAX, last = SIZE_MAX, served = SIZE_MAX;
    mp_phases_find(s->model, &phases);
    for (size_t i = 0; i < phases.turns.count; i++) {
        unsigned phase = phases.turns.at[i].phase;
        if (is_work(phase) && first == SIZE_MAX) first = i;
        if (phase == MP_PHASE_OPTIMIZER || mp_phase_is_backward(phase)) last = i;
        if (phase == MP_PHASE_OPTIMIZER || mp_phase_is_backward(phase)) served = SIZE_MAX;
        if (phase == MP_PHASE_FORWARD && last != SIZE_MAX && served == SIZE_MAX) served = i;
    }
    if (first != SIZE_MAX && allocates_before(s->history, phases.turns.at[first].first))
        borders[count++] = (struct border){phases.turns.at[first].first, MP_TUNE_LOAD,
                                           last == SIZE_MAX ? MP_TUNE_SERVE : MP_TUNE_TRAIN};
    if (served != SIZE_MAX)
        borders[count++] = (struct border){phases.turns.at[served].first, MP_TUNE_TRAIN, MP_TUNE_SERVE};
    mp_phases_free(&phases);
    return count;
}

void mp_tune_phases(const struct mp_model *model, const struct mp_torch_history *history, struct mp_tuning *tuning)
{
    struct search s = {.model = model, .history = history, .tuning = tuning, .best = tuning->reserved};
    struct mp_torch_settings tried[3] = {history->settings};
    struct border borders[2];
    size_t count = 1, border_count = find_borders(&s, borders);
    tried[0].expandable = !tried[0].expandable;
    for (size_t i = 0; i < tuning->found.count && count < 3; i++) {
        if (tuning->found.at[i].replay.reserved_peak < s.best) s.best = tuning->found.at[i].replay.reserved_peak;
        if (!mp_torch_settings_same(&tuning->found.at[i].settings, &tried[0]))
            tried[count++] = tuning->found.at[i].settings;
    }
    for (size_t i = 0; i < border_count; i++)
        for (size_t k = 0; k < 2 * count; k++)
            try(&s, &borders[i], &tried[k / 2], k % 2);
    if (s.found.then)
        mp_vec_add(&tuning->phased, s.found);
    else
        free(s.found.then);
}
