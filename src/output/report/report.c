#include <stdlib.h>
#include <string.h>

#include "analysis/device/samples.h"
#include "base/memory.h"
#include "base/units.h"
#include "output/report/advise.h"
#include "output/report/categories.h"
#include "output/report/reports.h"

/* Any program holds blocks of so few ages. */
#define GROWING_BIRTHS 8
#define BEST_CHANGES   3
#define ROUNDING_SHOWN 100 /* shown from one part in so many on */

static void previous_json(struct mp_json *json, const struct mp_model *model, const struct mp_peak *peak)
{
    struct mp_buffer sentence = {0};
    mp_previous_sentence(&sentence, model, peak);
    mp_buffer_append(&sentence, "", 1);
    mp_json_object(json, NULL);
    mp_json_text(json, "text", mp_previous_advice());
    mp_json_number(json, "saved_bytes", peak->previous.bytes);
    mp_json_text(json, "evidence", (const char *)sentence.data);
    mp_json_end_object(json);
    mp_buffer_free(&sentence);
}

static void advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story)
{
    struct mp_advice advice;
    mp_json_array(json, "advice");
    if (story->peak && mp_previous_matters(story->peak)) previous_json(json, model, story->peak);
    if (story->frag && mp_frag_advice(story->frag, &advice)) {
        mp_json_object(json, NULL);
        mp_json_text(json, "text", advice.text);
        mp_json_known(json, "saved_bytes", advice.saved);
        mp_json_text(json, "evidence", advice.evidence);
        mp_json_end_object(json);
    }
    if (story->advise) mp_advise_best_json(json, model, story->advise, BEST_CHANGES);
    mp_json_end_array(json);
}

void mp_report_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.report/1");
    mp_info_json(json, "info", model, view);
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

static void put_header(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                       const struct mp_view *view)
{
    char number[MP_UNIT_TEXT], until[MP_UNIT_TEXT];
    struct mp_buffer name = {0};
    mp_text_clean(&name, view->path);
    mp_text_put(text, MP_BOLD, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
    mp_text_put(text, MP_PLAIN, "   ");
    for (const char *const *word = model->start.command; word && *word; word++) {
        if (word != model->start.command) mp_text_put(text, MP_PLAIN, " ");
        mp_text_clean(text->out, *word);
    }
    mp_text_put(text, MP_PLAIN, "   ");
    mp_text_clean(text->out, model->start.host);
    mp_text_put(text, MP_PLAIN, "%s%s", *model->start.host ? ", " : "", mp_format_duration(number, model->duration_ns));
    if (story->leaks->step_count)
        mp_text_put(text, MP_PLAIN, ", %s steps (%s)", mp_format_count(number, story->leaks->step_count),
                    story->leaks->step_source);
    bool in_order = model->how.known && !model->how.by_signal && !model->how.status;
    if (!in_order && *mp_model_text(model, model->how.text)) {
        mp_text_put(text, MP_PLAIN, ", ");
        mp_text_clean(text->out, mp_model_text(model, model->how.text));
    }
    if (!view->window.whole)
        mp_text_put(text, MP_PLAIN, "   from %s to %s", mp_format_duration(number, view->window.from_ns),
                    mp_format_duration(until, view->window.to_ns));
    if (view->filter) {
        mp_text_put(text, MP_PLAIN, "   only ");
        mp_text_clean(text->out, view->filter);
    }
    mp_text_put(text, MP_PLAIN, "   %s\n",
                mp_model_incomplete(model) ? "INCOMPLETE"
                : mp_model_limited(model)  ? "partial"
                                           : "complete");
}

static void put_top_sites(struct mp_text *text, const struct mp_model *model, const struct mp_sites *sites,
                          uint64_t whole, const struct mp_view *view, bool births)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t rows = view->limit && view->limit < sites->count ? view->limit : sites->count;
    struct mp_site_apart *apart = mp_site_apart(model, sites, rows, MP_APART_SITES);
    mp_table_start(&table, "rrrrll");
    for (size_t i = 0; i < rows; i++) {
        const struct mp_site *site = &sites->at[i];
        if (births && site->births < GROWING_BIRTHS) break;
        mp_table_cell(&table, MP_DIM, "%zu.", i + 1);
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, site->bytes));
        mp_table_cell(&table, MP_PLAIN, "%s block%s", mp_format_count(number, site->blocks),
                      site->blocks == 1 ? "" : "s");
        if (births)
            mp_table_cell(&table, MP_PLAIN, "born in %s", mp_format_count(number, site->births));
        else
            mp_table_cell(&table, MP_PLAIN, "%.0f %%", whole ? 100.0 * (double)site->bytes / (double)whole : 0.0);
        mp_site_cell(&table, model, sites, site, &apart[i]);
        mp_table_end_row(&table);
    }
    free(apart);
    mp_table_finish(&table, text);
}

static void put_peak(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                     const struct mp_view *view)
{
    char number[MP_UNIT_TEXT], error[MP_PEAK_ERROR_TEXT], id[MP_TRACK_ID_MAX];
    mp_text_put(text, MP_BOLD, "\nPEAK  %s%s", mp_coverage_hedge(model), mp_format_bytes(number, peak->bytes));
    mp_text_put(text, MP_PLAIN, "%s", mp_peak_error_text(error, model, peak));
    mp_text_put(text, MP_PLAIN, " on ");
    mp_text_clean(text->out, mp_track_id(model, peak->track, id));
    mp_text_put(text, MP_PLAIN, ", at %s", mp_format_duration(number, peak->ns));
    if (peak->step) mp_text_put(text, MP_PLAIN, ", step %u", peak->step);
    for (size_t i = 0; i < peak->regions.count; i++) {
        mp_text_put(text, MP_PLAIN, "%s", i ? " > " : ", in ");
        mp_text_clean(text->out, mp_model_text(model, peak->regions.at[i].name));
    }
    if (peak->phase && !peak->regions.count) mp_text_put(text, MP_PLAIN, ", in %s", peak->phase);
    mp_text_put(text, MP_PLAIN, "; ");
    mp_text_count(text, peak->blocks, "block");
    mp_text_put(text, MP_PLAIN, ", ");
    mp_text_count(text, peak->sites.count, "site");
    mp_text_put(text, MP_PLAIN, "\n");
    if (peak->rounding.known_bytes > peak->rounding.requested_bytes + peak->rounding.known_bytes / ROUNDING_SHOWN) {
        mp_text_put(text, MP_PLAIN, "  ");
        mp_rounding_text(text, &peak->rounding);
    }
    mp_previous_text(text, model, peak, "  ");
    if (mp_categories_any(&peak->categories)) mp_categories_text(text, &peak->categories);
    put_top_sites(text, model, &peak->sites, peak->bytes, view, false);
}

/* Other tracks, and samples of the process. */
static void put_others(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    mp_table_start(&table, "lr");
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        if ((peak && i == peak->track) || !sum->events) continue;
        mp_table_cell(&table, MP_PLAIN, "%s", mp_track_id(model, (uint16_t)i, id));
        if (sum->peak_bytes || !sum->allocs) /* otherwise handles, which are counted */
            mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, sum->peak_bytes));
        else
            mp_table_cell(&table, MP_PLAIN, "%llu made, %llu left", (unsigned long long)sum->allocs,
                          (unsigned long long)sum->end_blocks);
        mp_table_end_row(&table);
    }
    struct mp_sampled_list list = {0};
    mp_samples_sum(model, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (!strncmp(mp_model_text(model, list.at[i].counter), "cuda:", 5))
            continue; /* the part on the device says more */
        mp_table_cell(&table, MP_PLAIN, "%s", mp_model_text(model, list.at[i].counter));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, list.at[i].peak_bytes));
        mp_table_end_row(&table);
    }
    mp_samples_free(&list);
    if (table.cells.count) mp_text_put(text, MP_BOLD, "\nBESIDE IT, each at its highest\n");
    mp_table_finish(&table, text);
}

static void put_leaks(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    if (leaks->leaks) {
        mp_text_put(text, MP_BOLD, "\nLEAKS  %u", leaks->leaks);
        mp_text_put(text, MP_PLAIN, " place%s growing; see memprof leaks ", leaks->leaks == 1 ? " keeps" : "s keep");
        mp_text_clean(text->out, view->path);
        mp_text_put(text, MP_PLAIN, "\n");
        mp_findings_text(text, model, leaks, view->limit, false);
    } else {
        mp_text_put(text, MP_BOLD, "\nLEAKS  ");
        mp_text_put(text, MP_PLAIN, "%s%s%s\n", mp_verdict_name(leaks->verdict), *leaks->reason ? ": " : "",
                    leaks->reason);
    }
    mp_text_put(text, MP_BOLD, "\nOUTSTANDING  %s", mp_format_bytes(number, leaks->outstanding.bytes));
    mp_text_put(text, MP_PLAIN, " at the end in ");
    mp_text_count(text, leaks->outstanding.blocks, "block");
    mp_text_put(text, MP_PLAIN, ", ");
    mp_text_count(text, leaks->outstanding.count, "site");
    mp_text_put(text, MP_PLAIN, "\n");
    put_top_sites(text, model, &leaks->outstanding, leaks->outstanding.bytes, view, false);
    if (leaks->verdict == MP_VERDICT_UNKNOWN && leaks->grows && leaks->held_lasting &&
        leaks->held.at[0].births >= GROWING_BIRTHS) {
        struct mp_sites lasting = leaks->held;
        lasting.count = leaks->held_lasting;
        mp_text_put(text, MP_BOLD, "\nGROWING?");
        mp_text_put(text, MP_PLAIN, "  live at %s and born in many distinct steps; see memprof leaks ",
                    mp_format_duration(number, leaks->held_ns));
        mp_text_clean(text->out, view->path);
        mp_text_put(text, MP_PLAIN, "\n");
        put_top_sites(text, model, &lasting, lasting.bytes, view, true);
    }
}

static int ascending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* The median of what a step leaves behind: a step that warms up, or the last with its tear-down, says little. */
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

/* What a step of the later half left behind on average, where that is another amount than the median: a program may
 * keep something in every second step, or every tenth. */
static bool mean_kept(const struct mp_step_report *report, int64_t median, int64_t *kept)
{
    size_t count = report->steps.count, first = count / 2, last = count - 2; /* the last one has the tear-down */
    if (count < 4 || last <= first) return false;
    int64_t grown = (int64_t)(report->steps.at[last].end_bytes - report->steps.at[first].end_bytes);
    *kept = grown / (int64_t)(last - first);
    return (*kept > median ? *kept - median : median - *kept) * 10 > (*kept > 0 ? *kept : -*kept);
}

static void put_steps(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report)
{
    char number[MP_UNIT_TEXT];
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
        mp_text_put(text, MP_BOLD, "\nSTEPS  peak %s max", mp_format_bytes(number, highest));
        mp_text_put(text, MP_PLAIN, ", %s mean", mp_format_bytes(number, (uint64_t)(sum / count)));
        if (known) mp_text_put(text, MP_PLAIN, "; kept after a step %s (median)", mp_format_signed_bytes(number, kept));
        if (known && mean_kept(report, kept, &mean))
            mp_text_put(text, MP_PLAIN, ", %s in the later half's mean", mp_format_signed_bytes(number, mean));
        mp_text_put(text, MP_PLAIN, "\n");
    }
    if (!report->regions.count) return;
    struct mp_table table;
    mp_text_put(text, MP_BOLD, "\nREGIONS  highest peak; allocated and kept each time (mean)\n");
    mp_table_start(&table, "lrrrr");
    for (size_t i = 0; i < report->regions.count; i++) {
        const struct mp_region_row *row = &report->regions.at[i];
        mp_table_cell(&table, MP_PLAIN, "%s", row->name ? mp_model_text(model, row->name) : "(unnamed)");
        mp_table_cell(&table, MP_PLAIN, "%s time%s", mp_format_count(number, row->count), row->count == 1 ? "" : "s");
        mp_table_cell(&table, MP_PLAIN, "peak %s", mp_format_bytes(number, row->max_peak_bytes));
        mp_table_cell(&table, MP_PLAIN, "allocated %s",
                      mp_format_bytes(number, row->total_allocated_bytes / row->count));
        mp_table_cell(&table, MP_PLAIN, "kept %s", mp_format_bytes(number, row->kept_bytes / row->count));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

static void put_frag(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                     const struct mp_view *view)
{
    char number[MP_UNIT_TEXT], asked[MP_UNIT_TEXT];
    if (frag->known) {
        mp_text_put(text, MP_BOLD, "\nFRAG  %s", mp_format_bytes(number, frag->reserved));
        mp_text_put(text, MP_PLAIN, " reserved %s, %.1f %% in use; ", mp_frag_when(frag),
                    frag->reserved ? 100.0 * (double)frag->allocated / (double)frag->reserved : 0.0);
        mp_text_put(text, MP_PLAIN, "%s free, the largest hole ", mp_format_bytes(number, frag->free_bytes));
        mp_text_put(text, MP_PLAIN, "%s\n", mp_format_bytes(number, frag->largest_free));
    }
    if (frag->oom.event != MP_NONE) {
        mp_text_put(text, MP_BOLD, "\nOUT OF MEMORY");
        const char *cause = mp_oom_cause_name(frag->oom.cause);
        mp_text_put(text, MP_PLAIN, " at %s: asked for %s", mp_format_duration(number, frag->oom.ns),
                    mp_format_bytes(asked, frag->oom.requested));
        mp_text_put(text, MP_PLAIN, ", cause: %s; see memprof frag ", cause ? cause : "not known");
        mp_text_clean(text->out, view->path);
        mp_text_put(text, MP_PLAIN, "\n");
        if (frag->oom.stack) mp_text_site(text, model, frag->oom.stack);
    }
}

static void put_advice(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                       const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    struct mp_advice advice;
    bool settings = story->frag && mp_frag_advice(story->frag, &advice);
    bool changes = story->advise && story->advise->changes.count;
    if (!settings && !changes) return;
    mp_text_put(text, MP_BOLD, "\nADVICE");
    if (changes) {
        mp_text_put(text, MP_PLAIN, "  see memprof advise ");
        mp_text_clean(text->out, view->path);
    }
    mp_text_put(text, MP_PLAIN, "\n");
    if (settings) {
        mp_text_put(text, MP_PLAIN, "  1. %s", advice.text);
        if (advice.saved != MP_BYTES_UNKNOWN)
            mp_text_put(text, MP_PLAIN, "      saves %s", mp_format_bytes(number, advice.saved));
        mp_text_put(text, MP_PLAIN, "\n");
    }
    if (changes) mp_advise_best_text(text, model, story->advise, BEST_CHANGES, settings + 1);
}

void mp_report_text(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view)
{
    put_header(text, model, story, view);
    if (story->peak)
        put_peak(text, model, story->peak, view);
    else
        mp_text_put(text, MP_PLAIN, "\nNo allocation was recorded.\n");
    mp_device_uses_text(text, model);
    put_others(text, model, story->peak);
    if (story->peak) put_leaks(text, model, story->leaks, view);
    if (story->steps) put_steps(text, model, story->steps);
    if (story->frag) put_frag(text, model, story->frag, view);
    put_advice(text, model, story, view);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
