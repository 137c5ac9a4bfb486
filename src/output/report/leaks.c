#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "output/report/holders.h"
#include "output/report/reports.h"

static struct mp_site_view site_view(const struct mp_sites *sites, const struct mp_view *view)
{
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .by = view->grouping.by,
                                 .births = true,
                                 .track = true,
                                 .whole = sites->bytes};
}

static void put_sites(struct mp_json *json, const struct mp_model *model, const struct mp_sites *sites,
                      const struct mp_view *view)
{
    struct mp_site_view shown = site_view(sites, view);
    mp_json_number(json, "bytes", sites->bytes);
    mp_json_number(json, "blocks", sites->blocks);
    mp_json_number(json, "site_count", sites->count);
    mp_sites_json(json, "sites", model, sites, &shown);
}

static void put_findings(struct mp_json *json, const struct mp_model *model, const struct mp_leaks *leaks,
                         const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    struct mp_holders holders;
    mp_holders_find(model, false, &holders);
    mp_json_array(json, "findings");
    for (size_t i = 0; i < leaks->findings.count && (!view->limit || i < view->limit); i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        mp_json_object(json, NULL);
        mp_json_text(json, "track", mp_track_id(model, finding->track, id));
        mp_json_text(json, "class", mp_leak_class_name(finding->class));
        mp_json_text(json, "confidence", finding->certain ? "certain" : "probable");
        mp_json_number(json, "bytes", finding->bytes);
        mp_json_number(json, "blocks", finding->blocks);
        mp_json_number(json, "bytes_per_step", (uint64_t)(finding->bytes_per_step + 0.5));
        mp_json_number(json, "first_step", finding->first_step);
        mp_json_known(json, "eta_oom_steps", finding->eta_oom_steps);
        mp_stack_json(json, model, finding->stack);
        mp_holders_site_json(json, model, &holders, mp_holders_of(&holders, finding->track, finding->stack), 0);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_holders_free(&holders);
}

void mp_leaks_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.leaks/1");
    mp_json_text(json, "verdict", mp_verdict_name(leaks->verdict));
    mp_json_text(json, "reason", *leaks->reason ? leaks->reason : NULL);
    mp_json_object(json, "steps");
    mp_json_number(json, "count", leaks->step_count);
    mp_json_text(json, "source", leaks->step_source);
    mp_json_end_object(json);
    put_findings(json, model, leaks, view);
    mp_json_object(json, "outstanding");
    put_sites(json, model, &leaks->outstanding, view);
    mp_json_end_object(json);
    mp_json_object(json, "held");
    mp_json_number(json, "at_ns", leaks->held_ns);
    put_sites(json, model, &leaks->held, view);
    mp_json_end_object(json);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", leaks->suppressed_bytes);
    mp_json_number(json, "findings", leaks->suppressed_findings);
    mp_json_end_object(json);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static void put_amount(struct mp_text *text, const struct mp_sites *sites, const char *what, bool grouped)
{
    char number[MP_UNIT_TEXT];
    mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(number, sites->bytes));
    mp_text_put(text, MP_PLAIN, " %s in ", what);
    mp_text_count(text, sites->blocks, "block");
    mp_text_put(text, MP_PLAIN, ", ");
    mp_text_count(text, sites->count, grouped ? "group" : "site");
}

static void put_outstanding(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    put_amount(text, &leaks->outstanding,
               !view->window.whole ? "outstanding at the end of the window"
               : leaks->running    ? "live now"
                                   : "outstanding at the end",
               view->grouping.by != MP_GROUP_STACK);
}

static void put_held(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    char moment[MP_UNIT_TEXT], what[128];
    put_outstanding(text, leaks, view);
    if (leaks->held_moment == view->window.last) return;
    mp_text_put(text, MP_PLAIN, "\n");
    snprintf(what, sizeof what, "held at %s, when blocks of most ages were live,",
             mp_format_duration(moment, leaks->held_ns));
    put_amount(text, &leaks->held, what, view->grouping.by != MP_GROUP_STACK);
}

static void put_legend(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_sites *sites,
                       const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    if (leaks->step_count)
        mp_text_put(text, MP_DIM, "\nborn in: distinct steps, of %s, in which these blocks were allocated\n",
                    mp_format_count(number, leaks->step_count));
    else
        mp_text_put(
            text, MP_DIM,
            "\nborn in: distinct parts, of 64 equal ones, of the recording in which these blocks were allocated "
            "(it has no steps)\n");
    if (view->limit && view->limit < sites->count)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", sites->count - view->limit, view->limit * 2);
}

static const uint64_t MOST_STEPS_LEFT = 1000000;

uint64_t mp_leak_steps_left(const struct mp_leak_finding *finding)
{
    uint64_t left = finding->eta_oom_steps, unit = 1;
    if (left > MOST_STEPS_LEFT) return UINT64_MAX;
    while (left / unit >= 100)
        unit *= 10;
    return (left + unit / 2) / unit * unit;
}

const char *mp_leak_other_reading(const struct mp_leak_finding *finding)
{
    return finding->maybe_request ? "; or one request's results, which go when it ends" : "";
}

static void put_rate(struct mp_text *text, const struct mp_leak_finding *finding)
{
    char number[MP_UNIT_TEXT];
    mp_text_put(text, MP_PLAIN, "%s, %s", mp_leak_class_name(finding->class),
                finding->certain ? "certain" : "probable");
    if (finding->regrown)
        mp_text_put(text, MP_PLAIN, "; made anew, larger, in every step");
    else if (finding->blocks_per_step > 0) {
        snprintf(number, sizeof number, "%.3g", finding->blocks_per_step);
        mp_text_put(text, MP_PLAIN, "; %s %s%s a step", number, finding->class == MP_LEAK_HANDLE ? "handle" : "block",
                    strcmp(number, "1") == 0 ? "" : "s");
    }
    mp_text_put(text, MP_PLAIN, "%s", mp_leak_other_reading(finding));
    uint64_t left = mp_leak_steps_left(finding);
    if (left != UINT64_MAX)
        mp_text_put(text, MP_PLAIN, "; out of memory in about %s step%s", mp_format_count(number, left),
                    left == 1 ? "" : "s");
}

#define HOLDERS_SHOWN 2

static void put_finding(struct mp_table *table, const struct mp_model *model, const struct mp_leak_finding *finding,
                        const struct mp_site_apart *apart, const struct mp_holders *holders, bool full_stacks)
{
    char number[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    struct mp_site site = {.stack = finding->stack, .births = 1};
    struct mp_buffer line = {0};
    struct mp_text rate = {.out = &line};
    if (finding->class == MP_LEAK_HANDLE && !finding->bytes)
        mp_table_cell(table, MP_BOLD, "+%.3g", finding->blocks_per_step);
    else
        mp_table_cell(table, MP_BOLD, "+%s", mp_format_bytes(number, (uint64_t)(finding->bytes_per_step + 0.5)));
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_count(number, finding->first_step));
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_bytes(number, finding->bytes));
    mp_table_cell(table, MP_PLAIN, "%s", finding->blocks ? mp_format_count(number, finding->blocks) : "");
    mp_table_cell(table, MP_PLAIN, "%s", mp_track_id(model, finding->track, id));
    if (finding->stack) {
        mp_stack_rows(table, 5, model, NULL, &site, apart, full_stacks);
    } else {
        mp_table_wide(table, MP_DIM, "%s",
                      finding->blocks                    ? "(no stack)"
                      : finding->class == MP_LEAK_HIDDEN ? "(nothing recorded)"
                                                         : "(the allocator as a whole)");
        mp_table_end_row(table);
    }
    put_rate(&rate, finding);
    mp_table_skip(table, 5);
    mp_table_wide(table, MP_PLAIN, "%.*s", (int)line.size, line.size ? (const char *)line.data : "");
    mp_table_end_row(table);
    mp_buffer_free(&line);
    if (finding->stack && model->tracks.at[finding->track].layer == MP_LAYER_TORCH)
        mp_holders_site_rows(table, 5, model, holders, mp_holders_of(holders, finding->track, finding->stack),
                             HOLDERS_SHOWN);
}

struct mp_site_apart *mp_leak_places_apart(const struct mp_model *model, const struct mp_leaks *leaks, size_t first,
                                           size_t end, unsigned by)
{
    uint32_t *stacks = mp_alloc((end - first + 1) * sizeof *stacks);
    uint16_t *tracks = mp_alloc((end - first + 1) * sizeof *tracks);
    for (size_t i = first; i < end; i++) {
        stacks[i - first] = leaks->findings.at[i].stack;
        tracks[i - first] = leaks->findings.at[i].track;
    }
    struct mp_site_apart *apart = mp_stacks_apart(model, stacks, tracks, end - first, by);
    free(stacks);
    free(tracks);
    return apart;
}

/* Why holders are missing, of the first of these places that lacks some. */
static void put_missing(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_holders *holders,
                        size_t first, size_t end)
{
    bool said = false;
    for (size_t i = first; i < end && !said; i++)
        said = mp_holders_why_missing(text->out,
                                      mp_holders_of(holders, leaks->findings.at[i].track, leaks->findings.at[i].stack));
    if (said) mp_text_put(text, MP_PLAIN, "\n");
}

static void put_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks, size_t first,
                      size_t end, bool full_stacks)
{
    struct mp_table table;
    struct mp_holders holders;
    struct mp_site_apart *apart = mp_leak_places_apart(model, leaks, first, end, MP_APART_TRACKS_TOLD);
    mp_holders_find(model, false, &holders);
    mp_table_start_titled(&table, "rrrrlll", "place", "a step", "since step", "by now", "blocks", "track", NULL);
    for (size_t i = first; i < end; i++)
        put_finding(&table, model, &leaks->findings.at[i], &apart[i - first], &holders, full_stacks);
    free(apart);
    mp_table_finish(&table, text);
    put_missing(text, leaks, &holders, first, end);
    mp_holders_free(&holders);
}

void mp_findings_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks, size_t limit,
                      bool full_stacks)
{
    size_t shown = limit && limit < leaks->leaks ? limit : leaks->leaks;
    put_table(text, model, leaks, 0, shown, full_stacks);
    if (shown < leaks->leaks)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", leaks->leaks - shown, limit * 2);
}

static void put_verdict(struct mp_text *text, const struct mp_leaks *leaks)
{
    char number[MP_UNIT_TEXT];
    double rate = 0;
    mp_text_put(text, MP_BOLD, "%s", mp_verdict_name(leaks->verdict));
    mp_text_put(text, MP_PLAIN, ": ");
    if (leaks->verdict == MP_VERDICT_UNKNOWN) {
        mp_text_put(text, MP_PLAIN, "%s", leaks->reason);
        mp_text_put(text, MP_PLAIN, "\n");
        return;
    }
    for (size_t i = 0; i < leaks->leaks; i++)
        rate += leaks->findings.at[i].bytes_per_step;
    if (leaks->leaks)
        mp_text_put(text, MP_PLAIN, "%u place%s growing, ", leaks->leaks, leaks->leaks == 1 ? " keeps" : "s keep");
    if (rate >= 0.5) /* handles have no bytes */
        mp_text_put(text, MP_PLAIN, "+%s a step in all; ", mp_format_bytes(number, (uint64_t)(rate + 0.5)));
    mp_text_put(text, MP_PLAIN, "%s steps (%s), ", mp_format_count(number, leaks->step_count), leaks->step_source);
    mp_text_count(text, leaks->places, "place");
    mp_text_put(text, MP_PLAIN, leaks->leaks ? " looked at\n" : ", no place keeps growing\n");
    if (leaks->caches)
        mp_text_put(text, MP_PLAIN,
                    "%zu more place%s a thing anew, larger, in every round, as a cache does within one "
                    "request\n",
                    leaks->caches, leaks->caches == 1 ? " makes" : "s make");
}

/* Advice for each class, and each kind of holder, among the leaks shown, given once. */
static void put_advice(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks)
{
    struct mp_holders holders;
    struct mp_holders_advised held = {0};
    bool advised[MP_LEAK_CLASSES] = {false};
    for (size_t i = 0; i < leaks->findings.count; i++) {
        enum mp_leak_class class = leaks->findings.at[i].class;
        if (advised[class]) continue;
        advised[class] = true;
        mp_text_put(text, MP_PLAIN, "%s: %s\n", mp_leak_class_name(class), mp_leak_advice(class));
    }
    mp_holders_find(model, false, &holders);
    for (size_t i = 0; i < leaks->leaks; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        mp_holders_site_advice(text, &holders, mp_holders_of(&holders, finding->track, finding->stack), &held);
    }
    mp_holders_free(&holders);
}

static void put_sites_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                            const struct mp_sites *sites, const struct mp_view *view)
{
    if (!sites->count) return;
    struct mp_site_view shown = site_view(sites, view);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_sites_text(text, model, sites, &shown);
    put_legend(text, leaks, sites, view);
}

void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    static const char *const orders[] = {[MP_SORT_BYTES] = "most bytes first",
                                         [MP_SORT_BLOCKS] = "most blocks first",
                                         [MP_SORT_GROWTH] = "what was made in most steps first"};
    char number[MP_UNIT_TEXT];
    bool unsure = leaks->verdict == MP_VERDICT_UNKNOWN;
    put_verdict(text, leaks);
    if (leaks->leaks) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_findings_text(text, model, leaks, view->limit, view->full_stacks);
    }
    if (leaks->leaks < leaks->findings.count) {
        mp_text_put(text, MP_BOLD, "\nNo leak, but told\n");
        put_table(text, model, leaks, leaks->leaks, leaks->findings.count, view->full_stacks);
    }
    if (leaks->findings.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        put_advice(text, model, leaks);
        mp_text_put(text, MP_PLAIN, "\n");
    }
    if (leaks->suppressed_findings)
        mp_text_put(text, MP_PLAIN, "suppressed: %llu, %s\n", (unsigned long long)leaks->suppressed_findings,
                    mp_format_bytes(number, leaks->suppressed_bytes));
    (unsure && !view->outstanding ? put_held : put_outstanding)(text, leaks, view);
    const struct mp_sites *listed = unsure && !view->outstanding ? &leaks->held : &leaks->outstanding;
    if ((view->outstanding || unsure) && listed->count)
        mp_text_put(text, MP_PLAIN, "; %s\n", orders[view->grouping.sort]);
    else
        mp_text_put(text, MP_PLAIN, leaks->outstanding.count && !unsure ? "; --outstanding lists them\n" : "\n");
    if (view->outstanding || unsure) put_sites_table(text, model, leaks, listed, view);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
