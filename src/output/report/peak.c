#include <math.h>
#include <stdio.h>

#include "analysis/device/unbacked.h"
#include "base/units.h"
#include "output/report/categories.h"
#include "output/report/coverage.h"
#include "output/report/holders.h"
#include "output/report/peak.h"
#include "output/report/site_rows.h"
#include "output/report/view.h"

static struct mp_site_view site_view(const struct mp_peak *peak, const struct mp_view *view)
{
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .by = view->grouping.by,
                                 .whole = peak->bytes,
                                 .holders = view->holders,
                                 .holders_of_all = true};
}

/* Bytes of the peak that no memory backs; MP_BYTES_UNKNOWN if the recording cannot tell. */
static uint64_t unbacked_of(const struct mp_model *model, const struct mp_peak *peak)
{
    const struct mp_track *track = &model->tracks.at[peak->track];
    struct mp_unbacked unbacked;
    if (track->layer != MP_LAYER_TORCH || !mp_unbacked_find(model, track->device, peak->moment, &unbacked))
        return MP_BYTES_UNKNOWN;
    return unbacked.bytes;
}

const char *mp_peak_error_text(char *to, const struct mp_model *model, const struct mp_peak *peak)
{
    *to = '\0';
    if (mp_model_sample_of(model, peak->track) && isfinite(peak->standard_error))
        snprintf(to, MP_PEAK_ERROR_TEXT, " ± %s", mp_bytes(mp_error_bytes(peak->standard_error)));
    return to;
}

uint64_t mp_rounding_requested(const struct mp_rounding *rounding)
{
    return mp_rounding_is_whole(rounding) ? rounding->requested_bytes : UINT64_MAX;
}

static void rounding_json(struct mp_json *json, const struct mp_rounding *rounding)
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

void mp_peak_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    struct mp_site_view sites = site_view(peak, view);
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.peak/1");
    mp_json_text(json, "track", mp_track_id(model, peak->track, id));
    mp_json_number(json, "peak_bytes", peak->bytes);
    if (mp_model_sample_of(model, peak->track))
        mp_json_known(json, "standard_error_bytes", mp_error_bytes(peak->standard_error));
    rounding_json(json, &peak->rounding);
    mp_json_known(json, "unbacked_bytes", unbacked_of(model, peak));
    mp_json_number(json, "peak_ns", peak->ns);
    mp_json_known(json, "step", peak->step && !peak->behind_step ? peak->step : UINT64_MAX);
    MP_JSON_LIST(json, "regions", i, peak->regions.count,
                 mp_json_text(json, NULL, mp_model_text(model, peak->regions.at[i].name)));
    mp_json_text(json, "phase", peak->phase);
    mp_json_number(json, "blocks", peak->blocks);
    mp_json_number(json, "site_count", peak->sites.count);
    mp_json_number(json, "picked_bytes", peak->sites.bytes);
    if (model->uses.count) mp_json_number(json, "never_read_again_bytes", peak->sites.never_bytes);
    mp_categories_json(json, &peak->categories);
    mp_previous_json(json, model, peak);
    mp_held_json(json, model, view->causes);
    mp_sites_json(json, "sites", model, &peak->sites, &sites);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static void put_moment(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak)
{
    mp_say(text, " at %s", mp_time(peak->ns));
    bool shows_phase = peak->phase && !peak->regions.count;
    if (!peak->step && !peak->regions.count && !shows_phase) return;
    mp_say(text, " (");
    if (peak->step)
        mp_say(text, "%sstep %u%s", peak->behind_step ? "after " : "", peak->step,
               peak->regions.count || shows_phase ? ", " : "");
    if (shows_phase) mp_say(text, "in %s", peak->phase);
    for (size_t i = 0; i < peak->regions.count; i++)
        mp_say(text, "%s%s", i ? " > " : "region ", mp_model_text(model, peak->regions.at[i].name));
    mp_say(text, ")");
}

/* States what the table left out, and how to see it. */
static void put_rest(struct mp_text *text, const struct mp_peak *peak, const struct mp_view *view)
{
    if (!view->limit || view->limit >= peak->sites.count) return;
    uint64_t rest = peak->sites.bytes;
    for (size_t i = 0; i < view->limit; i++)
        rest -= peak->sites.at[i].bytes;
    size_t lines = peak->sites.count - view->limit;
    const char *groups = peak->sites.modules.count              ? "category|module|file"
                         : mp_categories_any(&peak->categories) ? "category|function|file"
                                                                : "function|file|library";
    mp_say(text, "\n^%s %s %.0f %%; -n %zu shows more, --group %s groups them^\n", mp_counted(lines, "more line"),
           lines == 1 ? "holds" : "hold", peak->bytes ? 100.0 * (double)rest / (double)peak->bytes : 0.0,
           view->limit * 2, groups);
}

void mp_peak_text(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                  const struct mp_view *view)
{
    char error[MP_PEAK_ERROR_TEXT], id[MP_TRACK_ID_MAX];
    struct mp_site_view sites = site_view(peak, view);
    uint64_t unbacked = unbacked_of(model, peak);
    mp_say(text, "`%s%s`%s allocated on %s", mp_coverage_hedge(model), mp_bytes(peak->bytes),
           mp_peak_error_text(error, model, peak), mp_track_id(model, peak->track, id));
    put_moment(text, model, peak);
    mp_say(text, ", %s, %s\n", mp_counted(peak->blocks, "block"),
           mp_counted(peak->sites.count, sites.by == MP_GROUP_STACK ? "site" : "group"));
    mp_rounding_text(text, &peak->rounding);
    if (unbacked && unbacked != MP_BYTES_UNKNOWN)
        mp_say(text, "%s of it had no memory: unmapped or freed beneath PyTorch's allocator\n", mp_bytes(unbacked));
    if (peak->sites.never_bytes)
        mp_say(text, "%s of %s at the peak are never read again\n", mp_bytes(peak->sites.never_bytes),
               mp_bytes(peak->bytes));
    mp_previous_text(text, model, peak, "");
    mp_held_text(text, view->causes, peak->bytes, "");
    if (view->filter)
        mp_say(text, "of which %s in %s matching %s\n", mp_bytes(peak->sites.bytes),
               mp_counted(peak->sites.blocks, "block"), view->filter);
    if (mp_sites_text(text, model, &peak->sites, &sites)) put_rest(text, peak, view);
    mp_coverage_end(text, model);
}

/* ---- bytes that PyTorch adds to requests ------------------------------------------------------------------------ */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0.0;
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
