#include "analysis/sites/placement.h"
#include "output/report/view.h"
#include "output/report/rounding.h"

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

uint64_t mp_rounding_requested(const struct mp_rounding *rounding)
{
    return mp_rounding_is_whole(rounding) ? rounding->requested_bytes : UINT64_MAX;
}

void mp_rounding_json(struct mp_json *json, const struct mp_rounding *rounding)
{
    mp_json_known(json, "requested_peak_bytes", mp_rounding_requested(rounding));
    if (!rounding->known_bytes) {
        mp_json_null(json, "rounding");
        return;
    }
    mp_json_object(json, "rounding");
    mp_json_number(json, "known_bytes", rounding->known_bytes);
    mp_json_number(json, "by_site_bytes", rounding->usual_bytes);
    mp_json_number(json, "requested_bytes", rounding->requested_bytes);
    mp_json_end_object(json);
}

void mp_rounding_text(struct mp_text *text, const struct mp_rounding *rounding)
{
    uint64_t known = rounding->known_bytes, asked_for = rounding->requested_bytes;
    uint64_t more = known > asked_for ? known - asked_for : 0;
    if (!known) return;
    if (!mp_rounding_is_whole(rounding))
        mp_say(text, "of the %.0f %% of it that PyTorch's history covers, ", percent(known, rounding->bytes));
    mp_say(text, "%s was requested; PyTorch's allocator rounded that up by %s (%.1f %%)\n", mp_bytes(asked_for),
           mp_bytes(more), percent(more, known));
}
