#include <math.h>

#include "output/report/categories.h"
#include "output/report/columns.h"
#include "output/report/holders.h"
#include "output/report/site_rows.h"
#include "output/report/tensor_rows.h"

/* Bits of columns. */
enum {
    BY_STACK = 1,
    BY_GROUP = 2,
    GUESSED = 4,
    BIRTHS = 8,
    TRACK = 16,
    WHOLE = 32,
    MODULES = 64,
    LINES = 128,
    HELD = 256
};

#define HOLDERS_SHOWN 2

struct table {
    const struct mp_model *model;
    const struct mp_sites *sites;
    const struct mp_site_view *view;
};

/* ---- columns ---------------------------------------------------------------------------------------------------- */

static void get_number(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    mp_buffer_printf(&value->made, "%zu.", (size_t)((const struct mp_site *)row - table->sites->at) + 1);
}

static void get_bytes(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_site_bytes(row);
}

static void get_error(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    const struct mp_site *site = row;
    value->absent = !mp_model_sample_of(table->model, site->track);
    value->number = value->absent ? MP_BYTES_UNKNOWN : mp_error_bytes(sqrt(site->variance));
}

static void get_share(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_site *)row)->bytes;
    value->whole = ((const struct table *)of)->view->whole;
}

static void get_births(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_site *)row)->births;
    if (((const struct table *)of)->view->lines) mp_buffer_printf(&value->made, "born in %s", mp_count(value->number));
}

static void get_site(struct mp_value *value, const void *of, const void *row)
{
    value->site = *(const struct mp_site *)row;
}

static void get_modules(struct mp_value *value, const void *of, const void *row)
{
    mp_site_modules_text(&value->made, ((const struct table *)of)->sites, row);
}

MP_GETTER(get_key, struct mp_site, it,
          value->text = mp_group_key(&((const struct table *)of)->sites->groups, it->group))

static void get_group(struct mp_value *value, const void *of, const void *row)
{
    const struct table *table = of;
    mp_group_text(&value->made, &table->sites->groups, ((const struct mp_site *)row)->group, table->view->by);
}

static void get_guess(struct mp_value *value, const void *of, const void *row)
{
    char guess[MP_GUESS_TEXT];
    const struct mp_site *site = row;
    mp_buffer_append_text(&value->made, mp_guess_text(guess, site->guessed_bytes, site->bytes));
}

static void put_modules(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    const struct mp_site *site = row;
    if (!site->module_count) return;
    mp_json_array(json, key);
    for (uint32_t i = 0; i < site->module_count; i++) {
        const struct mp_site_module *module = &table->sites->modules.at[site->first_module + i];
        mp_json_object(json, NULL);
        json->flat = true;
        mp_json_text(json, "module", mp_intern_get(&table->sites->groups, module->pattern, NULL));
        mp_json_number(json, "bytes", module->bytes);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
}

#define SHARED(member) MP_MEMBER(struct mp_site_share, member)

static const struct mp_column freed_columns[] = {
    {NULL, "bytes", MP_BYTES, SHARED(bytes)},
    {NULL, "blocks", MP_COUNT, SHARED(blocks)},
    {NULL, "stack", MP_SITE, SHARED(of)},
    {NULL},
};

static const struct mp_column metadata_columns[] = {
    {NULL, "kind", MP_WORD, SHARED(kind), .word = mp_metadata_kind_name},
    {NULL, "text", MP_STRING, SHARED(of)},
    {NULL, "bytes", MP_BYTES, SHARED(bytes)},
    {NULL, "blocks", MP_COUNT, SHARED(blocks)},
    {NULL},
};

/* Writes where a site's blocks were freed, the largest share first. */
static void put_freed(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    const struct mp_site *site = row;
    if (!site->free_count) return;
    mp_rows_json(
        json, key,
        &MP_ROWS(freed_columns, table->sites->frees.at + site->first_free, site->free_count, .model = table->model));
}

/* Writes the texts about a site's blocks, the largest share first. A block with two texts counts for both. */
static void put_metadata(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    const struct mp_site *site = row;
    if (!site->metadata_count) return;
    mp_rows_json(json, key,
                 &MP_ROWS(metadata_columns, table->sites->metadata.at + site->first_metadata, site->metadata_count,
                          .model = table->model, .flat = true));
}

static void put_tensors(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    mp_site_tensors_json(json, key, table->model, table->sites, row);
}

const struct mp_holders_site *mp_site_held(const struct mp_site_view *view, const struct mp_site *site)
{
    return view->holders && (view->holders_of_all || site->births > 1)
               ? mp_holders_of(view->holders, site->track, site->stack)
               : NULL;
}

static void put_holders(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct table *table = of;
    mp_holders_site_json(json, table->model, table->view->holders, mp_site_held(table->view, row), 0);
}

#define SITE(member) MP_MEMBER(struct mp_site, member)

const struct mp_column mp_site_columns[] = {
    {"number", NULL, MP_NAME, .get = get_number, .only = LINES, .style = MP_DIM},
    {"bytes", "bytes", MP_BYTES, .get = get_bytes, .place = 2, .style = MP_BOLD},
    {"blocks", "blocks", MP_COUNT, SITE(blocks), .place = 3, .noun = "block"},
    {NULL, "standard_error_bytes", MP_BYTES, .get = get_error},
    {"share", "share", MP_SHARE, .get = get_share, .place = 1, .only = WHOLE},
    {"track", "track", MP_TRACK, SITE(track), .place = 5, .only = TRACK},
    {"born in", "birth_periods", MP_COUNT, .get = get_births, .place = 4, .only = BIRTHS},
    {NULL, "modules", .put = put_modules, .only = BY_STACK},
    {"site", "stack", MP_SITE, .get = get_site, .place = 6, .only = BY_STACK},
    {"module", NULL, MP_NAME, .get = get_modules, .place = 7, .only = MODULES, .not_in_text = true},
    {NULL, "freed_at", .put = put_freed, .only = BY_STACK},
    {NULL, "metadata", .put = put_metadata, .only = BY_STACK},
    {NULL, "tensors", .put = put_tensors, .only = BY_STACK},
    {NULL, "holders", .put = put_holders, .only = HELD},
    {NULL, "group", MP_NAME, .get = get_key, .only = BY_GROUP},
    {"group", NULL, MP_NAME, .get = get_group, .place = 6, .only = BY_GROUP},
    {NULL, "guessed_bytes", MP_BYTES, SITE(guessed_bytes), .only = GUESSED},
    {"known how", NULL, MP_NAME, .get = get_guess, .place = 7, .only = GUESSED},
    {NULL},
};

/* ---- more rows of a site, in text ------------------------------------------------------------------------------- */

/* Adds the row "freed at train.py:74 zero_grad". If only some blocks were freed there, it has their number. */
static void freed_row(struct mp_table *table, unsigned columns, const struct mp_model *model,
                      const struct mp_sites *sites, const struct mp_site *site)
{
    if (!site->free_count) return;
    const struct mp_site_share *most = &sites->frees.at[site->first_free];
    const struct mp_site of_free = {.stack = most->of};
    struct mp_buffer out = {0};
    mp_site_text(&out, model, &of_free);
    if (most->blocks < site->blocks) mp_buffer_printf(&out, ", %s of its blocks", mp_count(most->blocks));
    if (site->free_count > 1)
        mp_buffer_printf(&out, "; others at %u more place%s", site->free_count - 1, site->free_count == 2 ? "" : "s");
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_DIM, "freed at %.*s", (int)out.size, (const char *)out.data);
    mp_table_end_row(table);
    mp_buffer_free(&out);
}

#define METADATA_SHOWN 3
#define METADATA_BYTES 100

/* 'metadata "phase 1"; annotation "kept by autograd", 3 of its blocks; 2 more'. */
static void metadata_row(struct mp_table *table, unsigned columns, const struct mp_model *model,
                         const struct mp_sites *sites, const struct mp_site *site)
{
    static const char *const words[MP_METADATA_KINDS] = {"", "metadata", "annotation", "internal"};
    struct mp_buffer out = {0}, said = {0};
    if (!site->metadata_count) return;
    for (uint32_t i = 0; i < site->metadata_count && i < METADATA_SHOWN; i++) {
        const struct mp_site_share *share = &sites->metadata.at[site->first_metadata + i];
        mp_buffer_clear(&said);
        mp_text_clean(&said, mp_model_text(model, share->of));
        bool cut = said.size > METADATA_BYTES;
        size_t size = cut ? METADATA_BYTES : said.size;
        while (cut && said.data[size] >> 6 == 2) /* do not cut within a UTF-8 character */
            size--;
        mp_buffer_printf(&out, "%s%s \"%.*s%s\"", i ? "; " : "", words[share->kind], (int)size, (const char *)said.data,
                         cut ? "…" : "");
        if (share->blocks < site->blocks) mp_buffer_printf(&out, ", %s of its blocks", mp_count(share->blocks));
    }
    if (site->metadata_count > METADATA_SHOWN)
        mp_buffer_printf(&out, "; %u more", site->metadata_count - METADATA_SHOWN);
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_DIM, "%.*s", (int)out.size, (const char *)out.data);
    mp_table_end_row(table);
    mp_buffer_free(&out);
    mp_buffer_free(&said);
}

static void put_below(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct table *shown = of;
    bool lines = shown->view->lines;
    mp_site_tensor_row(table, columns, shown->model, shown->sites, row);
    if (!lines) freed_row(table, columns, shown->model, shown->sites, row);
    if (!lines) metadata_row(table, columns, shown->model, shown->sites, row);
    const struct mp_holders_site *held = mp_site_held(shown->view, row);
    if (held && lines)
        mp_holders_first_row(table, columns, shown->model, shown->view->holders, held);
    else if (held)
        mp_holders_site_rows(table, columns, shown->model, shown->view->holders, held, HOLDERS_SHOWN);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

uint64_t mp_error_bytes(double standard_error)
{
    return isfinite(standard_error) ? (uint64_t)(standard_error + 0.5) : MP_BYTES_UNKNOWN;
}

static struct mp_rows rows_of(const struct table *table)
{
    const struct mp_site_view *view = table->view;
    bool by_stack = view->by == MP_GROUP_STACK, guessed = false;
    size_t shown = mp_shown(table->sites->count, view->limit);
    for (size_t i = 0; i < shown; i++)
        guessed |= table->sites->at[i].guessed_bytes;
    unsigned lacks = (view->whole ? 0 : WHOLE) | (view->births ? 0 : BIRTHS) | (view->track ? 0 : TRACK) |
                     (table->sites->modules.count ? 0 : MODULES) | (view->lines ? 0 : LINES);
    return MP_ROWS(mp_site_columns, table->sites->at, shown, .of = table, .model = table->model,
                   .without = lacks | (guessed ? 0 : GUESSED), .json_without = lacks & (BIRTHS | TRACK),
                   .never = (by_stack ? BY_GROUP : BY_STACK) | (view->by == MP_GROUP_CATEGORY ? 0 : GUESSED) |
                            (by_stack && view->holders ? 0 : HELD),
                   .word = mp_group_name(view->by), .untitled = view->lines, .heading = view->lines ? NULL : "",
                   .shown = !view->lines   ? NULL
                            : view->births ? "number,bytes,blocks,born-in,site"
                                           : "number,bytes,blocks,share,site",
                   .sites = table->sites,
                   .stacks = view->lines         ? MP_ONE_LINE
                             : view->full_stacks ? MP_FULL_STACKS
                                                 : MP_STACKS,
                   .apart_by = view->track ? MP_APART_TRACKS_SHOWN : MP_APART_SITES, .below = put_below);
}

bool mp_sites_text(struct mp_text *text, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view)
{
    const struct table table = {model, sites, view};
    const struct mp_rows rows = rows_of(&table);
    return mp_rows_text(text, &rows);
}

void mp_sites_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_sites *sites,
                   const struct mp_site_view *view)
{
    const struct table table = {model, sites, view};
    const struct mp_rows rows = rows_of(&table);
    mp_rows_json(json, key, &rows);
}
