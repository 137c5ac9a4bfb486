#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "output/report/advise.h"
#include "output/report/frame_choice.h"
#include "output/report/reports.h"
#include "output/report/size_parts.h"

#define SITES_OF_TEXT 3 /* of the sites that grow */

const char *mp_size_point_text(char *to, bool two, struct mp_size_point at)
{
    if (two)
        snprintf(to, MP_SIZE_POINT_TEXT, "%llux%llu", (unsigned long long)at.first, (unsigned long long)at.second);
    else
        snprintf(to, MP_SIZE_POINT_TEXT, "%llu", (unsigned long long)at.first);
    return to;
}

static const struct mp_size_largest *last_largest(const struct mp_size_answer *answer)
{
    return &answer->largest.at[answer->largest.count - 1];
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* Bits of columns. */
enum { RESERVED = 1, DEVICE = 2, BOUNDS = 4, SECOND = 8 };

static void put_point(struct mp_value *value, const struct mp_size_view *view, struct mp_size_point at)
{
    char point[MP_SIZE_POINT_TEXT];
    mp_buffer_append_text(&value->made, mp_size_point_text(point, view->two, at));
}

static void get_batch(struct mp_value *value, const void *of, const void *row)
{
    put_point(value, of, ((const struct mp_size_need *)row)->at);
}

uint64_t mp_size_need_bytes(const struct mp_size_need *need)
{
    return need->device != MP_BYTES_UNKNOWN     ? need->device
           : need->reserved != MP_BYTES_UNKNOWN ? need->reserved
                                                : need->allocated;
}

static void get_part(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_size_need_bytes(row);
    value->whole = ((const struct mp_size_view *)of)->answer->limit;
}

static void get_fits(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_size_need *need = row;
    (void)of;
    value->text = mp_size_fits_name(need->fits);
    if (need->fits == MP_FITS_YES) value->style = MP_BOLD;
}

#define NEED(member) MP_MEMBER(struct mp_size_need, member)
static const struct mp_column need_columns[] = {
    {NULL, "batch", MP_COUNT, NEED(at.first)},
    {NULL, "second", MP_COUNT, NEED(at.second), .only = SECOND},
    {"batch", NULL, MP_COUNT, .get = get_batch, .style = MP_BOLD},
    {"allocated", "allocated_bytes", MP_BYTES, NEED(allocated)},
    {"reserved", "reserved_bytes", MP_BYTES, NEED(reserved), .only = RESERVED},
    {"device", "device_bytes", MP_BYTES, NEED(device), .only = DEVICE},
    {"at least", "low_bytes", MP_BYTES, NEED(low), .only = BOUNDS},
    {"at most", "high_bytes", MP_BYTES, NEED(high), .only = BOUNDS},
    {"of the limit", NULL, MP_SHARE, .get = get_part, .not_in_text = true},
    {"fits", "fits", MP_NAME, .get = get_fits},
    {NULL},
};

bool mp_size_has_bounds(const struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].low != answer->needs.at[i].high) return true;
    return false;
}

struct mp_rows mp_size_needs(const struct mp_size_view *view)
{
    unsigned lacks = RESERVED | DEVICE | (mp_size_has_bounds(view->answer) ? 0 : BOUNDS);
    for (size_t i = 0; i < view->answer->needs.count; i++) {
        if (view->answer->needs.at[i].reserved != MP_BYTES_UNKNOWN) lacks &= ~RESERVED;
        if (view->answer->needs.at[i].device != MP_BYTES_UNKNOWN) lacks &= ~DEVICE;
    }
    return MP_ROWS(need_columns, view->answer->needs.at, view->answer->needs.count, .of = view, .without = lacks,
                   .json_without = view->two ? 0 : SECOND);
}

static void get_probe(struct mp_value *value, const void *of, const void *row)
{
    put_point(value, of, ((const struct mp_size_probed *)row)->at);
}

static void get_steps(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_size_probed *probed = row;
    (void)of;
    mp_buffer_printf(&value->made, "%u (%s)", probed->steps, probed->step_source);
}

#define PROBED(member) MP_MEMBER(struct mp_size_probed, member)
static const struct mp_column probe_columns[] = {
    {NULL, "batch", MP_COUNT, PROBED(at.first)},
    {NULL, "second", MP_COUNT, PROBED(at.second), .only = SECOND},
    {NULL, "path", MP_NAME, PROBED(name)},
    {NULL, "used", MP_FLAG, PROBED(used)},
    {"probe", NULL, MP_COUNT, .get = get_probe},
    {"allocated", "allocated_bytes", MP_BYTES, PROBED(allocated)},
    {"reserved", "reserved_bytes", MP_BYTES, PROBED(reserved), .only = RESERVED},
    {NULL, "device_bytes", MP_BYTES, PROBED(device)},
    {NULL, "steps", MP_COUNT, PROBED(steps)},
    {NULL, "step_source", MP_NAME, PROBED(step_source)},
    {"a step", "step_ns", MP_DURATION, PROBED(step_ns)},
    {"steps", NULL, MP_NAME, .get = get_steps},
    {NULL},
};

struct mp_rows mp_size_probes(const struct mp_size_view *view)
{
    bool reserves = view->answer->probes.at[0].reserved != MP_BYTES_UNKNOWN;
    return MP_ROWS(probe_columns, view->answer->probes.at, view->answer->probes.count, .of = view,
                   .without = reserves ? 0 : RESERVED, .json_without = view->two ? 0 : SECOND);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_largest(struct mp_json *json, const struct mp_size_answer *answer)
{
    mp_json_array(json, "largest");
    for (size_t i = 0; i < answer->largest.count; i++) {
        const struct mp_size_largest *largest = &answer->largest.at[i];
        mp_json_object(json, NULL);
        mp_json_number(json, "second", largest->second);
        mp_json_known(json, "max_batch", largest->endless ? UINT64_MAX : largest->first);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_sites(struct mp_json *json, const struct mp_size_answer *answer, const struct mp_view *view)
{
    uint64_t whole = 0;
    for (size_t i = 0; i < answer->sites.count; i++)
        whole += answer->sites.at[i].bytes;
    mp_json_array(json, "binding_sites");
    for (size_t i = 0; i < answer->sites.count && (!view->limit || i < view->limit); i++) {
        const struct mp_size_site *site = &answer->sites.at[i];
        mp_json_object(json, NULL);
        mp_json_number(json, "bytes", site->bytes);
        mp_json_number(json, "blocks", site->blocks);
        mp_json_share(json, "share", site->bytes, whole);
        mp_json_signed(json, "more_per_batch_bytes", llround(site->per_first));
        mp_json_bool(json, "opaque", site->opaque);
        mp_stack_json(json, answer->model, site->stack);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

void mp_size_json(struct mp_json *json, const struct mp_size_answer *answer, bool two, const struct mp_advise *advise,
                  const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    const struct mp_size_view shown = {answer, two};
    const struct mp_rows probes = mp_size_probes(&shown), needs = mp_size_needs(&shown);
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.size/1");
    mp_json_text(json, "track", mp_track_id(answer->model, answer->track, id));
    mp_json_number(json, "capacity_bytes", answer->capacity);
    mp_json_number(json, "margin_bytes", answer->margin);
    mp_json_known(json, "max_batch", last_largest(answer)->endless ? UINT64_MAX : last_largest(answer)->first);
    mp_json_text(json, "limit", answer->binds);
    mp_rows_json(json, "probes", &probes);
    mp_rows_json(json, "predictions", &needs);
    if (two) put_largest(json, answer);
    mp_json_known(json, "expandable_max_batch",
                  last_largest(answer)->expandable ? last_largest(answer)->expandable : UINT64_MAX);
    mp_json_known(json, "sure_max_batch", last_largest(answer)->endless ? UINT64_MAX : last_largest(answer)->sure);
    mp_json_known(json, "outside_bytes", answer->outside_most);
    put_sites(json, answer, view);
    mp_json_number(json, "opaque_bytes", answer->opaque);
    mp_json_array(json, "advice");
    if (advise) mp_advise_best_json(json, answer->model, advise, MP_SIZE_BEST_CHANGES);
    mp_json_end_array(json);
    mp_json_array(json, "notes");
    for (size_t i = 0; i < answer->notes.count; i++)
        mp_json_text(json, NULL, answer->notes.at[i]);
    mp_json_end_array(json);
    mp_coverage_json(json, answer->model);
    mp_json_end_object(json);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

void mp_size_answer_text(struct mp_text *text, const struct mp_size_answer *answer, bool two)
{
    char capacity[MP_UNIT_TEXT], margin[MP_UNIT_TEXT];
    mp_format_bytes(capacity, answer->capacity);
    mp_format_bytes(margin, answer->margin);
    for (size_t i = 0; i < answer->largest.count; i++) {
        const struct mp_size_largest *largest = &answer->largest.at[i];
        mp_text_put(text, MP_PLAIN, "Largest batch that fits %s", capacity);
        if (answer->margin) mp_text_put(text, MP_PLAIN, " with %s kept free", margin);
        if (two) mp_text_put(text, MP_PLAIN, ", at %llu", (unsigned long long)largest->second);
        if (largest->endless)
            mp_text_put(text, MP_BOLD, ": any; what depends on it never is the peak\n");
        else if (largest->first)
            mp_text_put(text, MP_BOLD, ": %llu\n", (unsigned long long)largest->first);
        else
            mp_text_put(text, MP_BOLD, ": none, not even 1\n");
        if (!largest->endless && largest->sure < largest->first)
            mp_text_put(text, MP_PLAIN,
                        "%llu does with room for scratch memory that operations may take at larger sizes and took in "
                        "no probe\n",
                        (unsigned long long)largest->sure);
    }
}

size_t mp_size_growing(const struct mp_size_answer *answer, const struct mp_size_site **most, size_t room)
{
    size_t count = 0;
    while (count < room) {
        const struct mp_size_site *best = NULL;
        for (size_t i = 0; i < answer->sites.count; i++) {
            const struct mp_size_site *site = &answer->sites.at[i];
            bool taken = false;
            for (size_t k = 0; k < count; k++)
                taken |= most[k] == site;
            if (!taken && site->per_first >= 1 && (!best || site->per_first > best->per_first)) best = site;
        }
        if (!best) break;
        most[count++] = best;
    }
    return count;
}

static void headline_of(struct mp_buffer *out, const struct mp_model *model, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    mp_stack_resolve(model, stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        mp_headline_text(out, line);
    else
        mp_buffer_append_text(out, "(no stack)");
    mp_stack_lines_free(&lines);
}

static void put_growth(struct mp_text *text, const struct mp_size_answer *answer)
{
    char number[MP_UNIT_TEXT];
    const struct mp_size_site *most[SITES_OF_TEXT];
    uint32_t stacks[SITES_OF_TEXT] = {0};
    size_t count = mp_size_growing(answer, most, SITES_OF_TEXT);
    for (size_t i = 0; i < count; i++)
        stacks[i] = most[i]->stack;
    struct mp_site_apart *apart = mp_stacks_apart(answer->model, stacks, NULL, count, MP_APART_HEADLINES);
    for (size_t i = 0; i < count; i++) {
        struct mp_buffer name = {0}, difference = {0}, last = {0};
        const struct mp_site site = {.stack = most[i]->stack};
        headline_of(&name, answer->model, most[i]->stack);
        if (apart[i].twin != MP_NONE) mp_difference_text(&difference, answer->model, most[i]->stack, apart[i].twin);
        if (difference.size) mp_buffer_printf(&name, " in %.*s", (int)difference.size, (const char *)difference.data);
        mp_site_apart_text(&last, answer->model, &site, &apart[i]);
        if (last.size) mp_buffer_printf(&name, " (%.*s)", (int)last.size - 2, (const char *)last.data + 2);
        mp_text_put(text, MP_PLAIN, "%s%.*s %s a sample", i ? ", " : "Most of the growth: ", (int)name.size,
                    (const char *)name.data, mp_format_bytes(number, (uint64_t)llround(most[i]->per_first)));
        mp_buffer_free(&name);
        mp_buffer_free(&difference);
        mp_buffer_free(&last);
    }
    free(apart);
    mp_text_put(text, MP_PLAIN, "\n");
}

static void put_advice(struct mp_text *text, const struct mp_size_answer *answer, bool two)
{
    for (size_t i = 0; i < answer->largest.count; i++) {
        const struct mp_size_largest *largest = &answer->largest.at[i];
        if (!largest->expandable) continue;
        mp_text_put(text, MP_PLAIN, "With expandable_segments:True %llu would fit",
                    (unsigned long long)largest->expandable);
        if (two) mp_text_put(text, MP_PLAIN, " at %llu", (unsigned long long)largest->second);
        mp_text_put(text, MP_PLAIN, " (replayed)\n");
    }
}

static void put_outside(struct mp_text *text, const struct mp_size_answer *answer)
{
    char least[MP_UNIT_TEXT], most[MP_UNIT_TEXT];
    if (answer->outside_most == MP_BYTES_UNKNOWN) return;
    mp_text_put(text, MP_PLAIN,
                "Beside what PyTorch reserves the device needs %s to %s (context, libraries), measured "
                "in the probes\n",
                mp_format_bytes(least, answer->outside_least), mp_format_bytes(most, answer->outside_most));
}

static void put_method(struct mp_text *text, const struct mp_size_answer *answer)
{
    char number[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    double width = 0;
    for (size_t i = 0; i < answer->needs.count; i++) {
        const struct mp_size_need *need = &answer->needs.at[i];
        if (need->high) width = fmax(width, 50.0 * (double)(need->high - need->low) / (double)need->high);
    }
    if (width > 0)
        mp_text_put(text, MP_PLAIN, "± %.2g %%, if nothing changes its way beyond the probes", width);
    else if (answer->checked)
        mp_text_put(text, MP_PLAIN, "exact, if nothing changes its way beyond the probes");
    else
        mp_text_put(text, MP_PLAIN, "as the two probes have it, with no third to check it");
    mp_text_put(text, MP_PLAIN, "; %s memory of ", answer->binds);
    mp_text_clean(text->out, mp_track_id(answer->model, answer->track, id));
    mp_text_put(text, MP_PLAIN, " is held against the limit, %s\n", mp_format_bytes(number, answer->limit));
    if (answer->opaque) {
        mp_text_put(text, MP_PLAIN, "%s of it opaque, at ", mp_format_bytes(number, answer->opaque));
        mp_text_count(text, answer->opaque_sites, "place");
        mp_text_put(text, MP_PLAIN, " whose sizes follow no rule; bounded by what the probes saw\n");
    }
}

static void put_changes(struct mp_text *text, const struct mp_size_answer *answer, bool two,
                        const struct mp_advise *advise)
{
    char point[MP_SIZE_POINT_TEXT];
    const struct mp_size_probed *last = &answer->probes.at[answer->probes.count - 1];
    mp_text_put(text, MP_PLAIN, "\nWhat would lower the peak of the probe at %s%s\n",
                mp_size_point_text(point, two, last->at), advise->changes.count ? ":" : ": nothing that was tried");
    mp_advise_best_text(text, answer->model, advise, MP_SIZE_BEST_CHANGES, 1);
}

void mp_size_grounds_text(struct mp_text *text, const struct mp_size_answer *answer, bool two)
{
    put_advice(text, answer, two);
    put_outside(text, answer);
    put_method(text, answer);
}

void mp_size_notes_text(struct mp_text *text, const struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->notes.count; i++) {
        mp_text_put(text, MP_DIM, "note: ");
        mp_text_clean(text->out, answer->notes.at[i]);
        mp_text_put(text, MP_PLAIN, "\n");
    }
}

void mp_size_text(struct mp_text *text, const struct mp_size_answer *answer, bool two, const struct mp_advise *advise)
{
    const struct mp_size_view shown = {answer, two};
    const struct mp_rows probes = mp_size_probes(&shown), needs = mp_size_needs(&shown);
    mp_size_answer_text(text, answer, two);
    mp_text_put(text, MP_PLAIN, "\n");
    mp_rows_text(text, &needs);
    mp_text_put(text, MP_PLAIN, "\n");
    put_growth(text, answer);
    mp_size_grounds_text(text, answer, two);
    mp_rows_text(text, &probes);
    if (advise) put_changes(text, answer, two, advise);
    mp_size_notes_text(text, answer);
}
