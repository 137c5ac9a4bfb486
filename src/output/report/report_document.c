#include "output/report/report_document.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "output/report/advise.h"
#include "output/report/categories.h"
#include "output/report/holders.h"
#include "output/report/page_links.h"
#include "output/report/plot.h"

#define BEST_CHANGES 3

static void put_head(struct mp_document *document, const struct mp_model *model, const struct mp_story *story)
{
    char number[MP_UNIT_TEXT];
    struct mp_buffer command = {0};
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_buffer_printf(&command, "%s%s", command.size ? " " : "", *word);
    if (command.size) mp_document_paragraph(document, "%.*s", (int)command.size, (const char *)command.data);
    mp_buffer_free(&command);
    const struct mp_leaks *leaks = story->leaks;
    char steps[64] = "no steps are known";
    if (leaks->step_count)
        snprintf(steps, sizeof steps, "%llu step%s (%s)", (unsigned long long)leaks->step_count,
                 leaks->step_count == 1 ? "" : "s", leaks->step_source);
    mp_document_paragraph(document, "%s%s%s, %s", model->start.host, *model->start.host ? ", " : "",
                          mp_format_duration(number, model->duration_ns), steps);
    if (!document->page) return;
    mp_document_link(document, "%s", "");
    mp_document_paragraph(document, "Every block over time");
}

static void put_modules(struct mp_document *document, const struct mp_sites *sites, const struct mp_site *site)
{
    struct mp_buffer text = {0};
    mp_site_modules_text(&text, sites, site);
    mp_document_cell(document, "%.*s", (int)text.size, text.size ? (const char *)text.data : "");
    mp_buffer_free(&text);
}

/* `where`: what the page shows of a site, as mp_link_site() takes it. */
static void put_sites(struct mp_document *document, const struct mp_page_links *links, const struct mp_sites *sites,
                      uint64_t whole, size_t limit, const char *where)
{
    const struct mp_model *model = links->model;
    static const char *const heads[] = {"bytes", "share", "blocks", "site", "module"};
    char number[MP_UNIT_TEXT];
    size_t rows = limit && limit < sites->count ? limit : sites->count;
    if (!rows) return;
    bool modules = sites->modules.count;
    struct mp_site_apart *apart = mp_site_apart(model, sites, rows, MP_APART_SITES);
    mp_document_table(document, modules ? "rrrll" : "rrrl", heads);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_site *site = &sites->at[i];
        mp_document_cell(document, "%s", mp_format_bytes(number, site->bytes));
        mp_document_share(document, site->bytes, whole);
        mp_document_cell(document, "%s", mp_format_count(number, site->blocks));
        mp_link_site(document, links, site->track, site->stack, where);
        mp_document_site(document, model, site, &apart[i]);
        if (modules) put_modules(document, sites, site);
    }
    free(apart);
    mp_document_end_table(document);
    if (rows < sites->count) mp_document_paragraph(document, "%zu more sites.", sites->count - rows);
}

static void put_peak(struct mp_document *document, const struct mp_page_links *links, const struct mp_peak *peak,
                     const struct mp_view *view)
{
    const struct mp_model *model = links->model;
    char number[MP_UNIT_TEXT], error[MP_PEAK_ERROR_TEXT], at[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX], step[32] = "",
                                                                                                 phase[32] = "";
    if (peak->step) snprintf(step, sizeof step, ", step %u", peak->step);
    if (peak->phase) snprintf(phase, sizeof phase, ", in %s", peak->phase);
    mp_link_peak(document, links, peak);
    mp_document_heading(document, "Peak: %s%s", mp_format_bytes(number, peak->bytes),
                        mp_peak_error_text(error, model, peak));
    mp_document_paragraph(document, "On %s, at %s%s%s; %llu blocks, %zu sites.", mp_track_id(model, peak->track, id),
                          mp_format_duration(at, peak->ns), step, phase, (unsigned long long)peak->blocks,
                          peak->sites.count);
    const struct mp_drawn_curve curve = {
        .model = model, .track = peak->track, .window = &view->window, .peak = peak->bytes};
    if (document->form == MP_HTML && mp_curves_picture(document->out, &curve, 1))
        mp_document_paragraph(document, "The curve has all that was allocated there.");
    if (mp_previous_matters(peak)) {
        struct mp_buffer sentence = {0};
        mp_previous_sentence(&sentence, model, peak);
        mp_document_paragraph(document, "%.*s. To save it: %s.", (int)sentence.size, (const char *)sentence.data,
                              mp_previous_advice());
        mp_buffer_free(&sentence);
    }
    if (mp_categories_any(&peak->categories)) mp_categories_document(document, &peak->categories);
    put_sites(document, links, &peak->sites, peak->bytes, view->limit, "of=peak&v=sites");
}

/* The first one: memprof holders lists all. */
static void put_holder(struct mp_document *document, const struct mp_holders *holders,
                       const struct mp_leak_finding *finding)
{
    char number[MP_UNIT_TEXT], of[MP_UNIT_TEXT];
    const struct mp_holders_site *site = mp_holders_of(holders, finding->track, finding->stack);
    if (!site || !site->count) {
        mp_document_cell(document, "%s", "");
        return;
    }
    const struct mp_holder *holder = &holders->holders.at[site->first];
    mp_document_cell(document, "%s%s, %s of %s blocks", holder->certain ? "" : "probably ", holder->path,
                     mp_format_count(number, holder->blocks), mp_format_count(of, site->blocks));
}

static void put_missing(struct mp_document *document, const struct mp_leaks *leaks, const struct mp_holders *holders)
{
    struct mp_buffer sentence = {0};
    bool said = false;
    for (size_t i = 0; i < leaks->findings.count && !said; i++)
        if (mp_leak_is_leak(&leaks->findings.at[i]))
            said = mp_holders_why_missing(
                &sentence, mp_holders_of(holders, leaks->findings.at[i].track, leaks->findings.at[i].stack));
    if (said) mp_document_paragraph(document, "%.*s.", (int)sentence.size, (const char *)sentence.data);
    mp_buffer_free(&sentence);
}

static void put_findings(struct mp_document *document, const struct mp_page_links *links, const struct mp_leaks *leaks)
{
    const struct mp_model *model = links->model;
    static const char *const heads[] = {"a step", "since step", "by now", "blocks", "class", "place"};
    static const char *const with_holders[] = {"a step", "since step", "by now", "blocks", "class", "held by", "place"};
    char number[MP_UNIT_TEXT];
    struct mp_holders holders;
    if (!leaks->leaks) return;
    struct mp_site_apart *apart = mp_leak_places_apart(model, leaks, 0, leaks->findings.count, MP_APART_SITES);
    mp_holders_find(model, false, &holders);
    mp_document_table(document, holders.looked ? "rrrrlll" : "rrrrll", holders.looked ? with_holders : heads);
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        if (!mp_leak_is_leak(finding)) continue;
        mp_document_cell(document, "%s", mp_format_signed_bytes(number, (int64_t)finding->bytes_per_step));
        mp_link_step(document, links, finding->track, finding->first_step);
        mp_document_cell(document, "%u", finding->first_step);
        mp_document_cell(document, "%s", mp_format_bytes(number, finding->bytes));
        mp_document_cell(document, "%s", mp_format_count(number, finding->blocks));
        mp_document_cell(document, "%s, %s%s", mp_leak_class_name(finding->class),
                         finding->certain ? "certain" : "probable", mp_leak_other_reading(finding));
        if (holders.looked) put_holder(document, &holders, finding);
        mp_link_site(document, links, finding->track, finding->stack, "v=growth");
        mp_document_site(document, model, &(const struct mp_site){.stack = finding->stack, .track = finding->track},
                         &apart[i]);
    }
    free(apart);
    mp_document_end_table(document);
    put_missing(document, leaks, &holders);
    mp_holders_free(&holders);
}

static void put_leaks(struct mp_document *document, const struct mp_page_links *links, const struct mp_leaks *leaks,
                      size_t limit)
{
    char number[MP_UNIT_TEXT];
    mp_document_heading(document, "Leaks: %s", mp_verdict_name(leaks->verdict));
    if (*leaks->reason) mp_document_paragraph(document, "%s.", leaks->reason);
    put_findings(document, links, leaks);
    mp_document_heading(document, "Outstanding at the end: %s", mp_format_bytes(number, leaks->outstanding.bytes));
    put_sites(document, links, &leaks->outstanding, leaks->outstanding.bytes, limit, "of=end&v=sites");
}

static void put_steps(struct mp_document *document, const struct mp_model *model, const struct mp_step_report *report)
{
    static const char *const heads[] = {"region", "times", "highest peak", "allocated each time", "kept each time"};
    char number[MP_UNIT_TEXT];
    if (!report->regions.count) return;
    mp_document_heading(document, "Regions");
    mp_document_table(document, "lrrrr", heads);
    for (size_t i = 0; i < report->regions.count; i++) {
        const struct mp_region_row *row = &report->regions.at[i];
        mp_document_cell(document, "%s", row->name ? mp_model_text(model, row->name) : "(unnamed)");
        mp_document_cell(document, "%s", mp_format_count(number, row->count));
        mp_document_cell(document, "%s", mp_format_bytes(number, row->max_peak_bytes));
        mp_document_cell(document, "%s", mp_format_bytes(number, row->total_allocated_bytes / row->count));
        mp_document_cell(document, "%s", mp_format_bytes(number, row->kept_bytes / row->count));
    }
    mp_document_end_table(document);
}

static void put_frag(struct mp_document *document, const struct mp_frag *frag)
{
    char reserved[MP_UNIT_TEXT], free_bytes[MP_UNIT_TEXT], hole[MP_UNIT_TEXT];
    const char *cause = mp_oom_cause_name(frag->oom.cause);
    if (frag->known) {
        mp_document_heading(document, "Fragmentation");
        mp_document_paragraph(document, "%s reserved %s, %.1f %% in use; %s free, the largest hole %s.",
                              mp_format_bytes(reserved, frag->reserved), mp_frag_when(frag),
                              frag->reserved ? 100.0 * (double)frag->allocated / (double)frag->reserved : 0.0,
                              mp_format_bytes(free_bytes, frag->free_bytes), mp_format_bytes(hole, frag->largest_free));
    }
    if (frag->oom.event != MP_NONE)
        mp_document_paragraph(document, "Out of memory: asked for %s, cause: %s.",
                              mp_format_bytes(reserved, frag->oom.requested), cause ? cause : "not known");
}

/* The best setting of the allocator, then the best changes of the program. */
static void put_advice(struct mp_document *document, const struct mp_model *model, const struct mp_story *story)
{
    char number[MP_UNIT_TEXT];
    struct mp_advice advice;
    bool setting = story->frag && mp_frag_advice(story->frag, &advice);
    if (!setting && !(story->advise && story->advise->changes.count)) return;
    mp_document_heading(document, "Advice");
    if (setting && advice.saved == MP_BYTES_UNKNOWN)
        mp_document_paragraph(document, "%s.", advice.text);
    else if (setting)
        mp_document_paragraph(document, "%s; saves %s.", advice.text, mp_format_bytes(number, advice.saved));
    if (story->advise) mp_advise_best_document(document, model, story->advise, BEST_CHANGES);
}

void mp_report_document(struct mp_document *document, const struct mp_model *model, const struct mp_story *story,
                        const struct mp_view *view, const uint32_t *site_of_stack)
{
    const struct mp_page_links links = {.model = model, .site_of_stack = site_of_stack, .steps = story->steps};
    put_head(document, model, story);
    if (story->peak)
        put_peak(document, &links, story->peak, view);
    else
        mp_document_paragraph(document, "No allocation was recorded.");
    if (story->peak) put_leaks(document, &links, story->leaks, view->limit);
    if (story->steps) put_steps(document, model, story->steps);
    if (story->frag) put_frag(document, story->frag);
    put_advice(document, model, story);
    mp_document_coverage(document, model);
}
