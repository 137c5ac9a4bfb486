#include <stdio.h>
#include <string.h>

#include "output/report/columns.h"
#include "output/report/holders.h"

static struct mp_site_view site_view(const struct mp_sites *sites, const struct mp_view *view)
{
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .by = view->grouping.by,
                                 .births = true,
                                 .track = true,
                                 .whole = sites->bytes};
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

static const uint64_t MOST_STEPS_LEFT = 1000000;
#define HOLDERS_SHOWN 2

uint64_t mp_leak_steps_left(const struct mp_leak_finding *finding)
{
    uint64_t left = finding->eta_oom_steps, unit = 1;
    if (left > MOST_STEPS_LEFT) return UINT64_MAX;
    while (left / unit >= 100)
        unit *= 10;
    return (left + unit / 2) / unit * unit;
}

/* The other explanation of the finding, as a clause behind its confidence; "": it is a leak for sure. */
static const char *other_reading(const struct mp_leak_finding *finding)
{
    return finding->maybe_request ? "; or one request's results, which go when it ends" : "";
}

struct table {
    const struct mp_model *model;
    struct mp_holders holders;
};

static const struct mp_holders_site *held_of(const struct table *table, const struct mp_leak_finding *finding)
{
    return mp_holders_of(&table->holders, finding->track, finding->stack);
}

MP_GETTER(get_confidence, struct mp_leak_finding, it, value->text = it->certain ? "certain" : "probable")

static void get_sure(struct mp_value *value, const void *of, const void *row)
{
    get_confidence(value, of, row);
    mp_buffer_printf(&value->made, "%s%s", value->text, other_reading(row));
}

static void get_blocks(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_leak_finding *)row)->blocks;
    value->text = value->number ? NULL : "";
}

static void get_rate(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_leak_finding *finding = row;
    value->number = (uint64_t)(finding->bytes_per_step + 0.5);
    if (finding->class == MP_LEAK_HANDLE && !finding->bytes)
        mp_buffer_printf(&value->made, "+%.3g", finding->blocks_per_step);
}

static void get_site(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_leak_finding *finding = row;
    value->site = (struct mp_site){.stack = finding->stack, .track = finding->track, .births = 1};
    if (!finding->stack)
        value->text = finding->blocks                    ? "(no stack)"
                      : finding->class == MP_LEAK_HIDDEN ? "(nothing recorded)"
                                                         : "(the allocator as a whole)";
}

static void get_held(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_first_text(&value->made, table->model, &table->holders, held_of(table, row));
}

static void put_holders(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_site_json(json, table->model, &table->holders, held_of(table, row), 0);
}

#define FOUND(member) MP_MEMBER(struct mp_leak_finding, member)
#define HELD          1 /* the bit of what a look for holders found */

const struct mp_column mp_finding_columns[] = {
    {"track", "track", MP_TRACK, FOUND(track), .place = 4},
    {NULL, "class", MP_WORD, FOUND(class), .word = mp_leak_class_name},
    {NULL, "confidence", MP_NAME, .get = get_confidence},
    {"class", NULL, MP_WORD, FOUND(class), .word = mp_leak_class_name, .place = 5, .not_in_text = true},
    {"confidence", NULL, MP_NAME, .get = get_sure, .place = 5, .not_in_text = true},
    {"by now", "bytes", MP_BYTES, FOUND(bytes), .place = 2},
    {"blocks", "blocks", MP_COUNT, .get = get_blocks, .place = 3},
    {"a step", "bytes_per_step", MP_CHANGE, .get = get_rate, .style = MP_BOLD},
    {"since step", "first_step", MP_COUNT, FOUND(first_step), .place = 1},
    {NULL, "eta_oom_steps", MP_COUNT, FOUND(eta_oom_steps)},
    {"held by", NULL, MP_NAME, .get = get_held, .place = 6, .only = HELD, .not_in_text = true},
    {"site", "stack", MP_SITE, .get = get_site, .place = 7},
    {NULL, "holders", .put = put_holders},
    {NULL},
};

/* "retention, certain; 2 blocks a step; out of memory in about 230 steps" */
static void put_kind(struct mp_text *text, const struct mp_leak_finding *finding)
{
    uint64_t left = mp_leak_steps_left(finding);
    mp_say(text, "%s, %s", mp_leak_class_name(finding->class), finding->certain ? "certain" : "probable");
    if (finding->regrown) {
        mp_say(text, "; made anew, larger, in every step");
    } else if (finding->blocks_per_step > 0) {
        char number[16];
        snprintf(number, sizeof number, "%.3g", finding->blocks_per_step);
        mp_say(text, "; %s %s%s a step", number, finding->class == MP_LEAK_HANDLE ? "handle" : "block",
               strcmp(number, "1") == 0 ? "" : "s");
    }
    mp_say(text, "%s", other_reading(finding));
    if (left != UINT64_MAX) mp_say(text, "; out of memory in about %s", mp_counted(left, "step"));
}

static void put_below(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct table *shown = of;
    const struct mp_leak_finding *finding = row;
    struct mp_buffer line = {0};
    put_kind(&(struct mp_text){.out = &line}, finding);
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_PLAIN, "%.*s", (int)line.size, (const char *)line.data);
    mp_table_end_row(table);
    mp_buffer_free(&line);
    if (finding->stack && shown->model->tracks.at[finding->track].layer == MP_LAYER_TORCH)
        mp_holders_site_rows(table, columns, shown->model, &shown->holders, held_of(shown, finding), HOLDERS_SHOWN);
}

static struct mp_rows rows_of(const struct table *table, const struct mp_leaks *leaks, size_t first, size_t end)
{
    return MP_ROWS(mp_finding_columns, leaks->findings.at, end, .first = first, .of = table, .model = table->model,
                   .without = table->holders.looked ? 0 : HELD, .apart_by = MP_APART_TRACKS_TOLD, .below = put_below,
                   .stacks = MP_STACKS);
}

/* Why holders are missing, of the first of these sites that lacks some. */
static void put_missing(struct mp_text *text, const struct mp_rows *rows)
{
    const struct mp_leak_finding *findings = rows->at;
    for (size_t i = rows->first; i < rows->count; i++)
        if (mp_holders_why_missing(text->out, held_of(rows->of, &findings[i]))) {
            mp_say(text, "\n");
            return;
        }
}

static void put_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks, size_t first,
                      size_t end, bool full_stacks)
{
    struct table table = {.model = model};
    mp_holders_find(model, false, &table.holders);
    struct mp_rows rows = rows_of(&table, leaks, first, end);
    if (full_stacks) rows.stacks = MP_FULL_STACKS;
    mp_rows_text(text, &rows);
    put_missing(text, &rows);
    mp_holders_free(&table.holders);
}

void mp_findings_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks, size_t limit,
                      bool full_stacks)
{
    size_t shown = mp_shown(leaks->leaks, limit);
    put_table(text, model, leaks, 0, shown, full_stacks);
    mp_say_more(text, leaks->leaks - shown, limit);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_sites(struct mp_json *json, const struct mp_model *model, const struct mp_sites *sites,
                      const struct mp_view *view)
{
    struct mp_site_view shown = site_view(sites, view);
    mp_json_number(json, "bytes", sites->bytes);
    mp_json_number(json, "blocks", sites->blocks);
    mp_json_number(json, "site_count", sites->count);
    mp_sites_json(json, "sites", model, sites, &shown);
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
    struct table table = {.model = model};
    mp_holders_find(model, false, &table.holders);
    const struct mp_rows findings = rows_of(&table, leaks, 0, mp_shown(leaks->findings.count, view->limit));
    mp_rows_json(json, "findings", &findings);
    mp_holders_free(&table.holders);
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

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void put_amount(struct mp_text *text, const struct mp_sites *sites, const char *what, const struct mp_view *view)
{
    mp_say(text, "`%s` %s in %s, %s", mp_bytes(sites->bytes), what, mp_counted(sites->blocks, "block"),
           mp_counted(sites->count, view->grouping.by == MP_GROUP_STACK ? "site" : "group"));
}

static void put_outstanding(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    put_amount(text, &leaks->outstanding,
               !view->window.whole ? "outstanding at the end of the window"
               : leaks->running    ? "live now"
                                   : "outstanding at the end",
               view);
}

static void put_held(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    char what[128];
    put_outstanding(text, leaks, view);
    if (leaks->held_moment == view->window.last) return;
    snprintf(what, sizeof what, "live at %s, the moment with blocks from the most %s,", mp_time(leaks->held_ns),
             leaks->step_count ? "steps" : "time slices");
    mp_say(text, "\n");
    put_amount(text, &leaks->held, what, view);
}

static void put_legend(struct mp_text *text, const struct mp_leaks *leaks)
{
    if (leaks->step_count)
        mp_say(text, "\n^born in: in how many of %s steps these blocks were allocated^\n", mp_count(leaks->step_count));
    else
        mp_say(text, "\n^born in: in how many of 64 equal time slices these blocks were allocated (the recording has "
                     "no steps)^\n");
}

static void put_verdict(struct mp_text *text, const struct mp_leaks *leaks)
{
    double rate = 0;
    mp_say(text, "`%s`: ", mp_verdict_name(leaks->verdict));
    if (leaks->verdict == MP_VERDICT_UNKNOWN) {
        mp_say(text, "%s\n", leaks->reason);
        return;
    }
    for (size_t i = 0; i < leaks->leaks; i++)
        rate += leaks->findings.at[i].bytes_per_step;
    if (leaks->leaks) mp_say(text, "%u site%s growing, ", leaks->leaks, leaks->leaks == 1 ? " keeps" : "s keep");
    if (rate >= 0.5) mp_say(text, "+%s a step in all; ", mp_bytes((uint64_t)(rate + 0.5))); /* handles have no bytes */
    mp_say(text, "%s steps (%s), %s%s\n", mp_count(leaks->step_count), leaks->step_source,
           mp_counted(leaks->places, "site"), leaks->leaks ? " checked" : ", no site keeps growing");
    if (leaks->caches)
        mp_say(text, "%zu more site%s a thing anew, larger, in every round, as a cache does within one request\n",
               leaks->caches, leaks->caches == 1 ? " makes" : "s make");
}

/* Advice for each class, and each kind of holder, among the leaks shown, given once. */
static void put_advice(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks)
{
    struct table table = {.model = model};
    struct mp_holders_advised held = {0};
    bool advised[MP_LEAK_CLASSES] = {false};
    for (size_t i = 0; i < leaks->findings.count; i++) {
        enum mp_leak_class class = leaks->findings.at[i].class;
        if (!advised[class]) mp_say(text, "%s: %s\n", mp_leak_class_name(class), mp_leak_advice(class));
        advised[class] = true;
    }
    mp_holders_find(model, false, &table.holders);
    for (size_t i = 0; i < leaks->leaks; i++)
        mp_holders_site_advice(text, &table.holders, held_of(&table, &leaks->findings.at[i]), &held);
    mp_holders_free(&table.holders);
}

static void put_sites_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                            const struct mp_sites *sites, const struct mp_view *view)
{
    struct mp_site_view shown = site_view(sites, view);
    if (mp_sites_text(text, model, sites, &shown)) put_legend(text, leaks);
    mp_say_more(text, sites->count - mp_shown(sites->count, view->limit), view->limit);
}

void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    static const char *const orders[] = {[MP_SORT_BYTES] = "most bytes first",
                                         [MP_SORT_BLOCKS] = "most blocks first",
                                         [MP_SORT_GROWTH] = "what was made in most steps first"};
    bool unsure = leaks->verdict == MP_VERDICT_UNKNOWN, listed = view->outstanding || unsure;
    const struct mp_sites *sites = unsure && !view->outstanding ? &leaks->held : &leaks->outstanding;
    put_verdict(text, leaks);
    if (mp_is_csv(text) ? !view->outstanding : leaks->leaks > 0) {
        mp_say(text, "\n");
        mp_findings_text(text, model, leaks, view->limit, view->full_stacks);
    }
    if (leaks->leaks < leaks->findings.count && !mp_is_csv(text)) {
        mp_heading(text, "No leak, but reported");
        mp_say(text, "\n");
        put_table(text, model, leaks, leaks->leaks, leaks->findings.count, view->full_stacks);
    }
    if (leaks->findings.count) {
        mp_say(text, "\n");
        put_advice(text, model, leaks);
        mp_say(text, "\n");
    }
    if (leaks->suppressed_findings)
        mp_say(text, "suppressed: %llu, %s\n", (unsigned long long)leaks->suppressed_findings,
               mp_bytes(leaks->suppressed_bytes));
    (sites == &leaks->held ? put_held : put_outstanding)(text, leaks, view);
    if (listed && sites->count) mp_say(text, "; %s", orders[view->grouping.sort]);
    mp_say(text, "%s\n", !listed && leaks->outstanding.count ? "; --outstanding lists them" : "");
    if (listed) put_sites_table(text, model, leaks, sites, view);
    mp_coverage_end(text, model);
}
