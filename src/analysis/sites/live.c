#include "analysis/sites/live.h"

#include <stdlib.h>

void mp_live_blocks_at(const struct mp_model *model, uint16_t track, uint32_t moment, const struct mp_filter *filter,
                       struct mp_live_blocks *live)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    unsigned char *meant = mp_tracks_meant(model, track);
    live->count = 0;
    live->moment = moment;
    for (uint32_t block = 0; block < blocks->count; block++) {
        bool born = blocks->alloc_event[block] == MP_NONE || blocks->alloc_event[block] < moment;
        if (!born || blocks->free_event[block] < moment) continue;
        if (!meant[blocks->track[block]]) continue;
        if (!mp_filter_picks(filter, block)) continue;
        bool resized = model->resizes.count && moment;
        struct mp_live_block found = {resized ? mp_model_bytes_at(model, block, moment - 1) : blocks->bytes[block],
                                      block};
        mp_vec_add(live, found);
    }
    free(meant);
}

void mp_live_blocks_free(struct mp_live_blocks *live)
{
    mp_vec_free(live);
}
