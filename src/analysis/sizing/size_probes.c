#include "analysis/sizing/size_probes.h"

#include <stdlib.h>

#include "analysis/device/device_use.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/steps_infer.h"
#include "model/track.h"

/* ---- checks of the probes ---------------------------------------------------------------------------------------- */

/* A refusal of the driver counts if the allocator reports it, too. */
static bool is_below_allocator(const struct mp_model *model, size_t track)
{
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].layer == MP_LAYER_TORCH && mp_track_below(model, (uint16_t)i) == track) return true;
    return false;
}

static enum mp_status check_run(const struct mp_size_probe *probe, struct mp_error *error)
{
    const struct mp_model *model = probe->model;
    if (mp_model_incomplete(model))
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s is cut or damaged, or lost events: its peak may be missing; record it again", probe->name);
    if (model->how.known && (model->how.by_signal || model->how.status))
        return mp_fail(error, MP_UNSUPPORTED, "the run of %s failed (%s): it does not show the need of a whole run",
                       probe->name, mp_model_text(model, model->how.text));
    for (size_t i = 0; i < model->sums.count; i++)
        if (model->sums.at[i].ooms && !is_below_allocator(model, i))
            return mp_fail(error, MP_UNSUPPORTED, "the run of %s ran out of memory; probe smaller values", probe->name);
    return MP_OK;
}

static enum mp_status check_batches(const struct mp_size_probe *const *probes, size_t count, struct mp_error *error)
{
    if (count < 2)
        return mp_fail(error, MP_INVALID,
                       "one recording does not show how memory grows; give three of different batches");
    if (count > MP_SIZE_PROBES_MAX)
        return mp_fail(error, MP_INVALID, "there are %zu recordings; give at most %d", count, MP_SIZE_PROBES_MAX);
    if (probes[0]->batch == probes[count - 1]->batch)
        return mp_fail(error, MP_INVALID, "all recordings are of batch %llu; give some of other batches",
                       (unsigned long long)probes[0]->batch);
    return MP_OK;
}

static enum mp_status find_track(const struct mp_size_probe *probe, const char *name, uint16_t *track,
                                 struct mp_error *error)
{
    *track = name ? mp_track_find(probe->model, name) : mp_track_default(probe->model);
    if (*track != MP_TRACK_NONE) return MP_OK;
    if (!name) return mp_fail(error, MP_UNSUPPORTED, "%s holds no allocation", probe->name);
    return mp_fail(error, MP_UNSUPPORTED, "%s has no track %s", probe->name, name);
}

MP_ORDER_OF_POINTERS(rising, struct mp_size_probe, MP_RISING(batch) ?: MP_COMPARE(a, b))

enum mp_status mp_size_probes_order(const struct mp_size_question *question, const struct mp_size_probe **probes,
                                    struct mp_size_source *sources, struct mp_error *error)
{
    char id[MP_TRACK_ID_MAX];
    const char *name = question->track;
    for (size_t i = 0; i < question->count && i < MP_SIZE_PROBES_MAX; i++)
        probes[i] = &question->probes[i];
    if (question->count <= MP_SIZE_PROBES_MAX) qsort(probes, question->count, sizeof *probes, rising);
    enum mp_status status = check_batches(probes, question->count, error);
    for (size_t i = question->count; i-- && !status;) {
        sources[i].model = probes[i]->model;
        status = check_run(probes[i], error);
        if (!status) status = find_track(probes[i], name, &sources[i].track, error);
        if (!status && !name) name = mp_track_id(probes[i]->model, sources[i].track, id);
    }
    return status;
}

/* ---- totals of the probes --------------------------------------------------------------------------------------- */

MP_ORDER(by_time, uint64_t, MP_COMPARE(*a, *b))

static void describe_steps(const struct mp_model *model, struct mp_size_probed *probed)
{
    struct mp_steps steps = {0};
    mp_steps_find(model, &steps);
    uint64_t *times = mp_alloc_zeroed(steps.count + 1, sizeof *times);
    for (size_t i = 0; i < steps.count; i++)
        times[i] = steps.at[i].end_ns - steps.at[i].start_ns;
    if (steps.count) {
        qsort(times, steps.count, sizeof *times, by_time);
        probed->step_ns = times[steps.count / 2];
    }
    probed->steps = (uint32_t)steps.count;
    probed->step_source = mp_steps_source(&steps);
    free(times);
    mp_steps_free(&steps);
}

/* Bytes of the device that this process uses, if known. */
static void find_device(const struct mp_model *model, uint16_t track, uint64_t reserved, uint64_t *device)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    mp_vec_each (const struct mp_device_use, use, &uses) {
        if (use->device != model->tracks.at[track].device || use->in_use_bytes == MP_BYTES_UNKNOWN) continue;
        uint64_t held = 0;
        for (size_t part = 0; part < use->parts.count; part++)
            if (use->parts.at[part].kind == MP_PART_TENSORS || use->parts.at[part].kind == MP_PART_CACHED)
                held += use->parts.at[part].bytes;
        uint64_t others = use->others_bytes == MP_BYTES_UNKNOWN ? 0 : use->others_bytes;
        if (reserved != MP_BYTES_UNKNOWN && use->in_use_bytes >= held + others)
            *device = reserved + (use->in_use_bytes - held - others);
    }
    mp_device_uses_free(&uses);
}

struct mp_size_probed mp_size_probe_describe(const struct mp_size_probe *probe, uint16_t track)
{
    const struct mp_model_track_sum *sum = &probe->model->sums.at[track];
    struct mp_size_probed probed = {.name = probe->name,
                                    .batch = probe->batch,
                                    .allocated = sum->peak_bytes,
                                    .reserved = sum->reserved_peak_bytes,
                                    .device = MP_BYTES_UNKNOWN,
                                    .step_ns = MP_BYTES_UNKNOWN};
    for (size_t i = 0; i < probe->model->blocks.count; i++)
        probed.blocks += probe->model->blocks.track[i] == track;
    find_device(probe->model, track, probed.reserved, &probed.device);
    describe_steps(probe->model, &probed);
    return probed;
}
