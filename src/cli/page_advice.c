#include "cli/page_advice.h"

#include "model/model.h"
#include "model/track.h"

#define CHANGES         12      /* that are drawn, the best */
#define EVENTS          4000000 /* of a recording with more, the page is not to wait for so many replays */
#define SETTINGS_EVENTS 100000  /* the same for a search of the allocator's settings, which takes dozens */

bool mp_page_advice(const struct mp_model *model, uint16_t track, struct mp_advise *advise)
{
    struct mp_error error;
    if (track == MP_TRACK_NONE) track = mp_track_default(model);
    if (track == MP_TRACK_NONE || mp_model_sample_of(model, track) || model->events.count > EVENTS) return false;
    bool search = model->events.count <= SETTINGS_EVENTS;
    const struct mp_advise_query ask = {
        .track = track, .kinds = search ? ~0u : ~(1u << MP_CHANGE_ALLOCATOR), .curves = CHANGES};
    return !mp_advise_find(model, &ask, advise, &error);
}
