#include "output/report/categories.h"

#include <stdio.h>

#include "base/units.h"
#include "output/report/sites.h"

#define BAR        "▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇"
#define SHOWN_PART 50  /* of the peak: a smaller previous graph is not worth a line */
#define MOSTLY     200 /* all but one part in so many count as all */
#define BAR_MAX    30  /* characters, of three bytes each, for the whole */

static const char *name_of(const struct mp_sites *categories, const struct mp_site *row)
{
    return row->group == MP_NONE ? "other" : mp_intern_get(&categories->groups, row->group, NULL);
}

static double share_of(const struct mp_sites *categories, const struct mp_site *row)
{
    return categories->bytes ? (double)row->bytes / (double)categories->bytes : 0;
}

/* First the rows that have a name, then the others. */
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

bool mp_categories_any(const struct mp_sites *categories)
{
    for (size_t i = 0; i < categories->count; i++)
        if (categories->at[i].group != MP_NONE && categories->at[i].bytes) return true;
    return false;
}

const char *mp_guess_text(char *to, uint64_t guessed, uint64_t bytes)
{
    char number[MP_UNIT_TEXT];
    *to = '\0';
    if (guessed && guessed + bytes / MOSTLY >= bytes)
        snprintf(to, MP_GUESS_TEXT, "a guess");
    else if (guessed)
        snprintf(to, MP_GUESS_TEXT, "%s of it a guess", mp_format_bytes(number, guessed));
    return to;
}

void mp_categories_text(struct mp_text *text, const struct mp_sites *categories)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT], guess[MP_GUESS_TEXT];
    size_t at = 0;
    bool named = true;
    mp_table_start(&table, "llrrll");
    for (const struct mp_site *row; (row = next_row(categories, &at, &named));) {
        double share = share_of(categories, row);
        mp_table_cell(&table, MP_PLAIN, "%s", "");
        mp_table_cell(&table, MP_PLAIN, "%s", name_of(categories, row));
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, row->bytes));
        mp_table_cell(&table, MP_PLAIN, share < 0.0005 ? "" : share < 0.005 ? "%.1f %%" : "%.0f %%", 100 * share);
        mp_table_cell(&table, MP_DIM, "%.*s", 3 * (int)(share * BAR_MAX + 0.5), BAR);
        mp_table_cell(&table, MP_DIM, "%s", mp_guess_text(guess, row->guessed_bytes, row->bytes));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

void mp_categories_document(struct mp_document *document, const struct mp_sites *categories)
{
    static const char *const heads[] = {"category", "bytes", "share", "blocks", "known how"};
    char number[MP_UNIT_TEXT], guess[MP_GUESS_TEXT];
    size_t at = 0;
    bool named = true, any = false;
    for (size_t i = 0; i < categories->count; i++)
        any |= categories->at[i].guessed_bytes;
    mp_document_table(document, any ? "lrrrl" : "lrrr", heads);
    for (const struct mp_site *row; (row = next_row(categories, &at, &named));) {
        mp_document_cell(document, "%s", name_of(categories, row));
        mp_document_cell(document, "%s", mp_format_bytes(number, row->bytes));
        mp_document_share(document, row->bytes, categories->bytes);
        mp_document_cell(document, "%s", mp_format_count(number, row->blocks));
        if (any) mp_document_cell(document, "%s", mp_guess_text(guess, row->guessed_bytes, row->bytes));
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
        mp_json_number(json, "guessed_bytes", row->guessed_bytes);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
}

bool mp_previous_matters(const struct mp_peak *peak)
{
    return peak->previous.bytes && peak->previous.bytes >= peak->bytes / SHOWN_PART;
}

void mp_previous_sentence(struct mp_buffer *out, const struct mp_model *model, const struct mp_peak *peak)
{
    const struct mp_peak_previous *previous = &peak->previous;
    char number[MP_UNIT_TEXT], guess[MP_GUESS_TEXT];
    mp_buffer_printf(out, "%s of it", mp_format_bytes(number, previous->bytes));
    mp_buffer_printf(out, " (%s blocks) belong to a previous graph: what an earlier forward pass kept is still held",
                     mp_format_count(number, previous->blocks));
    if (*mp_guess_text(guess, previous->guessed_bytes, previous->bytes)) mp_buffer_printf(out, ", %s", guess);
    if (previous->freed == MP_NONE) {
        mp_buffer_append_text(out, "; it was not freed");
    } else if (previous->freed_at) {
        const struct mp_site site = {.stack = previous->freed_at, .births = 1};
        mp_buffer_append_text(out, "; freed at ");
        mp_site_text(out, model, &site);
    }
    if (previous->freed != MP_NONE)
        mp_buffer_printf(out, " after %s", mp_format_duration(number, model->events.time_ns[previous->freed]));
}

const char *mp_previous_advice(void)
{
    return "drop the old result before the next forward pass (del), or run it under torch.no_grad() where no backward "
           "follows";
}

void mp_previous_text(struct mp_text *text, const struct mp_model *model, const struct mp_peak *peak,
                      const char *indent)
{
    struct mp_buffer sentence = {0};
    if (!mp_previous_matters(peak)) return;
    mp_previous_sentence(&sentence, model, peak);
    mp_text_put(text, MP_BOLD, "%s%.*s\n", indent, (int)sentence.size, (const char *)sentence.data);
    mp_text_put(text, MP_PLAIN, "%sto save it: %s\n", indent, mp_previous_advice());
    mp_buffer_free(&sentence);
}

void mp_previous_json(struct mp_json *json, const struct mp_model *model, const struct mp_peak *peak)
{
    const struct mp_peak_previous *previous = &peak->previous;
    if (!previous->bytes) {
        mp_json_null(json, "previous_graph");
        return;
    }
    mp_json_object(json, "previous_graph");
    mp_json_number(json, "bytes", previous->bytes);
    mp_json_number(json, "blocks", previous->blocks);
    mp_json_number(json, "guessed_bytes", previous->guessed_bytes);
    mp_json_known(json, "freed_ns", previous->freed == MP_NONE ? UINT64_MAX : model->events.time_ns[previous->freed]);
    mp_json_array(json, "freed_at");
    if (previous->freed_at) {
        mp_json_object(json, NULL);
        mp_stack_json(json, model, previous->freed_at);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_end_object(json);
}
