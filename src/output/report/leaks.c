#include <stdio.h>
#include <string.h>

#include "analysis/holders/census.h"
#include "analysis/holders/pinned_cache.h"
#include "analysis/leaks/leak_limits.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/holders.h"
#include "output/report/leaks.h"
#include "output/report/site_rows.h"
#include "output/report/sites.h"

static struct mp_site_view site_view(const struct mp_leaks *leaks, const struct mp_sites *sites,
                                     const struct mp_view *view)
{
    bool held = sites == &leaks->held.sites && leaks->holders.looked && view->grouping.by == MP_GROUP_STACK;
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .by = view->grouping.by,
                                 .births = true,
                                 .track = true,
                                 .whole = sites->bytes,
                                 .holders = held ? &leaks->holders : NULL};
}

/* ---- findings --------------------------------------------------------------------------------------------------- */

#define HOLDERS_SHOWN 2
#define SITES_SHOWN   4 /* most further sites shown of a cause */

uint64_t mp_leak_steps_left(const struct mp_leak_finding *finding)
{
    uint64_t left = finding->eta_oom_steps, unit = 1;
    if (left > MP_LEAK_KEPT_STEPS) return UINT64_MAX;
    while (left / unit >= 100)
        unit *= 10;
    return (left + unit / 2) / unit * unit;
}

/* True if its growth fills the device only in more steps than nearly any run has. */
static bool is_small(const struct mp_leak_finding *finding)
{
    return finding->eta_oom_steps != UINT64_MAX && finding->eta_oom_steps > MP_LEAK_KEPT_STEPS;
}

/* Another explanation of the finding, as a clause after its confidence; "": none. */
static const char *other_reading(const struct mp_leak_finding *finding)
{
    if (finding->follows) return "; or objects and holes that belong to the blocks above";
    return finding->maybe_request ? "; or results of one request, which are freed when it ends" : "";
}

struct table {
    const struct mp_model *model;
    const struct mp_leaks *leaks;
    bool verbose;
};

MP_GETTER(get_confidence, struct mp_leak_finding, it, value->text = mp_leak_confidence_name(it->confidence))

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
    value->site = (struct mp_site){.stack = finding->stack, .track = finding->track};
    if (!finding->stack)
        value->text = finding->blocks                    ? "(no stack)"
                      : finding->mapped                  ? "(mapped files)"
                      : finding->in_shm                  ? "(shm: files in /dev/shm)"
                      : finding->shared                  ? "(shared memory)"
                      : finding->class == MP_LEAK_HIDDEN ? "(nothing recorded)"
                                                         : "(the allocator as a whole)";
}

static void get_held(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_first_text(&value->made, table->model, &table->leaks->holders,
                          ((const struct mp_leak_finding *)row)->held);
}

static void put_holders(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_site_json(json, table->model, &table->leaks->holders, ((const struct mp_leak_finding *)row)->held, 0);
}

MP_GETTER(get_cause, struct mp_leak_finding, it, value->number = it->cause + 1)

static void put_bound(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_leak_finding *finding = row;
    (void)of;
    if (finding->class != MP_LEAK_BOUNDED) {
        mp_json_null(json, key);
        return;
    }
    mp_json_object(json, key);
    mp_json_number(json, "entries", finding->entries);
    mp_json_known(json, "most", finding->most ? finding->most : MP_BYTES_UNKNOWN);
    mp_json_known(json, "to_come_bytes", finding->most ? finding->to_come : MP_BYTES_UNKNOWN);
    mp_json_end_object(json);
}

static void put_twins(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_leak_finding *finding = row;
    (void)of;
    if (!finding->twins.whole) {
        mp_json_null(json, key);
        return;
    }
    mp_json_object(json, key);
    mp_json_number(json, "count", finding->twins.whole);
    mp_json_number(json, "of", finding->twins.of);
    mp_json_number(json, "bytes", finding->twins.bytes);
    mp_json_real(json, "steps_apart", finding->twins.apart);
    mp_json_end_object(json);
}

static void put_reasons(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_leak_finding *finding = row;
    (void)of;
    mp_json_object(json, key);
    mp_json_text(json, "test", mp_leak_test_name(finding->why.test));
    mp_json_number(json, "births", finding->births);
    mp_json_number(json, "steps", finding->why.steps);
    mp_json_number(json, "freed_blocks", finding->why.freed);
    if (finding->why.z > 0)
        mp_json_real(json, "z", finding->why.z);
    else
        mp_json_null(json, "z");
    mp_json_text(json, "missing", finding->missing);
    mp_json_end_object(json);
}

#define FOUND(member) MP_MEMBER(struct mp_leak_finding, member)
#define HELD          1 /* bit of columns that need a look for holders */

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
    {NULL, "at_twice_bytes", MP_BYTES, FOUND(at_twice), .zero_is_none = true},
    {NULL, "cause", MP_COUNT, .get = get_cause},
    {NULL, "bound", .put = put_bound},
    {NULL, "twins", .put = put_twins},
    {NULL, "reasons", .put = put_reasons},
    {"held by", NULL, MP_NAME, .get = get_held, .place = 6, .only = HELD, .not_in_text = true},
    {"site", "stack", MP_SITE, .get = get_site, .place = 7},
    {NULL, "holders", .put = put_holders},
    {NULL},
};

/* "retention, certain; 2 blocks a step; out of memory in about 230 steps" */
static void put_kind(struct mp_text *text, const struct mp_leak_finding *finding)
{
    uint64_t left = mp_leak_steps_left(finding);
    mp_say(text, "%s, %s", mp_leak_class_name(finding->class), mp_leak_confidence_name(finding->confidence));
    if (finding->twins.whole) {
        mp_say(text, "; %u of %u stay, %s each, one in %.3g steps", finding->twins.whole, finding->twins.of,
               mp_bytes(finding->twins.bytes), finding->twins.apart);
    } else if (finding->regrown) {
        mp_say(text, "; replaced by a larger one in every step");
    } else if (finding->blocks_per_step > 0) {
        char number[16];
        snprintf(number, sizeof number, "%.3g", finding->blocks_per_step);
        mp_say(text, "; %s %s%s a step", number, finding->class == MP_LEAK_HANDLE ? "handle" : "block",
               strcmp(number, "1") == 0 ? "" : "s");
    }
    if (finding->class == MP_LEAK_BOUNDED && !finding->most)
        mp_say(text, "; growing, may be bounded: %s", finding->missing);
    else if (finding->class == MP_LEAK_BOUNDED)
        mp_say(text, "; %s of %s entries, full in %s, +%s to come", mp_count(finding->entries), mp_count(finding->most),
               mp_counted((uint64_t)((double)finding->to_come / finding->bytes_per_step + 0.5), "step"),
               mp_bytes(finding->to_come));
    if (finding->class == MP_LEAK_KEPT) mp_say(text, "; kept for later: read at line %u", finding->read_line);
    if (is_small(finding)) mp_say(text, "; %s in 1 000 steps", mp_bytes((uint64_t)(finding->bytes_per_step * 1000)));
    if (finding->change > 0 && !finding->uneven)
        mp_say(text, "; each step keeps %s more, %s after twice the steps", mp_bytes((uint64_t)(finding->change + 0.5)),
               mp_bytes(finding->at_twice));
    if (finding->uneven) mp_say(text, "; a mean of these steps: the rate changes, so there is no forecast");
    mp_say(text, "%s", other_reading(finding));
    if (left != UINT64_MAX) mp_say(text, "; out of memory in about %s", mp_counted(left, "step"));
}

/* "5 more sites that it holds: forward train.py:31; main train.py:40; ..." */
static void put_sites_of_cause(struct mp_table *table, unsigned columns, const struct table *shown,
                               const struct mp_leak_finding *first)
{
    const struct mp_leaks *leaks = shown->leaks;
    struct mp_buffer line = {0};
    uint32_t more = 0;
    if (first->sum.sites < 2) return;
    mp_vec_each (const struct mp_leak_finding, finding, &leaks->findings) {
        if (finding->cause != first->cause || finding->sum.sites || more++ >= SITES_SHOWN) continue;
        mp_buffer_append_text(&line, more > 1 ? "; " : "");
        mp_site_text(&line, shown->model, &(const struct mp_site){.stack = finding->stack});
    }
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_PLAIN, "with %s more that it holds: %.*s%s", mp_counted(more, "site"), (int)line.size,
                  (const char *)line.data, more > SITES_SHOWN ? "; ..." : "");
    mp_table_end_row(table);
    mp_buffer_free(&line);
}

/* "by growth: 59 of 60 steps left blocks, z 9.8, 0 blocks freed; not certain: ..." */
static void put_reasons_row(struct mp_table *table, unsigned columns, const struct mp_leak_finding *finding)
{
    struct mp_buffer line = {0};
    struct mp_text text = {.out = &line};
    mp_say(&text, "by %s: %u of %s left blocks", mp_leak_test_name(finding->why.test), finding->births,
           mp_counted(finding->why.steps, "step"));
    if (finding->why.z > 0) mp_say(&text, ", z %.1f", finding->why.z);
    mp_say(&text, ", %s freed later", mp_counted(finding->why.freed, "block"));
    if (finding->missing) mp_say(&text, "; not %s: %s", mp_leak_confidence_name(MP_LEAK_CERTAIN), finding->missing);
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_PLAIN, "%.*s", (int)line.size, (const char *)line.data);
    mp_table_end_row(table);
    mp_buffer_free(&line);
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
    if (shown->verbose) put_reasons_row(table, columns, finding);
    if (finding->stack && (finding->held || shown->model->tracks.at[finding->track].layer == MP_LAYER_TORCH))
        mp_holders_site_rows(table, columns, shown->model, &shown->leaks->holders, finding->held, HOLDERS_SHOWN);
    put_sites_of_cause(table, columns, shown, finding);
}

static struct mp_rows rows_of(const struct table *table, const struct mp_leaks *leaks, const struct mp_leak_finding *at,
                              size_t count)
{
    return MP_ROWS(mp_finding_columns, at, count, .of = table, .model = table->model,
                   .without = leaks->holders.looked ? 0 : HELD, .apart_by = MP_APART_TRACKS_SHOWN, .below = put_below,
                   .stacks = MP_STACKS);
}

/* Writes why holders are missing, for the first site that lacks some. */
static void put_missing(struct mp_text *text, const struct mp_rows *rows)
{
    const struct mp_leak_finding *findings = rows->at;
    for (size_t i = rows->first; i < rows->count; i++)
        if (mp_holders_why_missing(text->out, findings[i].held)) {
            mp_say(text, "\n");
            return;
        }
}

/* Writes a row for each cause, or, in CSV, for each site. Returns the number of rows before the limit. */
static size_t put_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks, bool leak,
                        const struct mp_view *view)
{
    const struct table table = {model, leaks, view->verbose};
    MP_VEC(struct mp_leak_finding) causes = {0};
    for (size_t i = 0; i < leaks->findings.count; i++) {
        struct mp_leak_finding finding = leaks->findings.at[i];
        if (mp_leak_is_leak(&finding) != leak || (!finding.sum.sites && !mp_is_csv(text))) continue;
        if (!mp_is_csv(text)) {
            finding.bytes = finding.sum.bytes;
            finding.blocks = finding.sum.blocks;
            finding.bytes_per_step = finding.sum.bytes_per_step;
            finding.blocks_per_step = finding.sum.blocks_per_step;
        }
        mp_vec_add(&causes, finding);
    }
    size_t count = causes.count;
    struct mp_rows rows = rows_of(&table, leaks, causes.at, leak ? mp_shown(count, view->limit) : count);
    if (leak && view->full_stacks) rows.stacks = MP_FULL_STACKS;
    mp_rows_text(text, &rows);
    put_missing(text, &rows);
    mp_vec_free(&causes);
    return count;
}

void mp_findings_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view)
{
    size_t count = put_table(text, model, leaks, true, view);
    mp_say_more(text, count - mp_shown(count, view->limit), view->limit);
}

void mp_reported_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_view *view)
{
    if (leaks->leaks >= leaks->findings.count || mp_is_csv(text)) return;
    mp_heading(text, "No leak, but reported");
    mp_say(text, "\n");
    put_table(text, model, leaks, false, view);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_sites(struct mp_json *json, const struct mp_model *model, const struct mp_leaks *leaks,
                      const struct mp_sites *sites, const struct mp_view *view)
{
    struct mp_site_view shown = site_view(leaks, sites, view);
    mp_json_number(json, "bytes", sites->bytes);
    mp_json_number(json, "blocks", sites->blocks);
    mp_json_number(json, "site_count", sites->count);
    mp_sites_json(json, "sites", model, sites, &shown);
}

static void put_causes(struct mp_json *json, const struct mp_model *model, const struct mp_leaks *leaks)
{
    mp_json_array(json, "causes");
    mp_vec_each (const struct mp_leak_finding, finding, &leaks->findings) {
        const struct mp_holders_site *held = finding->held;
        const struct mp_holder *holder = held && held->count ? &leaks->holders.holders.at[held->first] : NULL;
        if (!finding->sum.sites) continue;
        mp_json_object(json, NULL);
        mp_json_number(json, "cause", finding->cause + 1);
        mp_json_bool(json, "leak", mp_leak_is_leak(finding));
        mp_json_number(json, "site_count", finding->sum.sites);
        mp_json_number(json, "bytes", finding->sum.bytes);
        mp_json_number(json, "blocks", finding->sum.blocks);
        mp_json_number(json, "bytes_per_step", (uint64_t)(finding->sum.bytes_per_step + 0.5));
        mp_json_text(json, "holder", holder ? holder->path : NULL);
        mp_json_text(json, "file", holder && holder->file ? mp_model_text(model, holder->file) : NULL);
        mp_json_known(json, "line", holder && holder->file ? holder->line : MP_BYTES_UNKNOWN);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_pinned_cache(struct mp_json *json, const struct mp_model *model)
{
    struct mp_pinned_cache cache;
    mp_pinned_cache_find(model, &cache);
    if (!cache.bytes) {
        mp_json_null(json, "pinned_cache");
        return;
    }
    mp_json_object(json, "pinned_cache");
    mp_json_number(json, "bytes", cache.bytes);
    mp_json_number(json, "blocks", cache.blocks);
    mp_json_number(json, "rounded_bytes", cache.rounded);
    mp_json_known(json, "unused_bytes", cache.unused);
    mp_json_end_object(json);
}

/* In bytes: reading values back leaves a few small blocks in the cache, which need no line. */
#define PINNED_LEAST (UINT64_C(1) << 20)

void mp_pinned_cache_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_pinned_cache cache;
    mp_pinned_cache_find(model, &cache);
    if (cache.bytes < PINNED_LEAST) return;
    mp_say(text, "  PyTorch's cache of pinned memory has %s in %s", mp_bytes(cache.bytes),
           mp_counted(cache.blocks, "block"));
    if (cache.unused != MP_BYTES_UNKNOWN && cache.unused)
        mp_say(text, "; no tensor used %s of it", mp_bytes(cache.unused));
    mp_say(text, ": it rounds requests up to powers of two, and keeps freed blocks\n");
    if (cache.rounded)
        mp_say(
            text,
            "  up to half of %s was not asked for: PYTORCH_CUDA_ALLOC_CONF=pinned_max_round_threshold_mb:1 stops that, "
            "from PyTorch 2.13 on\n",
            mp_bytes(cache.rounded));
    if (cache.unused != MP_BYTES_UNKNOWN && cache.unused)
        mp_say(text,
               "  make pinned buffers once and use them again; torch._C._host_emptyCache() gives unused ones back\n");
}

#define CENSUS_SHOWN 8

static void put_census(struct mp_json *json, const struct mp_model *model)
{
    static const char *const words[] = {"objects", "entries", "bytes"};
    struct mp_census census;
    mp_census_find(model, &census);
    if (!census.count) return;
    mp_json_array(json, "census");
    mp_vec_each (const struct mp_census_row, row, &census) {
        mp_json_object(json, NULL);
        mp_json_text(json, "name", row->name);
        mp_json_text(json, "what", words[row->what]);
        mp_json_number(json, "first", row->first);
        mp_json_number(json, "last", row->last);
        mp_json_number(json, "looks", row->looks);
        mp_json_real(json, "steps", row->steps);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_census_free(&census);
}

/* Python's own heap, if the process grows and blocks do not say why. */
static void put_census_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks)
{
    static const char *const words[] = {"objects of class `%s`", "entries of `%s`", "of arrays and bytes in `%s`"};
    bool unexplained = leaks->unsure_growth.bytes || (leaks->verdict == MP_VERDICT_UNKNOWN && model->host_bytes);
    mp_vec_each (const struct mp_leak_finding, finding, &leaks->findings) {
        unexplained |= finding->class == MP_LEAK_HIDDEN || finding->class == MP_LEAK_NATIVE;
    }
    struct mp_census census = {0};
    if (unexplained && !mp_is_csv(text)) mp_census_find(model, &census);
    if (census.count) {
        mp_heading(text, "PYTHON'S OWN HEAP");
        mp_say(text, "  by the looks for holders\n");
    }
    for (size_t i = 0; i < census.count && i < CENSUS_SHOWN; i++) {
        const struct mp_census_row *row = &census.at[i];
        bool bytes = row->what == MP_CENSUS_BYTES;
        if (row->what == MP_CENSUS_OBJECTS && census.at[0].what == MP_CENSUS_BYTES) continue; /* these have the bytes */
        mp_say(text, "  %s ", bytes ? mp_bytes(row->last) : mp_count(row->last));
        mp_say(text, words[row->what], row->name);
        if (row->last > row->first)
            mp_say(text, ", +%s", bytes ? mp_bytes(row->last - row->first) : mp_count(row->last - row->first));
        if (row->last > row->first && row->steps > 0) mp_say(text, " in %.0f steps", row->steps);
        mp_say(text, "\n");
    }
    mp_census_free(&census);
}

static void put_limits(struct mp_json *json)
{
    size_t count;
    const struct mp_leak_limit *limits = mp_leak_limits(&count);
    mp_json_array(json, "limits");
    for (size_t i = 0; i < count; i++) {
        mp_json_object(json, NULL);
        mp_json_text(json, "name", limits[i].name);
        mp_json_real(json, "value", limits[i].value);
        mp_json_text(json, "unit", limits[i].unit);
        mp_json_text(json, "meaning", limits[i].meaning);
        mp_json_text(json, "source", limits[i].source);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_limits_text(struct mp_text *text)
{
    size_t count;
    const struct mp_leak_limit *limits = mp_leak_limits(&count);
    mp_heading(text, "Constants");
    mp_say(text, "\n");
    for (size_t i = 0; i < count; i++)
        mp_say(text, "  %-15s %8g %s: %s (%s)\n", limits[i].name, limits[i].value, limits[i].unit, limits[i].meaning,
               limits[i].source);
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
    const struct table table = {model, leaks, view->verbose};
    const struct mp_rows findings =
        rows_of(&table, leaks, leaks->findings.at, mp_shown(leaks->findings.count, view->limit));
    mp_rows_json(json, "findings", &findings);
    put_causes(json, model, leaks);
    mp_json_object(json, "outstanding");
    put_sites(json, model, leaks, &leaks->outstanding, view);
    mp_json_end_object(json);
    put_pinned_cache(json, model);
    put_census(json, model);
    mp_json_object(json, "held");
    mp_json_number(json, "at_ns", leaks->held.ns);
    put_sites(json, model, leaks, &leaks->held.sites, view);
    mp_json_end_object(json);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", leaks->suppressed_bytes);
    mp_json_number(json, "findings", leaks->suppressed_findings);
    mp_json_end_object(json);
    if (view->verbose) put_limits(json);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void put_amount(struct mp_text *text, const struct mp_sites *sites, const char *label,
                       const struct mp_view *view)
{
    mp_say(text, "`%s` %s in %s, %s", mp_bytes(sites->bytes), label, mp_counted(sites->blocks, "block"),
           mp_counted(sites->count, view->grouping.by == MP_GROUP_STACK ? "site" : "group"));
}

static void put_outstanding(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    put_amount(text, &leaks->outstanding,
               !view->window.whole ? "outstanding at the end of the window"
               : leaks->running    ? "live now"
                                   : "outstanding at the end",
               view);
    if (view->window.whole && !leaks->running && leaks->leaks && !leaks->outstanding.blocks)
        mp_say(text, ": the program freed the leaked blocks as it ended");
}

static void put_held(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    char label[128];
    put_outstanding(text, leaks, view);
    if (leaks->held.moment == view->window.last) return;
    snprintf(label, sizeof label, "live at %s, the moment with blocks from the most %s,", mp_time(leaks->held.ns),
             leaks->step_count ? "steps" : "time slices");
    mp_say(text, "\n");
    put_amount(text, &leaks->held.sites, label, view);
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
    bool small = leaks->leaks;
    mp_say(text, "`%s`: ", mp_verdict_name(leaks->verdict));
    if (leaks->verdict == MP_VERDICT_UNKNOWN) {
        mp_say(text, "%s\n", leaks->reason);
        return;
    }
    for (size_t i = 0; i < leaks->leaks; i++) {
        rate += leaks->findings.at[i].bytes_per_step;
        small = small && is_small(&leaks->findings.at[i]);
    }
    if (small) mp_say(text, "small (%s in 1 000 steps), ", mp_bytes((uint64_t)(rate * 1000)));
    if (leaks->leaks) mp_say(text, "%u site%s growing", leaks->leaks, leaks->leaks == 1 ? " keeps" : "s keep");
    if (leaks->leaks > leaks->causes) mp_say(text, " for %s", mp_counted(leaks->causes, "cause"));
    if (leaks->leaks) mp_say(text, ", ");
    if (rate >= 0.5) mp_say(text, "+%s a step in all; ", mp_bytes((uint64_t)(rate + 0.5))); /* handles have no bytes */
    mp_say(text, "%s steps (%s), %s%s\n", mp_count(leaks->step_count), leaks->step_source,
           mp_counted(leaks->places, "site"), leaks->leaks ? " checked" : ", no site keeps growing");
    if (leaks->caches)
        mp_say(text, "%zu more site%s a thing anew, larger, in round after round, as a cache does within one request\n",
               leaks->caches, leaks->caches == 1 ? " makes" : "s make");
}

/* Writes the advice for each class and each kind of holder among the leaks shown, each once. */
static void put_advice(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks)
{
    static const char beside_host[] =
        "it is not in the C allocator's sampled blocks: Python's small objects (snapshot --holders counts them and the "
        "entries of containers), or the driver";
    static const char in_shared[] =
        "shared memory of the program: multiprocessing.shared_memory, tensors that processes share, files in /dev/shm; "
        "close and unlink what is not used any more";
    struct mp_holders_advised held = {0};
    static const char in_files[] = "files that the program maps to write them: the kernel may write their pages to the "
                                   "disk, but mappings and files "
                                   "grow; unmap and cut what is not used any more";
    bool advised[MP_LEAK_CLASSES + 2] = {false};
    for (size_t i = 0; i < leaks->findings.count; i++) {
        enum mp_leak_class class = leaks->findings.at[i].class;
        bool shared = leaks->findings.at[i].shared, has_host = class == MP_LEAK_HIDDEN && model->host_bytes;
        bool mapped = leaks->findings.at[i].mapped;
        bool *said = &advised[mapped ? MP_LEAK_CLASSES + 1 : shared ? MP_LEAK_CLASSES : class];
        if (!*said)
            mp_say(text, "%s: %s\n", mp_leak_class_name(class),
                   mapped     ? in_files
                   : shared   ? in_shared
                   : has_host ? beside_host
                              : mp_leak_advice(class));
        *said = true;
    }
    for (size_t i = 0; i < leaks->leaks; i++)
        mp_holders_site_advice(text, &leaks->holders, leaks->findings.at[i].held, &held);
}

/* Writes the advice about the holders in a table of sites. If it shows none, says how to see them. */
static void put_holders_of_sites(struct mp_text *text, const struct mp_sites *sites, const struct mp_site_view *shown,
                                 const char *path)
{
    const struct mp_holders *holders = shown->holders;
    struct mp_holders_advised advised = {0};
    uint64_t bytes = 0, blocks = 0, held = 0;
    if (!holders) return;
    for (size_t i = 0; i < mp_shown(sites->count, shown->limit); i++) {
        const struct mp_holders_site *site = mp_site_held(shown, &sites->at[i]);
        held += site != NULL;
        mp_holders_site_advice(text, holders, site, &advised);
    }
    for (size_t i = 0; i < holders->sites.count; i++) {
        bytes += holders->sites.at[i].bytes;
        blocks += holders->sites.at[i].blocks;
    }
    if (!held && blocks && !mp_is_csv(text))
        mp_say(text, "`%s` in %s lived when the program last looked for holders; see memprof holders %s\n",
               mp_bytes(bytes), mp_counted(blocks, "block"), path);
}

static void put_sites_table(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                            const struct mp_sites *sites, const struct mp_view *view)
{
    struct mp_site_view shown = site_view(leaks, sites, view);
    if (mp_sites_text(text, model, sites, &shown)) put_legend(text, leaks);
    put_holders_of_sites(text, sites, &shown, view->path);
    mp_say_more(text, sites->count - mp_shown(sites->count, view->limit), view->limit);
}

void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    static const char *const orders[] = {[MP_SORT_BYTES] = "most bytes first",
                                         [MP_SORT_BLOCKS] = "most blocks first",
                                         [MP_SORT_GROWTH] = "blocks from the most steps first"};
    bool unsure = leaks->verdict == MP_VERDICT_UNKNOWN, listed = view->outstanding || unsure;
    const struct mp_sites *sites = unsure && !view->outstanding ? &leaks->held.sites : &leaks->outstanding;
    put_verdict(text, leaks);
    if (mp_is_csv(text) ? !view->outstanding : leaks->leaks > 0) {
        mp_say(text, "\n");
        mp_findings_text(text, model, leaks, view);
    }
    mp_reported_text(text, model, leaks, view);
    put_census_text(text, model, leaks);
    if (leaks->findings.count) {
        mp_say(text, "\n");
        put_advice(text, model, leaks);
        mp_say(text, "\n");
    }
    if (leaks->suppressed_findings)
        mp_say(text, "suppressed: %llu, %s\n", (unsigned long long)leaks->suppressed_findings,
               mp_bytes(leaks->suppressed_bytes));
    (sites == &leaks->held.sites ? put_held : put_outstanding)(text, leaks, view);
    if (listed && sites->count) mp_say(text, "; %s", orders[view->grouping.sort]);
    mp_say(text, "%s\n", !listed && leaks->outstanding.count ? "; --outstanding lists them" : "");
    if (!mp_is_csv(text)) mp_pinned_cache_text(text, model);
    if (listed) put_sites_table(text, model, leaks, sites, view);
    if (view->verbose && !mp_is_csv(text)) put_limits_text(text);
    mp_coverage_end(text, model);
}
