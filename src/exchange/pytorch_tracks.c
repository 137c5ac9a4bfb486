#include "exchange/pytorch_tracks.h"

uint16_t mp_pytorch_main_track(const struct mp_model *model, uint32_t device)
{
    uint16_t best = MP_TRACK_NONE;
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        if (model->tracks.at[i].device != device || (!sum->events && !sum->peak_bytes)) continue;
        bool higher = best != MP_TRACK_NONE && model->tracks.at[i].layer == model->tracks.at[best].layer
                          ? sum->peak_bytes > model->sums.at[best].peak_bytes
                          : best == MP_TRACK_NONE || model->tracks.at[i].layer > model->tracks.at[best].layer;
        if (higher) best = (uint16_t)i;
    }
    return best;
}

uint16_t mp_pytorch_track_below(const struct mp_model *model, uint16_t track)
{
    if (model->tracks.at[track].layer == MP_LAYER_DRIVER) return MP_TRACK_NONE;
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].device == model->tracks.at[track].device &&
            model->tracks.at[i].layer == MP_LAYER_DRIVER)
            return (uint16_t)i;
    return MP_TRACK_NONE;
}
