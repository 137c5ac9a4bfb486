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

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_point(struct mp_json *json, bool two, struct mp_size_point at)
{
    mp_json_number(json, "batch", at.first);
    if (two) mp_json_number(json, "second", at.second);
}

static void put_probes(struct mp_json *json, const struct mp_size_answer *answer, bool two)
{
    mp_json_array(json, "probes");
    for (size_t i = 0; i < answer->probes.count; i++) {
        const struct mp_size_probed *probed = &answer->probes.at[i];
        mp_json_object(json, NULL);
        put_point(json, two, probed->at);
        mp_json_text(json, "path", probed->name);
        mp_json_bool(json, "used", probed->used);
        mp_json_number(json, "allocated_bytes", probed->allocated);
        mp_json_known(json, "reserved_bytes", probed->reserved);
        mp_json_known(json, "device_bytes", probed->device);
        mp_json_number(json, "steps", probed->steps);
        mp_json_text(json, "step_source", probed->step_source);
        mp_json_known(json, "step_ns", probed->step_ns);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_predictions(struct mp_json *json, const struct mp_size_answer *answer, bool two)
{
    mp_json_array(json, "predictions");
    for (size_t i = 0; i < answer->needs.count; i++) {
        const struct mp_size_need *need = &answer->needs.at[i];
        mp_json_object(json, NULL);
        put_point(json, two, need->at);
        mp_json_number(json, "allocated_bytes", need->allocated);
        mp_json_known(json, "reserved_bytes", need->reserved);
        mp_json_known(json, "device_bytes", need->device);
        mp_json_number(json, "low_bytes", need->low);
        mp_json_number(json, "high_bytes", need->high);
        mp_json_text(json, "fits", mp_size_fits_name(need->fits));
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

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
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.size/1");
    mp_json_text(json, "track", mp_track_id(answer->model, answer->track, id));
    mp_json_number(json, "capacity_bytes", answer->capacity);
    mp_json_number(json, "margin_bytes", answer->margin);
    mp_json_known(json, "max_batch", last_largest(answer)->endless ? UINT64_MAX : last_largest(answer)->first);
    mp_json_text(json, "limit", answer->binds);
    put_probes(json, answer, two);
    put_predictions(json, answer, two);
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

static void put_bytes(struct mp_table *table, uint64_t bytes)
{
    char number[MP_UNIT_TEXT];
    mp_table_cell(table, MP_PLAIN, "%s", bytes == MP_BYTES_UNKNOWN ? "-" : mp_format_bytes(number, bytes));
}

struct mp_size_columns mp_size_columns(const struct mp_size_answer *answer)
{
    struct mp_size_columns columns = {0};
    for (size_t i = 0; i < answer->needs.count; i++) {
        const struct mp_size_need *need = &answer->needs.at[i];
        columns.reserved = columns.reserved || need->reserved != MP_BYTES_UNKNOWN;
        columns.device = columns.device || need->device != MP_BYTES_UNKNOWN;
        columns.bounds = columns.bounds || need->low != need->high;
    }
    return columns;
}

static void put_need(struct mp_table *table, const struct mp_size_need *need, const struct mp_size_columns *columns,
                     bool two)
{
    char point[MP_SIZE_POINT_TEXT];
    mp_table_cell(table, MP_BOLD, "%s", mp_size_point_text(point, two, need->at));
    put_bytes(table, need->allocated);
    if (columns->reserved) put_bytes(table, need->reserved);
    if (columns->device) put_bytes(table, need->device);
    if (columns->bounds) put_bytes(table, need->low);
    if (columns->bounds) put_bytes(table, need->high);
    mp_table_cell(table, need->fits == MP_FITS_YES ? MP_BOLD : MP_PLAIN, "%s", mp_size_fits_name(need->fits));
    mp_table_end_row(table);
}

static void put_needs(struct mp_text *text, const struct mp_size_answer *answer, bool two)
{
    struct mp_size_columns columns = mp_size_columns(answer);
    struct mp_table table;
    char letters[8] = "";
    for (int i = 0; i < 2 + columns.reserved + columns.device + 2 * columns.bounds; i++)
        strcat(letters, "r");
    mp_table_start(&table, strcat(letters, "l"));
    mp_table_cell(&table, MP_DIM, "batch");
    mp_table_cell(&table, MP_DIM, "allocated");
    if (columns.reserved) mp_table_cell(&table, MP_DIM, "reserved");
    if (columns.device) mp_table_cell(&table, MP_DIM, "device");
    if (columns.bounds) mp_table_cell(&table, MP_DIM, "at least");
    if (columns.bounds) mp_table_cell(&table, MP_DIM, "at most");
    mp_table_cell(&table, MP_DIM, "fits");
    mp_table_end_row(&table);
    for (size_t i = 0; i < answer->needs.count; i++)
        put_need(&table, &answer->needs.at[i], &columns, two);
    mp_table_finish(&table, text);
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
    const struct mp_stack_line *line = mp_stack_resolve(model, stack, &lines) ? mp_stack_headline(&lines) : NULL;
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

static void put_probed(struct mp_text *text, const struct mp_size_answer *answer, bool two)
{
    char number[MP_UNIT_TEXT], point[MP_SIZE_POINT_TEXT];
    struct mp_table table;
    bool reserves = answer->probes.at[0].reserved != MP_BYTES_UNKNOWN;
    mp_table_start(&table, reserves ? "rrrrl" : "rrrl");
    mp_table_cell(&table, MP_DIM, "probe");
    mp_table_cell(&table, MP_DIM, "allocated");
    if (reserves) mp_table_cell(&table, MP_DIM, "reserved");
    mp_table_cell(&table, MP_DIM, "a step");
    mp_table_cell(&table, MP_DIM, "steps");
    mp_table_end_row(&table);
    for (size_t i = 0; i < answer->probes.count; i++) {
        const struct mp_size_probed *probed = &answer->probes.at[i];
        mp_table_cell(&table, MP_PLAIN, "%s", mp_size_point_text(point, two, probed->at));
        put_bytes(&table, probed->allocated);
        if (reserves) put_bytes(&table, probed->reserved);
        mp_table_cell(&table, MP_PLAIN, "%s", probed->steps ? mp_format_duration(number, probed->step_ns) : "-");
        mp_table_cell(&table, MP_PLAIN, "%u (%s)", probed->steps, probed->step_source);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
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
    mp_size_answer_text(text, answer, two);
    mp_text_put(text, MP_PLAIN, "\n");
    put_needs(text, answer, two);
    mp_text_put(text, MP_PLAIN, "\n");
    put_growth(text, answer);
    mp_size_grounds_text(text, answer, two);
    put_probed(text, answer, two);
    if (advise) put_changes(text, answer, two, advise);
    mp_size_notes_text(text, answer);
}
