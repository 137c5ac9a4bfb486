#include <stdio.h>

#include "base/units.h"
#include "output/reports.h"

static struct mp_site_view site_view(const struct mp_sites *sites, const struct mp_view *view)
{
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .grouped = view->grouping.by != MP_GROUP_STACK,
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

void mp_leaks_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.leaks/1");
    mp_json_text(json, "verdict", mp_verdict_name(leaks->verdict));
    mp_json_object(json, "steps");
    mp_json_number(json, "count", leaks->step_count);
    mp_json_text(json, "source", leaks->step_source);
    mp_json_end_object(json);
    mp_json_array(json, "findings");
    mp_json_end_array(json);
    mp_json_object(json, "outstanding");
    put_sites(json, model, &leaks->outstanding, view);
    mp_json_end_object(json);
    mp_json_object(json, "held");
    mp_json_number(json, "at_ns", leaks->held_ns);
    put_sites(json, model, &leaks->held, view);
    mp_json_end_object(json);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", 0);
    mp_json_number(json, "findings", 0);
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

static void put_held(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
{
    char moment[MP_UNIT_TEXT], what[128];
    bool at_end = leaks->held_moment == view->window.last;
    const char *end = view->window.whole ? "the end" : "the end of the window";
    snprintf(what, sizeof what, "outstanding at %s", end);
    put_amount(text, &leaks->outstanding, what, view->grouping.by != MP_GROUP_STACK);
    if (at_end) return;
    mp_text_put(text, MP_PLAIN, "\n");
    snprintf(what, sizeof what, "held at %s, when blocks of most ages were live,",
             mp_format_duration(moment, leaks->held_ns));
    put_amount(text, &leaks->held, what, view->grouping.by != MP_GROUP_STACK);
}

static void put_legend(struct mp_text *text, const struct mp_leaks *leaks, const struct mp_view *view)
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
    if (view->limit && view->limit < leaks->held.count)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", leaks->held.count - view->limit, view->limit * 2);
}

void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    static const char *const orders[] = {[MP_SORT_BYTES] = "most bytes first",
                                         [MP_SORT_BLOCKS] = "most blocks first",
                                         [MP_SORT_GROWTH] = "what keeps growing first"};
    struct mp_site_view sites = site_view(&leaks->held, view);
    mp_text_put(text, MP_BOLD, "unknown");
    mp_text_put(text, MP_PLAIN, ": this version shows what is held and does not judge it\n");
    put_held(text, leaks, view);
    mp_text_put(text, MP_PLAIN, "; %s\n", orders[view->grouping.sort]);
    if (leaks->held.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_sites_text(text, model, &leaks->held, &sites);
        put_legend(text, leaks, view);
    }
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
