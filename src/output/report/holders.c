#include "output/report/holders.h"

#include <string.h>

#include "base/units.h"

#define SHOWN 3 /* holders of a site, as text */

static void put_holder(struct mp_json *json, const struct mp_model *model, const struct mp_holder *holder)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "path", holder->path);
    mp_json_text(json, "kind", mp_holder_kind_name(holder->kind));
    mp_json_bool(json, "certain", holder->certain);
    mp_json_number(json, "blocks", holder->blocks);
    mp_json_number(json, "bytes", holder->bytes);
    mp_json_text(json, "file", holder->file ? mp_model_text(model, holder->file) : NULL);
    mp_json_known(json, "line", holder->file ? holder->line : UINT64_MAX);
    mp_json_text(json, "advice", mp_holder_advice(holder));
    mp_json_end_object(json);
}

void mp_holders_site_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders,
                          const struct mp_holders_site *site, size_t limit)
{
    mp_json_array(json, "holders");
    for (size_t i = 0; site && i < site->count && (!limit || i < limit); i++)
        put_holder(json, model, &holders->holders.at[site->first + i]);
    mp_json_end_array(json);
}

static void put_row(struct mp_table *table, unsigned column, const struct mp_model *model,
                    const struct mp_holder *holder, const struct mp_holders_site *site)
{
    char number[MP_UNIT_TEXT];
    struct mp_buffer line = {0};
    mp_text_clean(&line, holder->path);
    if (holder->file) {
        mp_buffer_printf(&line, " (");
        const char *file = mp_model_text(model, holder->file), *slash = strrchr(file, '/');
        mp_text_clean(&line, slash ? slash + 1 : file);
        mp_buffer_printf(&line, ":%u)", holder->line);
    }
    mp_buffer_printf(&line, ", %s", mp_format_count(number, holder->blocks));
    mp_buffer_printf(&line, " of %s block%s", mp_format_count(number, site->blocks), site->blocks == 1 ? "" : "s");
    mp_table_skip(table, column);
    const char *lead = holder->kind == MP_HOLDER_UNKNOWN && !holder->certain ? "holder "
                       : holder->certain                                     ? "held by "
                                                                             : "probably held by ";
    mp_table_wide(table, holder->certain ? MP_BOLD : MP_PLAIN, "%s%.*s", lead, (int)line.size,
                  line.size ? (const char *)line.data : "");
    mp_table_end_row(table);
    mp_buffer_free(&line);
}

void mp_holders_site_rows(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site, size_t limit)
{
    if (!holders->looked) return;
    if (!site) {
        mp_table_skip(table, column);
        mp_table_wide(table, MP_DIM,
                      "freed before the program looked for what holds it; snapshot --holders looks at "
                      "steps, too");
        mp_table_end_row(table);
        return;
    }
    for (size_t i = 0; i < site->count && i < limit; i++)
        put_row(table, column, model, &holders->holders.at[site->first + i], site);
    if (site->count > limit) {
        mp_table_skip(table, column);
        mp_table_wide(table, MP_DIM, "and %zu more; memprof holders lists them", site->count - limit);
        mp_table_end_row(table);
    }
}

static void put_left_out(struct mp_buffer *to, const char *note)
{
    const char *remedy = mp_holders_remedy(note);
    mp_text_clean(to, note);
    if (remedy) mp_buffer_printf(to, "; %s", remedy);
}

bool mp_holders_why_missing(struct mp_buffer *sentence, const struct mp_holders_site *site)
{
    if (!site || !site->note) return false;
    mp_buffer_printf(sentence, "holder not found: ");
    put_left_out(sentence, site->note);
    return true;
}

void mp_holders_site_advice(struct mp_text *text, const struct mp_holders *holders, const struct mp_holders_site *site,
                            struct mp_holders_advised *advised)
{
    for (size_t i = 0; site && i < site->count && i < SHOWN; i++) {
        const struct mp_holder *holder = &holders->holders.at[site->first + i];
        const char *advice = mp_holder_advice(holder);
        if (!advice || advised->kinds[holder->kind]) continue;
        advised->kinds[holder->kind] = true;
        mp_text_put(text, MP_PLAIN, "%s: %s\n", mp_holder_kind_name(holder->kind), advice);
    }
}

static bool is_shown(size_t i, size_t only, const struct mp_view *view)
{
    return only ? i + 1 == only : !view->limit || i < view->limit;
}

void mp_holders_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.holders/1");
    mp_json_bool(json, "looked", holders->looked);
    mp_json_text(json, "left_out", holders->note);
    mp_json_number(json, "site_count", holders->sites.count);
    mp_json_array(json, "sites");
    for (size_t i = 0; i < holders->sites.count; i++) {
        const struct mp_holders_site *site = &holders->sites.at[i];
        if (!is_shown(i, only, view)) continue;
        mp_json_object(json, NULL);
        mp_json_number(json, "site", i + 1);
        mp_json_text(json, "track", mp_track_id(model, site->track, id));
        mp_json_number(json, "bytes", site->bytes);
        mp_json_number(json, "blocks", site->blocks);
        mp_stack_json(json, model, site->stack);
        mp_holders_site_json(json, model, holders, site, 0);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static void put_site(struct mp_table *table, const struct mp_model *model, const struct mp_holders *holders,
                     size_t number_of, bool alone, bool full_stacks)
{
    char number[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    const struct mp_holders_site *found = &holders->sites.at[number_of];
    struct mp_site site = {.stack = found->stack, .births = 1};
    mp_table_cell(table, MP_DIM, "%zu", number_of + 1);
    mp_table_cell(table, MP_BOLD, "%s", mp_format_bytes(number, found->bytes));
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_count(number, found->blocks));
    mp_table_cell(table, MP_PLAIN, "%s", mp_track_id(model, found->track, id));
    if (found->stack) {
        mp_stack_rows(table, 4, model, NULL, &site, NULL, full_stacks);
    } else {
        mp_table_wide(table, MP_DIM, "(no stack)");
        mp_table_end_row(table);
    }
    mp_holders_site_rows(table, 4, model, holders, found, alone ? found->count : SHOWN);
}

static void put_table(struct mp_text *text, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                      const struct mp_view *view)
{
    struct mp_table table;
    mp_table_start_titled(&table, "rrrlll", "allocated by, held by", "site", "bytes", "blocks", "track", NULL);
    for (size_t i = 0; i < holders->sites.count; i++)
        if (is_shown(i, only, view)) put_site(&table, model, holders, i, only, view->full_stacks);
    mp_table_finish(&table, text);
}

void mp_holders_text(struct mp_text *text, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view)
{
    struct mp_holders_advised advised = {0};
    if (!holders->looked) {
        mp_text_put(
            text, MP_PLAIN,
            "the recording does not say what holds its blocks: a program with PyTorch looks when it ends by itself, "
            "and with snapshot --holders at steps, too\n\n");
        mp_coverage_text(text, model);
        return;
    }
    mp_text_count(text, holders->sites.count, "site");
    mp_text_put(text, MP_PLAIN, " with blocks that lived when the program last looked for what holds them\n\n");
    put_table(text, model, holders, only, view);
    mp_text_put(text, MP_PLAIN, "\n");
    for (size_t i = 0; i < holders->sites.count; i++)
        if (is_shown(i, only, view)) mp_holders_site_advice(text, holders, &holders->sites.at[i], &advised);
    if (holders->note) {
        mp_text_put(text, MP_PLAIN, "left out: ");
        put_left_out(text->out, holders->note);
        mp_text_put(text, MP_PLAIN, "\n");
    }
    if (!only && view->limit && view->limit < holders->sites.count)
        mp_text_put(text, MP_DIM, "%zu more sites; -n %zu shows more\n", holders->sites.count - view->limit,
                    view->limit * 2);
    mp_coverage_text(text, model);
}
