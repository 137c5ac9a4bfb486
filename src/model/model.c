#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/setting.h"

void mp_model_free(struct mp_model *model)
{
    if (!model) return;
    for (size_t i = 0; i < model->owned.count; i++)
        free(model->owned.at[i]);
    mp_vec_free(&model->owned);
    mp_intern_free(&model->strings);
    mp_vec_free(&model->devices);
    mp_vec_free(&model->tracks);
    mp_vec_free(&model->threads);
    mp_vec_free(&model->modules);
    mp_vec_free(&model->frames);
    mp_vec_free(&model->lines);
    mp_vec_free(&model->stacks);
    mp_vec_free(&model->notes);
    mp_vec_free(&model->noted);
    mp_vec_free(&model->resizes);
    mp_vec_free(&model->labels);
    mp_vec_free(&model->skipped);
    mp_vec_free(&model->holders);
    mp_vec_free(&model->looks);
    mp_vec_free(&model->metadata);
    mp_vec_free(&model->uses);
    mp_vec_free(&model->requests);
    mp_vec_free(&model->samples);
    mp_vec_free(&model->segments);
    mp_vec_free(&model->parts);
    mp_vec_free(&model->calls);
    mp_vec_free(&model->asides);
    mp_vec_free(&model->sums);
    mp_vec_free(&model->past_sites);
    mp_vec_free(&model->job.processes);
    mp_vec_free(&model->job.tracks);
    mp_vec_free(&model->job.sites);
    mp_vec_free(&model->job.holdings);
    mp_vec_free(&model->job.findings);
    mp_vec_free(&model->job.points);
    mp_vec_free(&model->job.troubles);
    free(model->events.time_ns);
    free(model->events.subject);
    free(model->events.thread);
    free(model->events.track);
    free(model->events.type);
#define FREE(field, type) free(model->blocks.field);
    MP_BLOCK_FIELDS(FREE)
#undef FREE
    free(model->blocks.alloc_event);
    free(model->blocks.free_event);
    free(model->blocks.module);
    free(model->blocks.freed_at);
    free(model->coverage.sources);
    free(model->coverage.notes);
    free(model->coverage.limits);
    mp_vec_each (struct mp_derived, derived, &model->derived)
        derived->free(derived->found);
    mp_vec_free(&model->derived);
    free(model);
}

uint64_t mp_model_bytes_at(const struct mp_model *model, uint32_t block, uint32_t event)
{
    /* Finds the block's last resize that is not after the event. */
    size_t before = MP_COUNT_BEFORE(model->resizes.count, i,
                                    model->resizes.at[i].block < block ||
                                        (model->resizes.at[i].block == block && model->resizes.at[i].event <= event));
    if (before && model->resizes.at[before - 1].block == block) return model->resizes.at[before - 1].bytes;
    return model->blocks.bytes[block];
}

const struct mp_request *mp_model_request_of(const struct mp_model *model, uint32_t block)
{
    size_t before = MP_COUNT_BEFORE(model->requests.count, i, model->requests.at[i].block < block);
    return before < model->requests.count && model->requests.at[before].block == block
               ? &model->requests.at[before].request
               : NULL;
}

const struct mp_model_metadata *mp_model_metadata_of(const struct mp_model *model, uint32_t block, size_t *count)
{
    size_t first = MP_COUNT_BEFORE(model->metadata.count, i, model->metadata.at[i].block < block);
    *count = 0;
    while (first + *count < model->metadata.count && model->metadata.at[first + *count].block == block)
        ++*count;
    return *count ? &model->metadata.at[first] : NULL;
}

const struct mp_model_use *mp_model_uses_of(const struct mp_model *model, uint32_t block, size_t *count)
{
    size_t first = MP_COUNT_BEFORE(model->uses.count, i, model->uses.at[i].block < block);
    *count = 0;
    while (first + *count < model->uses.count && model->uses.at[first + *count].block == block)
        ++*count;
    return *count ? &model->uses.at[first] : NULL;
}

/* The number of labels of earlier blocks, plus those of this block that count before event `end`. */
static size_t labels_before(const struct mp_model *model, uint32_t block, uint64_t end)
{
    /* A label from the recording's start has event MP_NONE; MP_NONE + 1 is 0, so it counts before every `end`. */
    return MP_COUNT_BEFORE(model->labels.count, i,
                           model->labels.at[i].block < block ||
                               (model->labels.at[i].block == block && model->labels.at[i].event + 1 < end));
}

uint32_t mp_model_events_before(const struct mp_model *model, uint64_t ns, bool also_at)
{
    return (uint32_t)MP_COUNT_BEFORE(model->events.count, i,
                                     model->events.time_ns[i] < ns || (also_at && model->events.time_ns[i] == ns));
}

const struct mp_model_label *mp_model_label_at(const struct mp_model *model, uint32_t block, uint32_t event)
{
    size_t end = labels_before(model, block, event == MP_NONE ? UINT64_MAX : (uint64_t)event + 2);
    return end && model->labels.at[end - 1].block == block ? &model->labels.at[end - 1] : NULL;
}

const struct mp_model_label *mp_model_label_first(const struct mp_model *model, uint32_t block)
{
    size_t first = labels_before(model, block, 0);
    return first < model->labels.count && model->labels.at[first].block == block ? &model->labels.at[first] : NULL;
}

void mp_model_command(const struct mp_model *model, struct mp_buffer *out)
{
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_buffer_printf(out, "%s%s", word == model->start.command ? "" : " ", *word);
}

bool mp_model_limited(const struct mp_model *model)
{
    return model->coverage.limit_count || model->past.events || model->sample_bytes;
}

bool mp_model_incomplete(const struct mp_model *model)
{
    return mp_damage_any(&model->file.damage) || model->coverage.dropped;
}

bool mp_model_has_source(const struct mp_model *model, const char *source)
{
    for (uint32_t i = 0; i < model->coverage.source_count; i++)
        if (!strcmp(mp_model_text(model, model->coverage.sources[i]), source)) return true;
    return false;
}

bool mp_model_was_recorded(const struct mp_model *model)
{
    return model->file.format && !strcmp(model->file.format, "mp") && model->start.pid;
}

bool mp_start_is_job(const struct mp_recording_start *start)
{
    char value[4];
    mp_setting(value, sizeof value, start->configuration, MP_JOB_KEY);
    return *value;
}
