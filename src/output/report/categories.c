#include "output/report/categories.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/vec.h"
#include "output/report/columns.h"

#define WHOLE_BAR  "▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇"
#define SHOWN_PART 50  /* a previous graph gets a line from 1/50 of the peak on */
#define MOSTLY     200 /* if less than 1/200 is missing, it counts as all */
#define BAR_MAX    30  /* characters, of three bytes each, for the whole */

bool mp_categories_any(const struct mp_sites *categories)
{
    for (size_t i = 0; i < categories->count; i++)
        if (categories->at[i].group != MP_NONE && categories->at[i].bytes) return true;
    return false;
}

const char *mp_guess_text(char *to, uint64_t guessed, uint64_t bytes)
{
    *to = '\0';
    if (guessed && guessed + bytes / MOSTLY >= bytes)
        snprintf(to, MP_GUESS_TEXT, "a guess");
    else if (guessed)
        snprintf(to, MP_GUESS_TEXT, "%s of it a guess", mp_bytes(guessed));
    return to;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum { BAR = 1, GUESSED = 2 }; /* bits of columns */

MP_GETTER(get_key, struct mp_site, it, value->text = mp_group_key(&((const struct mp_sites *)of)->groups, it->group))

static void get_name(struct mp_value *value, const void *of, const void *row)
{
    get_key(value, of, row);
    if (!value->text) value->text = "other";
}

static void get_share(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_site *)row)->bytes;
    value->whole = ((const struct mp_sites *)of)->bytes;
}

static void get_bar(struct mp_value *value, const void *of, const void *row)
{
    get_share(value, of, row);
    double share = value->whole ? (double)value->number / (double)value->whole : 0;
    mp_buffer_printf(&value->made, "%.*s", 3 * (int)(share * BAR_MAX + 0.5), WHOLE_BAR);
}

static void get_guess(struct mp_value *value, const void *of, const void *row)
{
    char guess[MP_GUESS_TEXT];
    const struct mp_site *site = row;
    mp_buffer_append_text(&value->made, mp_guess_text(guess, site->guessed_bytes, site->bytes));
}

#define SITE(member) MP_MEMBER(struct mp_site, member)

static const struct mp_column columns[] = {
    {NULL, "category", MP_NAME, .get = get_key},
    {"category", NULL, MP_NAME, .get = get_name},
    {"bytes", "bytes", MP_BYTES, SITE(bytes), .style = MP_BOLD},
    {"share", NULL, MP_SHARE, .get = get_share},
    {"blocks", "blocks", MP_COUNT, SITE(blocks), .not_in_text = true},
    {"", NULL, MP_NAME, .get = get_bar, .only = BAR, .style = MP_DIM},
    {NULL, "guessed_bytes", MP_BYTES, SITE(guessed_bytes)},
    {"known how", NULL, MP_NAME, .get = get_guess, .only = GUESSED, .style = MP_DIM},
    {NULL},
};

/* Writes the rows with a category, then the rest. */
void mp_categories_text(struct mp_text *text, const struct mp_sites *categories)
{
    MP_VEC(uint32_t) order = {0};
    bool guessed = false;
    for (int named = 1; named >= 0; named--)
        for (uint32_t i = 0; i < categories->count; i++) {
            if ((categories->at[i].group != MP_NONE) != named) continue;
            mp_vec_add(&order, i);
            guessed |= categories->at[i].guessed_bytes;
        }
    struct mp_text all = *text; /* --columns is for the tables of sites */
    all.columns = NULL;
    mp_rows_text(&all, &MP_ROWS(columns, categories->at, order.count, .of = categories, .order = order.at,
                                .untitled = true, .without = (guessed ? 0 : GUESSED) | (text->document ? BAR : 0)));
    mp_vec_free(&order);
}

void mp_categories_json(struct mp_json *json, const struct mp_sites *categories)
{
    if (categories->groups.count)
        mp_rows_json(json, "categories",
                     &MP_ROWS(columns, categories->at, categories->count, .of = categories, .flat = true));
    else
        mp_json_null(json, "categories");
}

/* ---- the graph of an earlier forward pass ----------------------------------------------------------------------- */

bool mp_previous_matters(const struct mp_peak *peak)
{
    return peak->previous.bytes && peak->previous.bytes >= peak->bytes / SHOWN_PART;
}

void mp_previous_sentence(struct mp_buffer *out, const struct mp_model *model, const struct mp_peak *peak)
{
    const struct mp_peak_previous *previous = &peak->previous;
    char guess[MP_GUESS_TEXT];
    mp_buffer_printf(out,
                     "%s of it (%s blocks) belong to a previous graph: what an earlier forward pass kept is still held",
                     mp_bytes(previous->bytes), mp_count(previous->blocks));
    if (*mp_guess_text(guess, previous->guessed_bytes, previous->bytes)) mp_buffer_printf(out, ", %s", guess);
    if (previous->freed == MP_NONE) {
        mp_buffer_append_text(out, "; it was not freed");
    } else if (previous->freed_at) {
        const struct mp_site site = {.stack = previous->freed_at};
        mp_buffer_append_text(out, "; freed at ");
        mp_site_text(out, model, &site);
    }
    if (previous->freed != MP_NONE) mp_buffer_printf(out, " after %s", mp_time(model->events.time_ns[previous->freed]));
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
    mp_say(text, "%s`%.*s`\n%sto save it: %s\n", indent, (int)sentence.size, (const char *)sentence.data, indent,
           mp_previous_advice());
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
