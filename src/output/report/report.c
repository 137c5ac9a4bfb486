#include <stdlib.h>
#include <string.h>

#include "analysis/device/samples.h"
#include "analysis/sites/placement.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "output/form/plot.h"
#include "output/report/advise.h"
#include "output/report/categories.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/device_use.h"
#include "output/report/frag.h"
#include "output/report/holders.h"
#include "output/report/info.h"
#include "output/report/leaks.h"
#include "output/report/peak.h"
#include "output/report/plan.h"
#include "output/report/report.h"
#include "output/report/server.h"
#include "output/report/site_rows.h"
#include "output/report/sites.h"
#include "output/report/steps.h"
#include "output/report/view.h"

/* Fewer than this many ages of blocks are usual in any program. */
#define GROWING_BIRTHS 8
#define BEST_CHANGES   3
#define ROUNDING_SHOWN 100 /* rounding gets a line from 1/100 of the peak on */

static void put_advice_json(struct mp_json *json, const char *text, uint64_t saved, const char *evidence)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "text", text);
    mp_json_known(json, "saved_bytes", saved);
    mp_json_text(json, "evidence", evidence);
    mp_json_end_object(json);
}

/* True if the fragmentation report has advice that the changes do not give themselves. */
static bool has_frag_advice(const struct mp_story *story, struct mp_advice *advice)
{
    if (!story->frag || !mp_frag_advice(story->frag, advice)) return false;
    for (size_t i = 0; story->advise && i < story->advise->changes.count; i++)
        if (story->advise->changes.at[i].pattern == MP_CHANGE_SETTINGS) return advice->saved == MP_BYTES_UNKNOWN;
    return true;
}

static void advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story)
{
    struct mp_advice advice;
    mp_json_array(json, "advice");
    if (story->peak && mp_previous_matters(story->peak)) {
        struct mp_buffer sentence = {0};
        mp_previous_sentence(&sentence, model, story->peak);
        put_advice_json(json, mp_previous_advice(), story->peak->previous.bytes, mp_buffer_text(&sentence));
        mp_buffer_free(&sentence);
    }
    if (has_frag_advice(story, &advice)) put_advice_json(json, advice.text, advice.saved, advice.evidence);
    if (story->advise) mp_advise_best_json(json, model, story->advise, BEST_CHANGES);
    mp_json_end_array(json);
}

void mp_report_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.report/1");
    mp_info_json(json, "info", model, view);
    mp_server_json(json, model);
    if (story->peak)
        mp_peak_json(json, "peak", model, story->peak, view);
    else
        mp_json_null(json, "peak");
    mp_leaks_json(json, "leaks", model, story->leaks, view);
    if (story->steps)
        mp_steps_json(json, "steps", model, story->steps, NULL, view);
    else
        mp_json_null(json, "steps");
    if (story->frag)
        mp_frag_json(json, "frag", model, story->frag);
    else
        mp_json_null(json, "frag");
    advice_json(json, model, story);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

struct other {
    char *name;
    uint64_t bytes;
    char *counts; /* shown in place of bytes; NULL: bytes */
};

static void get_most(struct mp_value *value, const void *of, const void *row)
{
    const struct other *other = row;
    value->number = other->bytes;
    value->text = other->counts;
}

static const struct mp_column other_columns[] = {
    {"counter", NULL, MP_NAME, MP_MEMBER(struct other, name)},
    {"most", NULL, MP_BYTES, .get = get_most},
    {NULL},
};

static void put_header(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                       const struct mp_view *view)
{
    struct mp_buffer command = {0};
    mp_model_command(model, &command);
    mp_say(text, "`%s`   %s   %s%s%s", view->path, mp_buffer_text(&command), model->start.host,
           *model->start.host ? ", " : "", mp_time(model->duration_ns));
    mp_buffer_free(&command);
    if (story->leaks->step_count)
        mp_say(text, ", %s steps (%s)", mp_count(story->leaks->step_count), story->leaks->step_source);
    bool in_order = model->how.known && !model->how.by_signal && !model->how.status;
    if (!in_order && *mp_model_text(model, model->how.text))
        mp_say(text, ", %s", mp_model_text(model, model->how.text));
    if (!view->window.whole)
        mp_say(text, "   from %s to %s", mp_time(view->window.from_ns), mp_time(view->window.to_ns));
    if (view->filter) mp_say(text, "   only %s", view->filter);
    mp_say(text, "   %s\n",
           mp_model_incomplete(model) ? "INCOMPLETE"
           : mp_model_limited(model)  ? "partial"
                                      : "complete");
}

static void put_top_sites(struct mp_text *text, const struct mp_model *model, const struct mp_sites *sites,
                          const struct mp_view *view, bool births)
{
    size_t rows = mp_shown(sites->count, view->limit);
    for (size_t i = 0; births && i < rows; i++)
        if (sites->at[i].births < GROWING_BIRTHS) rows = i;
    const struct mp_site_view shown = {.limit = rows,
                                       .births = births,
                                       .whole = births ? 0 : sites->bytes,
                                       .lines = !text->document,
                                       .holders = births ? NULL : view->holders,
                                       .holders_of_all = true};
    if (!rows) return;
    mp_sites_text(text, model, sites, &shown);
    if (text->document) mp_say_more(text, births ? 0 : sites->count - rows, view->limit);
}

static void put_curve(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                      const struct mp_view *view)
{
    const struct mp_drawn_curve curve = {
        .model = model, .track = peak->track, .window = &view->window, .peak = peak->bytes};
    if (!text->document || text->document->form != MP_HTML) return;
    mp_document_lines(text->document, text->out);
    if (mp_curves_picture(text->document->out, &curve, 1))
        mp_say(text, "The curve shows every byte allocated on the track.\n");
}

static void put_peak(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                     const struct mp_view *view)
{
    char error[MP_PEAK_ERROR_TEXT], id[MP_TRACK_ID_MAX];
    mp_heading(text, "PEAK  %s%s%s", mp_coverage_hedge(model), mp_bytes(peak->bytes),
               mp_peak_error_text(error, model, peak));
    mp_say(text, " on %s, at %s", mp_track_id(model, peak->track, id), mp_time(peak->ns));
    if (peak->step) mp_say(text, ", %sstep %u", peak->behind_step ? "after " : "", peak->step);
    for (size_t i = 0; i < peak->regions.count; i++)
        mp_say(text, "%s%s", i ? " > " : ", in ", mp_model_text(model, peak->regions.at[i].name));
    if (peak->phase && !peak->regions.count) mp_say(text, ", in %s", peak->phase);
    mp_say(text, "; %s, %s\n", mp_counted(peak->blocks, "block"), mp_counted(peak->sites.count, "site"));
    put_curve(text, model, peak, view);
    if (peak->rounding.known_bytes > peak->rounding.requested_bytes + peak->rounding.known_bytes / ROUNDING_SHOWN) {
        mp_say(text, "  ");
        mp_rounding_text(text, &peak->rounding);
    }
    mp_previous_text(text, model, peak, "  ");
    mp_held_text(text, view->causes, peak->bytes, "  ");
    if (mp_categories_any(&peak->categories) && !mp_is_csv(text)) mp_categories_text(text, &peak->categories);
    put_top_sites(text, model, &peak->sites, view, false);
}

#define GRAPHS_MANY 8

/* The number of private pools with blocks, of CUDA graphs or torch.cuda.MemPool. */
static size_t count_pools(const struct mp_model *model)
{
    struct mp_placements placements = {0};
    struct mp_map pools = {0};
    mp_placements_find(model, &placements);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint64_t pool = mp_placed(placements.pool, block);
        if (pool && pool != MP_PLACE_UNKNOWN) mp_map_at(&pools, pool, NULL);
    }
    size_t count = pools.count;
    mp_map_free(&pools);
    mp_placements_free(&placements);
    return count;
}

/* One line that captures graph after graph, as torch.compile does for each shape. */
static void put_graphs(struct mp_text *text, const struct mp_model *model)
{
    struct mp_map counts = {0}; /* by place + 1: graphs */
    uint32_t best = 0;
    uint64_t most = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        const struct mp_track *track = &model->tracks.at[model->blocks.track[block]];
        if (track->layer != MP_LAYER_DRIVER || strcmp(mp_model_text(model, track->name), "graphs") != 0) continue;
        uint64_t *count = mp_map_at(&counts, (uint64_t)model->blocks.stack[block] + 1, NULL);
        if (++*count <= most) continue;
        most = *count;
        best = model->blocks.stack[block];
    }
    mp_map_free(&counts);
    if (most < GRAPHS_MANY || !best) return;
    mp_say(text, "  %s CUDA graphs were captured at one place, as one for each shape: fewer shapes need fewer graphs\n",
           mp_count(most));
    mp_say_site(text, model, best);
    size_t pools = count_pools(model);
    if (pools > 1)
        mp_say(
            text,
            "  their memory is in %zu private pools; torch.cuda.graph(..., pool=pool) captures into one, if they never "
            "run at the same time\n",
            pools);
}

/* Writes the peaks of other tracks and of the process's samples. */
static void put_others(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak)
{
    char id[MP_TRACK_ID_MAX];
    MP_VEC(struct other) others = {0};
    struct mp_sampled_list list = {0};
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        bool handles = !sum->peak_bytes && sum->allocs; /* a track of handles has counts, no bytes */
        if ((peak && i == peak->track) || !sum->events) continue;
        struct other other = {mp_text_copy(mp_track_id(model, (uint16_t)i, id)), sum->peak_bytes, NULL};
        if (handles)
            other.counts = mp_text_make("%llu made, %llu left", (unsigned long long)sum->allocs,
                                        (unsigned long long)sum->end_blocks);
        mp_vec_add(&others, other);
    }
    mp_samples_sum(model, &list);
    for (size_t i = 0; i < list.count; i++) {
        const char *counter = mp_model_text(model, list.at[i].counter);
        struct other other = {NULL, list.at[i].peak_bytes, NULL};
        if (!strncmp(counter, "cuda:", 5)) continue; /* the report's part about devices says more */
        other.name = mp_text_copy(counter);
        mp_vec_add(&others, other);
    }
    mp_samples_free(&list);
    struct mp_text all = *text; /* --columns is for sites, leaks and regions */
    all.columns = NULL;
    if (!mp_is_csv(text))
        mp_rows_text(&all, &MP_ROWS(other_columns, others.at, others.count, .untitled = true,
                                    .heading = "OTHER COUNTERS, highest value"));
    if (!mp_is_csv(text)) put_graphs(text, model);
    for (size_t i = 0; i < others.count; i++) {
        free(others.at[i].name);
        free(others.at[i].counts);
    }
    mp_vec_free(&others);
}

static void put_leaks(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view)
{
    struct mp_view brief = *view;
    brief.full_stacks = false;
    if (leaks->leaks) {
        mp_heading(text, "LEAKS  %u", leaks->leaks);
        mp_say(text, " site%s growing; see memprof leaks %s\n", leaks->leaks == 1 ? " keeps" : "s keep", view->path);
        mp_findings_text(text, model, leaks, &brief);
    } else {
        mp_heading(text, "LEAKS  ");
        mp_say(text, "%s%s%s\n", mp_verdict_name(leaks->verdict), *leaks->reason ? ": " : "", leaks->reason);
    }
    mp_reported_text(text, model, leaks, &brief);
    mp_heading(text, "OUTSTANDING  %s", mp_bytes(leaks->outstanding.bytes));
    mp_say(text, " at the end in %s, %s\n", mp_counted(leaks->outstanding.blocks, "block"),
           mp_counted(leaks->outstanding.count, "site"));
    put_top_sites(text, model, &leaks->outstanding, view, false);
    if (!mp_is_csv(text)) mp_pinned_cache_text(text, model);
    if (leaks->verdict != MP_VERDICT_UNKNOWN || !leaks->grows || !leaks->held.lasting ||
        leaks->held.sites.at[0].births < GROWING_BIRTHS)
        return;
    struct mp_sites lasting = leaks->held.sites;
    lasting.count = leaks->held.lasting;
    mp_heading(text, "GROWING?");
    mp_say(text, "  live at %s and born in many distinct steps; see memprof leaks %s\n", mp_time(leaks->held.ns),
           view->path);
    put_top_sites(text, model, &lasting, view, true);
}

MP_ORDER(ascending, int64_t, MP_COMPARE(*a, *b))

/* The median of the bytes that steps leave behind. A warm-up step, or the tear-down in the last step, would distort a
 * mean. */
static bool median_kept(const struct mp_step_report *report, int64_t *kept)
{
    size_t count = report->steps.count;
    if (count < 2) return false;
    int64_t *differences = mp_alloc(count * sizeof *differences);
    for (size_t i = 1; i < count; i++)
        differences[i - 1] = (int64_t)(report->steps.at[i].end_bytes - report->steps.at[i - 1].end_bytes);
    qsort(differences, count - 1, sizeof *differences, ascending);
    *kept = differences[(count - 1) / 2];
    free(differences);
    return true;
}

/* Mean growth per step in the later half, if it differs from the median: a program may keep something in every second
 * step, or every tenth. */
static bool mean_kept(const struct mp_step_report *report, int64_t median, int64_t *kept)
{
    size_t count = report->steps.count, first = count / 2, last = count - 2; /* the last step has the tear-down */
    if (count < 4 || last <= first) return false;
    int64_t grown = (int64_t)(report->steps.at[last].end_bytes - report->steps.at[first].end_bytes);
    *kept = grown / (int64_t)(last - first);
    return (*kept > median ? *kept - median : median - *kept) * 10 > (*kept > 0 ? *kept : -*kept);
}

static void put_steps(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report)
{
    size_t count = report->steps.count;
    if (count) {
        uint64_t highest = 0;
        unsigned __int128 sum = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t peak = report->steps.at[i].peak_bytes;
            if (peak > highest) highest = peak;
            sum += peak;
        }
        int64_t kept, mean;
        bool known = median_kept(report, &kept);
        mp_heading(text, "STEPS  peak %s max", mp_bytes(highest));
        mp_say(text, ", %s mean", mp_bytes((uint64_t)(sum / count)));
        if (known) mp_say(text, "; kept after a step %s (median)", mp_delta(kept));
        if (known && mean_kept(report, kept, &mean)) mp_say(text, ", %s in the later half's mean", mp_delta(mean));
        mp_say(text, "\n");
    }
    mp_regions_text(text, model, report, "REGIONS", "region,count,peak-max,allocated-each,kept-each");
}

static void put_frag(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                     const struct mp_view *view)
{
    const struct mp_model_track_sum *sum = &model->sums.at[frag->track];
    bool of_peak = frag->moment == MP_FRAG_END && sum->reserved_peak_bytes != MP_BYTES_UNKNOWN && sum->peak_bytes &&
                   sum->reserved_peak_bytes >= sum->peak_bytes && sum->peak_bytes >= frag->allocated;
    if (frag->known) {
        mp_heading(text, "FRAG  ");
        if (of_peak)
            mp_say(text, "`%s` reserved at most, %.1f %% of it allocated at the peak; ",
                   mp_bytes(sum->reserved_peak_bytes),
                   100.0 * (double)sum->peak_bytes / (double)sum->reserved_peak_bytes);
        mp_say(text, of_peak ? "%s" : "`%s`", mp_bytes(frag->reserved));
        mp_say(text, " reserved %s, %.1f %% in use; %s free, the largest hole %s\n", mp_frag_when(frag),
               frag->reserved ? 100.0 * (double)frag->allocated / (double)frag->reserved : 0.0,
               mp_bytes(frag->free_bytes), mp_bytes(frag->largest_free));
    }
    if (frag->oom.event == MP_NONE) return;
    const char *cause = mp_oom_cause_name(frag->oom.cause);
    mp_heading(text, "OUT OF MEMORY");
    mp_say(text, " at %s: asked for %s, cause: %s; see memprof frag %s\n", mp_time(frag->oom.ns),
           mp_bytes(frag->oom.requested), cause ? cause : "not known", view->path);
    mp_oom_times_text(text, &frag->oom);
    if (frag->oom.stack) mp_say_site(text, model, frag->oom.stack);
}

static void put_advice(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                       const struct mp_view *view)
{
    struct mp_advice advice;
    bool settings = has_frag_advice(story, &advice);
    bool changes = story->advise && story->advise->changes.count;
    if (!settings && !changes) return;
    mp_heading(text, "ADVICE");
    if (changes) mp_say(text, "  see memprof advise %s", view->path);
    mp_say(text, "\n");
    if (settings) mp_say(text, "  1. %s", advice.text);
    if (settings && advice.saved != MP_BYTES_UNKNOWN) mp_say(text, "      saves %s", mp_bytes(advice.saved));
    if (settings) mp_say(text, "\n");
    if (changes) mp_advise_best_text(text, model, story->advise, BEST_CHANGES, settings + 1);
}

void mp_report_text(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view)
{
    put_header(text, model, story, view);
    bool planned = !mp_is_csv(text) && mp_plan_head_text(text, model);
    bool ledger = !mp_is_csv(text) && mp_server_text(text, model);
    if (story->peak)
        put_peak(text, model, story->peak, view);
    else
        mp_say(text, "\nNo allocation was recorded.\n");
    mp_device_uses_text(text, model);
    put_others(text, model, story->peak);
    /* A server that ended when it was ready served nobody who could leak: its ledger says what is there. */
    bool served = !ledger || !planned || story->leaks->verdict != MP_VERDICT_UNKNOWN;
    if (story->peak && served) put_leaks(text, model, story->leaks, view);
    if (story->steps && served) put_steps(text, model, story->steps);
    if (story->frag) put_frag(text, model, story->frag, view);
    put_advice(text, model, story, view);
    mp_coverage_end(text, model);
}
