#include "analysis/torch_history.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/placement.h"
#include "analysis/torch_base.h"
#include "base/map.h"
#include "model/track.h"

/* The value of a key in key=value,key=value, up to the next comma outside brackets; NULL where there is none. */
static const char *find_value(const char *configuration, const char *key, size_t *length)
{
    size_t key_length = strlen(key);
    for (const char *at = configuration; *at; at++) {
        if ((at == configuration || at[-1] == ',') && !strncmp(at, key, key_length) && at[key_length] == '=') {
            const char *value = at + key_length + 1;
            *length = *value == '[' ? strcspn(value, "]") + 1 : strcspn(value, ",");
            return value;
        }
    }
    return NULL;
}

void mp_torch_settings_recorded(const char *configuration, struct mp_torch_settings *settings)
{
    mp_torch_settings_default(settings);
    static const char *const only_in_text[] = {
        "large_segment_size_mb:", "max_non_split_rounding_mb:", "per_process_memory_fraction:"};
    const char *value;
    size_t length;
    for (size_t i = 0; i < sizeof only_in_text / sizeof *only_in_text; i++) {
        char one[64];
        if (!(value = strstr(configuration, only_in_text[i])) || (length = strcspn(value, ",")) >= sizeof one) continue;
        memcpy(one, value, length);
        one[length] = 0;
        (void)mp_torch_settings_parse(settings, one, NULL); /* what makes no sense changes nothing */
    }
    if ((value = find_value(configuration, "max_split_size", &length)))
        settings->max_split = *value == '-' ? MP_TORCH_UNLIMITED : strtoull(value, NULL, 10);
    if ((value = find_value(configuration, "garbage_collection_threshold", &length)))
        settings->gc_threshold = strtod(value, NULL);
    if ((value = find_value(configuration, "expandable_segments", &length)))
        settings->expandable = !strncmp(value, "true", 4);
    if ((value = find_value(configuration, "roundup_power2_divisions", &length)) && length < 400) {
        char text[480] = "roundup_power2_divisions:";
        strncat(text, value, length);
        (void)mp_torch_settings_parse(settings, text, NULL);
    }
}

static bool pool_index(struct mp_torch_history *history, uint64_t pool, uint32_t *index)
{
    if (!history->pools.count && !mp_vec_push(&history->pools, (uint64_t)0)) return false;
    for (*index = 0; *index < history->pools.count; ++*index)
        if (history->pools.at[*index] == pool) return true;
    if (history->pools.count < MP_TORCH_POOLS) return mp_vec_push(&history->pools, pool);
    *index = 0; /* more than there can be: hostile */
    return true;
}

/* The next event of the track from *at on that is of the type, or past the end. */
static uint32_t next_event(const struct mp_model *model, uint16_t track, uint32_t at)
{
    const struct mp_model_events *events = &model->events;
    for (; at < events->count; at++) {
        unsigned type = events->type[at];
        if (events->track[at] == track &&
            (type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE || type == MP_EVENT_OOM))
            break;
    }
    return at;
}

static bool add_event_step(const struct mp_model *model, uint32_t event, struct mp_torch_step *step)
{
    uint32_t subject = model->events.subject[event];
    step->event = event;
    if (model->events.type[event] == MP_EVENT_OOM) {
        step->action = MP_TORCH_OUT_OF_MEMORY;
        step->bytes = model->notes.at[subject].bytes;
        return true;
    }
    step->action = model->events.type[event] == MP_EVENT_ALLOC ? MP_TORCH_ALLOC : MP_TORCH_FREE_COMPLETED;
    step->block = subject;
    step->address = model->blocks.address[subject];
    step->bytes = model->blocks.bytes[subject];
    return model->events.type[event] != MP_EVENT_RESIZE;
}

/* What PyTorch's own history told of the block, or of its site's others. */
static bool add_request(struct mp_torch_history *history, const struct mp_placements *known, struct mp_torch_step *step)
{
    if (step->block == MP_NONE) return true;
    uint64_t pool = known->pool[step->block];
    if (known->requested[step->block] != MP_PLACE_UNKNOWN) step->bytes = known->requested[step->block];
    if (known->stream[step->block] != MP_PLACE_UNKNOWN) step->stream = known->stream[step->block];
    return pool == MP_PLACE_UNKNOWN || pool_index(history, pool, &step->pool);
}

/* From events alone. */
static bool follow_events(const struct mp_model *model, struct mp_torch_history *history)
{
    struct mp_placements known = {0};
    bool told = model->requests.count, done = !told || mp_placements_find(model, &known);
    for (uint32_t at = next_event(model, history->track, 0); done && at < model->events.count;
         at = next_event(model, history->track, at + 1)) {
        struct mp_torch_step step = {.block = MP_NONE, .address = MP_BYTES_UNKNOWN};
        if (!add_event_step(model, at, &step)) continue;
        if (step.bytes == MP_BYTES_UNKNOWN) continue;
        done = (!told || add_request(history, &known, &step)) && mp_vec_push(&history->steps, step);
    }
    mp_placements_free(&known);
    return done;
}

/* From the allocator's trace and the events that belong to it. *fit: they do. */
static bool follow_calls(const struct mp_model *model, struct mp_torch_history *history, bool *fit)
{
    uint32_t at = next_event(model, history->track, 0);
    *fit = true;
    for (size_t i = 0; i < model->calls.count && *fit; i++) {
        const struct mp_allocator_call *call = &model->calls.at[i];
        if (call->track != history->track) continue;
        struct mp_torch_step step = {.address = call->address,
                                     .bytes = call->bytes,
                                     .stream = call->stream,
                                     .block = MP_NONE,
                                     .event = MP_NONE,
                                     .action = call->action};
        if (call->action == MP_TORCH_ALLOC || call->action == MP_TORCH_FREE_COMPLETED ||
            call->action == MP_TORCH_OUT_OF_MEMORY) {
            *fit = at < model->events.count && add_event_step(model, at, &step) && step.action == call->action;
            at = next_event(model, history->track, at + 1);
        }
        if (!pool_index(history, call->pool, &step.pool) || !mp_vec_push(&history->steps, step)) return false;
    }
    *fit = *fit && at >= model->events.count;
    return true;
}

/* Which blocks the requests to free mean, which have only an address. */
static bool resolve_requests(const struct mp_model *model, struct mp_torch_history *history)
{
    size_t last = history->steps.count;
    while (last && history->steps.at[last - 1].action != MP_TORCH_FREE_REQUESTED)
        last--;
    if (!last) return true;
    struct mp_map live = {0};
    bool done = true;
    for (size_t i = 0; done && i < model->blocks.count; i++)
        if (model->blocks.track[i] == history->track && model->blocks.alloc_event[i] == MP_NONE) {
            uint64_t *slot = mp_map_insert(&live, model->blocks.address[i] + 1, NULL);
            if (slot) *slot = i;
            done = slot;
        }
    for (size_t i = 0; done && i < last; i++) {
        struct mp_torch_step *step = &history->steps.at[i];
        if (step->action == MP_TORCH_ALLOC) {
            uint64_t *slot = mp_map_insert(&live, step->address + 1, NULL);
            if (slot) *slot = step->block;
            done = slot;
        } else if (step->action == MP_TORCH_FREE_REQUESTED) {
            const uint64_t *found = mp_map_find(&live, step->address + 1);
            if (found) step->block = (uint32_t)*found;
        }
    }
    mp_map_free(&live);
    return done;
}

static bool has_calls(const struct mp_model *model, uint16_t track)
{
    for (size_t i = 0; i < model->calls.count; i++)
        if (model->calls.at[i].track == track) return true;
    return false;
}

enum mp_status mp_torch_history_make(const struct mp_model *model, uint16_t track, bool untraced,
                                     struct mp_torch_history *history, struct mp_error *error)
{
    history->track = track;
    mp_torch_settings_recorded(model->start.configuration, &history->settings);
    uint32_t ignored;
    bool done = pool_index(history, 0, &ignored);
    if (done && has_calls(model, track)) done = follow_calls(model, history, &history->traced);
    for (size_t i = 0; done && i < model->segments.count; i++)
        if (model->segments.at[i].track == track) done = pool_index(history, model->segments.at[i].pool, &ignored);
    if (done && !history->traced) {
        history->steps.count = 0;
        if (untraced) done = follow_events(model, history);
    }
    if (history->traced || untraced)
        done = done && resolve_requests(model, history) && mp_torch_find_base(model, history);
    return done ? MP_OK : mp_fail(error, MP_NO_MEMORY, "not enough memory to replay the allocator");
}

uint32_t mp_torch_step_of(const struct mp_torch_history *history, uint32_t event)
{
    uint32_t step = 0;
    for (uint32_t i = 0; i < history->steps.count; i++)
        if (history->steps.at[i].event != MP_NONE && history->steps.at[i].event < event) step = i + 1;
    return step;
}

uint32_t mp_torch_pool_index(const struct mp_torch_history *history, uint64_t pool)
{
    for (uint32_t i = 0; i < history->pools.count; i++)
        if (history->pools.at[i] == pool) return i;
    return 0;
}

uint16_t mp_torch_driver_of(const struct mp_model *model, uint16_t track)
{
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].device == model->tracks.at[track].device &&
            model->tracks.at[i].layer == MP_LAYER_DRIVER)
            return (uint16_t)i;
    return MP_TRACK_NONE;
}

void mp_torch_history_free(struct mp_torch_history *history)
{
    mp_vec_free(&history->steps);
    mp_vec_free(&history->base);
    mp_vec_free(&history->segments);
    mp_vec_free(&history->mapped);
    mp_vec_free(&history->pools);
    mp_vec_free(&history->emptied);
}
