#include "output/report/holders.h"

#include <string.h>

#include "analysis/device/plan.h"
#include "model/stack.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/tensor_rows.h"

#define SHOWN 3 /* most holders of a site in text */

MP_GETTER(get_line, struct mp_holder, holder, value->number = holder->file ? holder->line : MP_BYTES_UNKNOWN)

static void get_advice(struct mp_value *value, const void *of, const void *row)
{
    value->text = mp_holder_advice(row);
}

#define HOLDER(member) MP_MEMBER(struct mp_holder, member)

static const struct mp_column holder_columns[] = {
    {NULL, "path", MP_NAME, HOLDER(path)},
    {NULL, "kind", MP_WORD, HOLDER(kind), .word = mp_holder_kind_name},
    {NULL, "certain", MP_FLAG, HOLDER(certain)},
    {NULL, "blocks", MP_COUNT, HOLDER(blocks)},
    {NULL, "bytes", MP_BYTES, HOLDER(bytes)},
    {NULL, "file", MP_STRING_OR_NONE, HOLDER(file)},
    {NULL, "line", MP_COUNT, .get = get_line},
    {NULL, "advice", MP_NAME, .get = get_advice},
    {NULL},
};

void mp_holders_site_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders,
                          const struct mp_holders_site *site, size_t limit)
{
    const struct mp_holder *first = site ? &holders->holders.at[site->first] : NULL;
    mp_rows_json(json, "holders",
                 &MP_ROWS(holder_columns, first, site ? mp_shown(site->count, limit) : 0, .model = model));
}

/* "trainer.history[*] (train.py:61), 12 of 12 blocks" */
static void holder_text(struct mp_buffer *line, const struct mp_model *model, const struct mp_holder *holder,
                        const struct mp_holders_site *site)
{
    mp_text_clean(line, holder->path);
    if (holder->file) {
        mp_buffer_append_text(line, " (");
        mp_text_clean(line, mp_path_short(mp_model_text(model, holder->file)));
        mp_buffer_printf(line, ":%u)", holder->line);
    }
    mp_buffer_printf(line, ", %s of %s", mp_count(holder->blocks), mp_counted(site->blocks, "block"));
}

static void put_row(struct mp_table *table, unsigned column, const struct mp_model *model,
                    const struct mp_holder *holder, const struct mp_holders_site *site)
{
    struct mp_buffer line = {0};
    const char *lead = holder->kind == MP_HOLDER_UNKNOWN && !holder->certain ? "holder "
                       : holder->certain                                     ? "held by "
                                                                             : "probably held by ";
    holder_text(&line, model, holder, site);
    mp_table_skip(table, column);
    mp_table_wide(table, holder->certain ? MP_BOLD : MP_PLAIN, "%s%.*s", lead, (int)line.size, (const char *)line.data);
    mp_table_end_row(table);
    mp_buffer_free(&line);
}

void mp_holders_first_text(struct mp_buffer *out, const struct mp_model *model, const struct mp_holders *holders,
                           const struct mp_holders_site *site)
{
    if (!site || !site->count) return;
    const struct mp_holder *holder = &holders->holders.at[site->first];
    mp_buffer_append_text(out, holder->certain ? "" : "probably ");
    holder_text(out, model, holder, site);
}

void mp_holders_site_rows(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site, size_t limit)
{
    if (!holders->looked) return;
    if (!site) {
        mp_table_skip(table, column);
        mp_table_wide(table, MP_DIM, "freed before the program looked for holders%s",
                      mp_plan_made(model) ? ""
                                          : "; snapshot --holders also looks at steps that libmemprof.step() or "
                                            "an optimizer marks");
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

void mp_holders_first_row(struct mp_table *table, unsigned column, const struct mp_model *model,
                          const struct mp_holders *holders, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = &holders->holders.at[site->first];
    if (holder->kind != MP_HOLDER_UNKNOWN || mp_holder_awaits_gc(holder)) put_row(table, column, model, holder, site);
}

static const char *of_cause(const struct mp_held_cause *cause)
{
    static const char *const words[MP_HELD_WHYS] = {
        "wait for Python's collector: ", "nothing frees: ", "are of graphs behind their backward pass, held by "};
    return words[cause->why];
}

#define CAUSES_SHOWN 3
#define CAUSE_LEAST  50 /* shown from 1/50 of the peak on */

void mp_held_text(struct mp_text *text, const struct mp_held_causes *causes, uint64_t whole, const char *indent)
{
    for (size_t i = 0; causes && i < causes->count && i < CAUSES_SHOWN; i++) {
        const struct mp_held_cause *cause = &causes->at[i];
        struct mp_buffer root = {0};
        if (cause->bytes < whole / CAUSE_LEAST || !cause->bytes) continue;
        mp_text_clean(&root, cause->root);
        mp_say(text, "%s`%s` of it %s%.*s (%s)\n", indent, mp_bytes(cause->bytes), of_cause(cause), (int)root.size,
               (const char *)root.data, mp_counted(cause->blocks, "block"));
        if (cause->advice) mp_say(text, "%s  %s\n", indent, cause->advice);
        mp_buffer_free(&root);
    }
}

static void get_why(struct mp_value *value, const void *of, const void *row)
{
    value->text = mp_held_why_name(((const struct mp_held_cause *)row)->why);
}

#define CAUSE(member) MP_MEMBER(struct mp_held_cause, member)

static const struct mp_column cause_columns[] = {
    {NULL, "why", MP_NAME, .get = get_why},    {NULL, "path", MP_NAME, CAUSE(root)},
    {NULL, "blocks", MP_COUNT, CAUSE(blocks)}, {NULL, "bytes", MP_BYTES, CAUSE(bytes)},
    {NULL, "advice", MP_NAME, CAUSE(advice)},  {NULL},
};

void mp_held_json(struct mp_json *json, const struct mp_model *model, const struct mp_held_causes *causes)
{
    if (!causes) return;
    size_t count = 0;
    while (count < causes->count && causes->at[count].bytes)
        count++;
    mp_rows_json(json, "held", &MP_ROWS(cause_columns, causes->at, count, .model = model));
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
        const char *kind = holder->kind == MP_HOLDER_UNKNOWN ? "reference cycle" : mp_holder_kind_name(holder->kind);
        mp_say(text, "%s: %s\n", kind, advice);
    }
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

struct table {
    const struct mp_model *model;
    const struct mp_holders *holders;
    size_t only;
};

static void get_number(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    value->number = (uint64_t)((const struct mp_holders_site *)row - table->holders->sites.at) + 1;
}

static void get_place(struct mp_value *value, const void *of, const void *row)
{
    value->site = (struct mp_site){.stack = ((const struct mp_holders_site *)row)->stack};
    if (!value->site.stack) value->text = "(no stack)";
}

static void get_held(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_first_text(&value->made, table->model, table->holders, row);
}

static void put_holders(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_site_json(json, table->model, table->holders, row, 0);
}

static void put_tensors(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_holders_site *site = row;
    mp_stack_tensors_json(json, key, ((const struct table *)of)->model, site->track, site->stack);
}

#define HELD(member) MP_MEMBER(struct mp_holders_site, member)

const struct mp_column mp_holders_columns[] = {
    {"number", "site", MP_COUNT, .get = get_number, .style = MP_DIM},
    {"track", "track", MP_TRACK, HELD(track), .place = 3},
    {"bytes", "bytes", MP_BYTES, HELD(bytes), .place = 1, .style = MP_BOLD},
    {"blocks", "blocks", MP_COUNT, HELD(blocks), .place = 2},
    {"site", "stack", MP_SITE, .get = get_place, .place = 4},
    {"held by", NULL, MP_NAME, .get = get_held, .place = 5, .not_in_text = true},
    {NULL, "tensors", .put = put_tensors},
    {NULL, "holders", .put = put_holders},
    {NULL},
};

static void put_below(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct table *held = of;
    const struct mp_holders_site *site = row;
    mp_stack_tensor_row(table, columns, held->model, site->track, site->stack);
    mp_holders_site_rows(table, columns, held->model, held->holders, site, held->only ? site->count : SHOWN);
}

static struct mp_rows rows_of(const struct table *table, const struct mp_view *view)
{
    const struct mp_holders *holders = table->holders;
    size_t count = holders->sites.count, first = table->only ? table->only - 1 : 0;
    size_t end = table->only ? table->only : mp_shown(count, view->limit);
    return MP_ROWS(mp_holders_columns, holders->sites.at, end < count ? end : count, .of = table, .model = table->model,
                   .first = first, .stacks = view->full_stacks ? MP_FULL_STACKS : MP_STACKS,
                   .apart_by = MP_APART_TRACKS_SHOWN, .below = put_below);
}

void mp_holders_json(struct mp_json *json, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view)
{
    const struct table table = {model, holders, only};
    const struct mp_rows rows = rows_of(&table, view);
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.holders/1");
    mp_json_bool(json, "looked", holders->looked);
    mp_json_text(json, "left_out", holders->note);
    mp_json_number(json, "site_count", holders->sites.count);
    mp_rows_json(json, "sites", &rows);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static const char *why_no_look(const struct mp_model *model)
{
    const struct mp_member *member = &model->start.member;
    if (!mp_member_is_helper(member))
        return mp_plan_made(model)
                   ? "a program with PyTorch looks for them when it ends by itself"
                   : "a program with PyTorch looks for them when it ends by itself, and with snapshot --holders also "
                     "at steps";
    if (!strcmp(member->role, MP_ROLE_LOADER_WORKER))
        return "a loader's worker looks for those of its dataset when it ends by itself, if tensors of its own live "
               "then";
    return "a child that multiprocessing started looks for them only with snapshot --holders";
}

void mp_holders_text(struct mp_text *text, const struct mp_model *model, const struct mp_holders *holders, size_t only,
                     const struct mp_view *view)
{
    const struct table table = {model, holders, only};
    const struct mp_rows rows = rows_of(&table, view);
    struct mp_holders_advised advised = {0};
    if (!holders->looked) {
        mp_say(text, "the recording has no holders: %s\n", why_no_look(model));
        mp_coverage_end(text, model);
        return;
    }
    mp_say(text, "%s with blocks that lived when the program last looked for holders\n\n",
           mp_counted(holders->sites.count, "site"));
    mp_rows_text(text, &rows);
    mp_say(text, "\n");
    for (size_t i = rows.first; i < rows.count; i++)
        mp_holders_site_advice(text, holders, &holders->sites.at[i], &advised);
    if (holders->note) {
        mp_say(text, "left out: ");
        put_left_out(text->out, holders->note);
        mp_say(text, "\n");
    }
    mp_say_more(text, only ? 0 : holders->sites.count - rows.count, view->limit);
    mp_coverage_end(text, model);
}
