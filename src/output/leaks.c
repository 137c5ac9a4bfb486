#include "base/units.h"
#include "output/reports.h"

static struct mp_site_view site_view(const struct mp_leaks *leaks, const struct mp_view *view)
{
    return (struct mp_site_view){.limit = view->limit,
                                 .full_stacks = view->full_stacks,
                                 .grouped = view->grouping.by != MP_GROUP_STACK,
                                 .births = true,
                                 .track = true,
                                 .whole = leaks->outstanding.bytes};
}

void mp_leaks_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    struct mp_site_view sites = site_view(leaks, view);
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
    mp_json_number(json, "bytes", leaks->outstanding.bytes);
    mp_json_number(json, "blocks", leaks->outstanding.blocks);
    mp_json_number(json, "site_count", leaks->outstanding.count);
    mp_sites_json(json, "sites", model, &leaks->outstanding, &sites);
    mp_json_end_object(json);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", 0);
    mp_json_number(json, "findings", 0);
    mp_json_end_object(json);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

void mp_leaks_text(struct mp_text *text, const struct mp_model *model, const struct mp_leaks *leaks,
                   const struct mp_view *view)
{
    char number[MP_UNIT_TEXT];
    struct mp_site_view sites = site_view(leaks, view);
    const struct mp_sites *outstanding = &leaks->outstanding;
    const char *order = view->grouping.sort == MP_SORT_GROWTH   ? "what keeps growing first"
                        : view->grouping.sort == MP_SORT_BLOCKS ? "most blocks first"
                                                                : "most bytes first";
    mp_text_put(text, MP_BOLD, "unknown");
    mp_text_put(text, MP_PLAIN, ": this version lists what is outstanding and does not judge it\n");
    mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(number, outstanding->bytes));
    mp_text_put(text, MP_PLAIN, " outstanding at %s", view->window.whole ? "the end" : "the end of the window");
    mp_text_put(text, MP_PLAIN, " in ");
    mp_text_count(text, outstanding->blocks, "block");
    mp_text_put(text, MP_PLAIN, ", ");
    mp_text_count(text, outstanding->count, sites.grouped ? "group" : "site");
    mp_text_put(text, MP_PLAIN, "; %s\n", order);
    if (outstanding->count) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_sites_text(text, model, outstanding, &sites);
        if (leaks->step_count)
            mp_text_put(text, MP_DIM, "\nborn in: distinct steps, of %s, in which these blocks were allocated\n",
                        mp_format_count(number, leaks->step_count));
        else
            mp_text_put(text, MP_DIM,
                        "\nborn in: distinct parts, of 64 equal ones, of the recording in which these blocks were "
                        "allocated (it has no steps)\n");
        if (view->limit && view->limit < outstanding->count)
            mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", outstanding->count - view->limit,
                        view->limit * 2);
    }
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
