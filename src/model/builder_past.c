#include "model/builder_state.h"

void mp_builder_add_past(struct mp_builder *b, const struct mp_chunk *chunk)
{
    if (!b->model->events.count) b->model->past = *chunk->past;
}

void mp_builder_add_past_peaks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count && !b->model->events.count; i++) {
        const struct mp_past_peak *peak = &chunk->past_peaks[i];
        struct mp_model_track_sum *sum = &b->model->sums.at[peak->track];
        sum->past = *peak;
        sum->reserved_peak_bytes = peak->reserved_bytes;
    }
}

void mp_builder_add_past_sites(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count && !b->model->events.count; i++) {
        struct mp_past_site site = chunk->past_sites[i];
        site.module = mp_builder_string(b, site.module);
        mp_vec_add(&b->model->past_sites, site);
    }
}

void mp_builder_was_in_past(struct mp_builder *b, uint16_t track, uint8_t kind, uint64_t bytes)
{
    struct mp_past_peak *past = &b->model->sums.at[track].past;
    struct mp_past_site site = {.bytes = bytes, .blocks = 1, .track = track, .kind = kind};
    if (!b->model->past.events) return;
    past->bytes += bytes;
    past->blocks++;
    mp_vec_add(&b->model->past_sites, site);
}

void mp_builder_end_past(struct mp_builder *b)
{
    for (size_t i = 0; i < b->model->sums.count && b->model->past.events; i++) {
        struct mp_model_track_sum *sum = &b->model->sums.at[i];
        if (sum->past.bytes < sum->peak_bytes || !sum->past.bytes) continue;
        sum->peak_bytes = sum->past.bytes;
        sum->peak_blocks = sum->past.blocks;
        sum->peak_ns = sum->past.time_ns;
        sum->peak_event = MP_NONE;
        sum->peak_in_past = true;
    }
}
