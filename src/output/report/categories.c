#include "output/report/categories.h"

#include "base/units.h"

#define BAR     "▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇"
#define BAR_MAX 30 /* characters, of three bytes each, for the whole */

static const char *name_of(const struct mp_sites *categories, const struct mp_site *row)
{
    return row->group == MP_NONE ? "other" : mp_intern_get(&categories->groups, row->group, NULL);
}

static double share_of(const struct mp_sites *categories, const struct mp_site *row)
{
    return categories->bytes ? (double)row->bytes / (double)categories->bytes : 0;
}

/* Those that have a name, then the rest. */
static const struct mp_site *next_row(const struct mp_sites *categories, size_t *at, bool *named)
{
    for (;; *at = 0, *named = false) {
        while (*at < categories->count) {
            const struct mp_site *row = &categories->at[(*at)++];
            if ((row->group != MP_NONE) == *named) return row;
        }
        if (!*named) return NULL;
    }
}

bool mp_categories_tell(const struct mp_sites *categories)
{
    uint64_t known = 0;
    for (size_t i = 0; i < categories->count; i++)
        if (categories->at[i].group != MP_NONE) known += categories->at[i].bytes;
    return known && known >= categories->bytes - known;
}

void mp_categories_text(struct mp_text *text, const struct mp_sites *categories)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t at = 0;
    bool named = true;
    mp_table_start(&table, "llrrl");
    for (const struct mp_site *row; (row = next_row(categories, &at, &named));) {
        double share = share_of(categories, row);
        mp_table_cell(&table, MP_PLAIN, "%s", "");
        mp_table_cell(&table, MP_PLAIN, "%s", name_of(categories, row));
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, row->bytes));
        mp_table_cell(&table, MP_PLAIN, share < 0.0005 ? "" : share < 0.005 ? "%.1f %%" : "%.0f %%", 100 * share);
        mp_table_cell(&table, MP_DIM, "%.*s", 3 * (int)(share * BAR_MAX + 0.5), BAR);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

void mp_categories_document(struct mp_document *document, const struct mp_sites *categories)
{
    static const char *const heads[] = {"category", "bytes", "share", "blocks"};
    char number[MP_UNIT_TEXT];
    size_t at = 0;
    bool named = true;
    mp_document_table(document, "lrrr", heads);
    for (const struct mp_site *row; (row = next_row(categories, &at, &named));) {
        mp_document_cell(document, "%s", name_of(categories, row));
        mp_document_cell(document, "%s", mp_format_bytes(number, row->bytes));
        mp_document_cell(document, "%.1f %%", 100 * share_of(categories, row));
        mp_document_cell(document, "%s", mp_format_count(number, row->blocks));
    }
    mp_document_end_table(document);
}

void mp_categories_json(struct mp_json *json, const struct mp_sites *categories)
{
    if (!categories->groups.count) {
        mp_json_null(json, "categories");
        return;
    }
    mp_json_array(json, "categories");
    for (size_t i = 0; i < categories->count; i++) {
        const struct mp_site *row = &categories->at[i];
        mp_json_object(json, NULL);
        json->flat = true;
        mp_json_text(json, "category", row->group == MP_NONE ? NULL : name_of(categories, row));
        mp_json_number(json, "bytes", row->bytes);
        mp_json_number(json, "blocks", row->blocks);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
}
