#include "analysis/frag_oom.h"

#include <string.h>

#include "analysis/leaks.h"
#include "base/words.h"

/* Tried one after the other, those that change least first. */
static const char *const remedies[] = {
    "expandable_segments:True",   "max_split_size_mb:512",
    "max_split_size_mb:256",      "max_split_size_mb:128",
    "max_split_size_mb:64",       "max_split_size_mb:20",
    "roundup_power2_divisions:8", "expandable_segments:True,roundup_power2_divisions:8",
};

static const struct mp_torch_step *step_of(const struct mp_torch_history *history, uint32_t event, uint32_t *index)
{
    for (*index = 0; *index < history->steps.count; ++*index)
        if (history->steps.at[*index].event == event) return &history->steps.at[*index];
    return NULL;
}

uint64_t mp_frag_capacity(const struct mp_frag *frag)
{
    uint64_t free_bytes = frag->oom.device_free == MP_BYTES_UNKNOWN ? 0 : frag->oom.device_free;
    return frag->reserved + free_bytes / MP_TORCH_PAGE * MP_TORCH_PAGE;
}

static enum mp_status try_remedies(const struct mp_model *model, const struct mp_torch_history *history, uint32_t step,
                                   struct mp_frag *frag, struct mp_error *error)
{
    uint64_t capacity = mp_frag_capacity(frag);
    frag->oom.tried = true;
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        struct mp_torch_settings settings = history->settings;
        struct mp_torch_replay replay;
        enum mp_status status = mp_torch_settings_parse(&settings, remedies[i], error);
        if (!status && !memcmp(&settings, &history->settings, sizeof settings)) continue;
        if (!status)
            status = mp_torch_replay_with(model, history, &settings, capacity, capacity, step + 1, &replay, error);
        if (status) return status;
        if (!replay.new_ooms && replay.last_oom != step && !mp_vec_push(&frag->oom.would_fit, remedies[i]))
            return mp_fail(error, MP_NO_MEMORY, "not enough memory for the settings that fit");
    }
    return MP_OK;
}

/* Bytes of this track that keep growing, until then. */
static enum mp_status find_leaking(const struct mp_model *model, const struct mp_frag *frag, uint64_t *bytes,
                                   struct mp_error *error)
{
    struct mp_window window = {.last = frag->events, .to_ns = frag->ns};
    const struct mp_leaks_query query = {
        frag->track, window, {.by = MP_GROUP_STACK, .sort = MP_SORT_GROWTH}, NULL, NULL};
    struct mp_leaks leaks;
    enum mp_status status = mp_leaks_find(model, &query, &leaks, error);
    *bytes = 0;
    if (status) return status;
    for (size_t i = 0; i < leaks.findings.count; i++)
        if (mp_leak_is_leak(&leaks.findings.at[i]) && leaks.findings.at[i].track == frag->track)
            *bytes += leaks.findings.at[i].bytes;
    mp_leaks_free(&leaks);
    return MP_OK;
}

static uint64_t total_of(const struct mp_model *model, uint16_t track)
{
    return model->devices.at[model->tracks.at[track].device].total_bytes;
}

/* Free bytes inside what the allocator held; MP_BYTES_UNKNOWN. */
static uint64_t free_inside(const struct mp_model *model, const struct mp_frag *frag)
{
    if (frag->known) return frag->free_bytes;
    for (size_t i = model->noted.count; i--;) {
        uint32_t event = model->noted.at[i];
        if (event >= frag->oom.event || model->events.type[event] != MP_EVENT_RESERVED ||
            model->events.track[event] != frag->track)
            continue;
        uint64_t held = model->notes.at[i].bytes;
        return held > frag->allocated ? held - frag->allocated : 0;
    }
    return MP_BYTES_UNKNOWN;
}

static enum mp_status find_cause(const struct mp_model *model, const struct mp_torch_history *history,
                                 struct mp_frag *frag, struct mp_error *error)
{
    struct mp_frag_oom *oom = &frag->oom;
    uint64_t room = oom->device_free == MP_BYTES_UNKNOWN ? 0 : oom->device_free;
    uint64_t asked = mp_torch_segment_bytes(&history->settings, oom->requested), leaking;
    uint64_t total = total_of(model, frag->track), free_bytes = free_inside(model, frag);
    oom->cause = MP_OOM_UNKNOWN;
    if (free_bytes == MP_BYTES_UNKNOWN) return MP_OK;
    if (history->settings.expandable && oom->requested > MP_TORCH_SMALL)
        asked += history->settings.large_segment; /* whole pages */
    if (room >= asked) {
        oom->cause = MP_OOM_LIMIT;
        return MP_OK;
    }
    if (free_bytes + room >= oom->requested) {
        oom->cause = MP_OOM_FRAGMENTATION;
        return MP_OK;
    }
    enum mp_status status = find_leaking(model, frag, &leaking, error);
    if (status) return status;
    uint64_t missing = oom->requested - free_bytes - room;
    bool others_known = total != MP_BYTES_UNKNOWN && frag->known && oom->device_free != MP_BYTES_UNKNOWN;
    uint64_t others = others_known && total > frag->reserved + room ? total - frag->reserved - room : 0;
    oom->cause = leaking >= missing                        ? MP_OOM_LEAK
                 : others >= missing && others > total / 4 ? MP_OOM_OTHER_PROCESS
                                                           : MP_OOM_CAPACITY;
    return MP_OK;
}

enum mp_status mp_frag_judge_oom(const struct mp_model *model, const struct mp_torch_history *history,
                                 struct mp_frag *frag, struct mp_error *error)
{
    struct mp_frag_oom *oom = &frag->oom;
    const struct mp_model_note *note = &model->notes.at[model->events.subject[oom->event]];
    uint32_t index;
    const struct mp_torch_step *step = step_of(history, oom->event, &index);
    oom->ns = model->events.time_ns[oom->event];
    oom->requested = note->bytes;
    oom->stack = note->stack;
    oom->device_free = step && history->traced ? step->address : MP_BYTES_UNKNOWN;
    enum mp_status status = find_cause(model, history, frag, error);
    if (status || !step || !frag->known || oom->cause == MP_OOM_LIMIT) return status;
    return try_remedies(model, history, index, frag, error);
}

const char *mp_oom_cause_name(enum mp_oom_cause cause)
{
    static const char *const names[] = {"capacity", "fragmentation", "leak", "other_process", "limit", NULL};
    return names[cause];
}
