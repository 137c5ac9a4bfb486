#include "output/report/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/units.h"

static bool is_text(const struct mp_column *column)
{
    return column->unit <= MP_SITE;
}

static bool is_last(const struct mp_column *column)
{
    return column->unit == MP_SITE || column->wide;
}

static const void *row_at(const struct mp_rows *rows, size_t number)
{
    return (const char *)rows->at + (rows->order ? rows->order[number] : number) * rows->size;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static void take_member(struct mp_value *value, const struct mp_model *model, const struct mp_column *column,
                        const void *row)
{
    const void *at = (const char *)row + column->offset;
    value->number = column->width == 8   ? *(const uint64_t *)at
                    : column->width == 4 ? *(const uint32_t *)at
                    : column->width == 2 ? *(const uint16_t *)at
                                         : *(const uint8_t *)at;
    if (column->width == 4 && column->unit >= MP_COUNT && value->number == MP_NONE) value->number = MP_BYTES_UNKNOWN;
    if (column->unit == MP_NAME)
        value->text = *(const char *const *)at;
    else if (column->unit == MP_STRING || (column->unit == MP_STRING_OR_NONE && value->number))
        value->text = mp_model_text(model, (uint32_t)value->number);
    else if (column->unit == MP_WORD)
        value->text = column->word((unsigned)value->number);
    else if (column->unit == MP_TRACK)
        mp_buffer_append_text(&value->made, mp_track_id(model, (uint16_t)value->number, (char[MP_TRACK_ID_MAX]){0}));
    else if (column->unit == MP_SITE)
        value->site = (struct mp_site){.stack = (uint32_t)value->number};
    else if (column->unit == MP_ADDRESS)
        mp_buffer_printf(&value->made, "0x%" PRIx64, value->number);
}

static void take(struct mp_value *value, const struct mp_rows *rows, const struct mp_column *column, size_t number)
{
    const void *row = row_at(rows, number);
    mp_buffer_clear(&value->made);
    *value = (struct mp_value){.style = column->style, .made = value->made, .model = rows->model};
    if (column->inner) row = rows->inner(rows->of, row);
    if (!row)
        value->number = MP_BYTES_UNKNOWN;
    else if (column->get)
        column->get(value, rows->of, row);
    else
        take_member(value, rows->model, column, row);
    if (column->unknown & rows->unknown) value->number = MP_BYTES_UNKNOWN;
    if (column->zero_is_none && !value->number) value->number = MP_BYTES_UNKNOWN;
    if (!value->made.size) return;
    value->text = mp_buffer_text(&value->made);
}

static const char *text_of(const struct mp_column *column, bool untitled, const struct mp_value *value)
{
    static _Thread_local char share[MP_UNIT_TEXT];
    if (value->text) return value->text;
    if (is_text(column)) return "";
    if (value->number == MP_BYTES_UNKNOWN) return "-";
    if (column->unit == MP_BYTES) return mp_bytes(value->number);
    if (column->unit == MP_CHANGE) return mp_delta((int64_t)value->number);
    if (column->unit == MP_DURATION) return mp_time(value->number);
    if (column->unit == MP_FLAG) return value->number ? "yes" : "no";
    if (column->unit == MP_REAL) {
        snprintf(share, sizeof share, "%.3g", value->real);
        return isnan(value->real) ? "-" : share;
    }
    if (column->unit == MP_COUNT && untitled && column->noun) return mp_counted(value->number, column->noun);
    if (column->unit == MP_COUNT) return mp_count(value->number);
    snprintf(share, sizeof share, "%.1f %%", value->whole ? 100.0 * (double)value->number / (double)value->whole : 0.0);
    return share;
}

/* A value for CSV: numbers without units. */
static const char *raw_of(char to[MP_UNIT_TEXT], const struct mp_column *column, const struct mp_value *value)
{
    *to = '\0';
    if (value->number == MP_BYTES_UNKNOWN || (column->unit == MP_SHARE && !value->whole)) return to;
    if (column->unit == MP_CHANGE)
        snprintf(to, MP_UNIT_TEXT, "%" PRId64, (int64_t)value->number);
    else if (column->unit == MP_REAL && isnan(value->real))
        return to;
    else if (column->unit == MP_REAL)
        snprintf(to, MP_UNIT_TEXT, "%.6g", value->real);
    else if (column->unit == MP_FLAG)
        snprintf(to, MP_UNIT_TEXT, "%s", value->number ? "true" : "false");
    else if (column->unit == MP_SHARE)
        snprintf(to, MP_UNIT_TEXT, "%.6g", (double)value->number / (double)value->whole);
    else
        snprintf(to, MP_UNIT_TEXT, "%" PRIu64, value->number);
    return to;
}

/* ---- choosing columns ------------------------------------------------------------------------------------------- */

static bool is_end(const struct mp_column *column)
{
    return !column->title && !column->key && !column->get;
}

static bool is_for_people(const struct mp_column *column)
{
    return !column->put && (column->title || column->key);
}

static bool is_named(const char *own, const char *name, size_t length)
{
    size_t i = 0;
    for (; own && own[i] && i < length; i++)
        if (own[i] != name[i] && !((own[i] == ' ' || own[i] == '_') && (name[i] == '-' || name[i] == '_')))
            return false;
    return own && *own && i == length && !own[i];
}

static const struct mp_column *find_column(const struct mp_column *columns, unsigned never, const char *name,
                                           size_t length)
{
    for (int by_key = 0; by_key < 2; by_key++)
        for (const struct mp_column *column = columns; !is_end(column); column++)
            if (is_for_people(column) && !(column->only & never) &&
                is_named(by_key ? column->key : column->title, name, length))
                return column;
    return NULL;
}

/* Finds the columns for text and documents, in order, and a letter for each column's alignment. In text a stack comes
 * last, and takes three columns. */
static size_t choose(const struct mp_rows *rows, const struct mp_text *text, const struct mp_column **to, char *letters)
{
    size_t count = 0;
    const char *names = text->columns ? text->columns : rows->shown;
    if (names) {
        for (const char *name = names, *end; *name; name = *end ? end + 1 : end) {
            end = name + strcspn(name, ",");
            const struct mp_column *found = find_column(rows->columns, rows->never, name, (size_t)(end - name));
            if (found && count < MP_COLUMNS_MAX) to[count++] = found;
        }
    } else {
        for (unsigned place = 0; place < MP_COLUMNS_MAX; place++)
            for (const struct mp_column *column = rows->columns; !is_end(column); column++)
                if (column->title && !column->put && column->place == place &&
                    !(column->only & (rows->without | rows->never)) && !(!text->document && column->not_in_text))
                    to[count++] = column;
    }
    for (size_t i = 0; !text->document && i + 1 < count; i++)
        if (is_last(to[i])) {
            const struct mp_column *last = to[i];
            memmove(to + i, to + i + 1, (count - 1 - i) * sizeof *to);
            to[count - 1] = last;
            break;
        }
    for (size_t i = 0; i < count; i++)
        letters[i] = is_text(to[i]) && !to[i]->right ? 'l' : 'r';
    strcpy(letters + count, text->document ? "" : "ll");
    return count;
}

static const char *title_of(const struct mp_rows *rows, const struct mp_column *column)
{
    if (column->title && rows->word && !strcmp(column->title, "group")) return rows->word;
    return column->title ? column->title : column->key;
}

static const struct mp_column *site_column(const struct mp_column *const *columns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (columns[i]->unit == MP_SITE) return columns[i];
    return NULL;
}

/* Finds how rows with equal site texts are distinguished; the caller frees the result. NULL if there are no sites, or
 * if the caller has its own distinctions. */
static struct mp_site_apart *tell_apart(const struct mp_rows *rows, const struct mp_column *site)
{
    struct mp_sites shown = {.count = rows->count - rows->first};
    struct mp_value value = {0};
    if (!site || rows->apart || rows->not_apart || rows->count <= rows->first) return NULL;
    if (rows->sites) {
        shown.groups = rows->sites->groups;
        shown.modules.at = rows->sites->modules.at;
        shown.modules.count = rows->sites->modules.count;
    }
    shown.at = mp_alloc(shown.count * sizeof *shown.at);
    for (size_t i = 0; i < shown.count; i++) {
        take(&value, rows, site, rows->first + i);
        shown.at[i] = value.site;
    }
    struct mp_site_apart *apart = mp_site_apart(rows->model, &shown, shown.count, rows->apart_by);
    mp_buffer_free(&value.made);
    free(shown.at);
    return apart;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

/* Writes a row's last cells, and the further rows of a stack of several lines. */
static void put_last(struct mp_table *table, unsigned before, const struct mp_rows *rows,
                     const struct mp_column *column, const struct mp_value *value, const struct mp_site_apart *apart,
                     const void *row)
{
    if (column->wide || value->text) {
        mp_table_wide(table, column->wide ? value->style : MP_DIM, "%s", value->text ? value->text : "");
        mp_table_end_row(table);
    } else if (rows->stacks == MP_ONE_LINE) {
        mp_site_cell(table, value->model, rows->sites, &value->site, apart);
        mp_table_end_row(table);
    } else {
        mp_stack_rows(table, before, value->model, rows->sites, &value->site, apart, rows->stacks == MP_FULL_STACKS);
    }
    if (rows->below) rows->below(table, before, rows->of, row);
}

static void put_text(struct mp_text *text, const struct mp_rows *rows, const struct mp_column *const *columns,
                     size_t count, const char *letters, const struct mp_site_apart *apart)
{
    struct mp_value value = {0};
    struct mp_table table;
    mp_table_start(&table, letters);
    for (size_t i = 0; i < count && !rows->untitled; i++)
        (is_last(columns[i]) ? mp_table_wide : mp_table_cell)(&table, MP_DIM, "%s", title_of(rows, columns[i]));
    mp_table_end_row(&table);
    for (size_t row = rows->first; row < rows->count; row++) {
        for (size_t i = 0; i < count; i++) {
            take(&value, rows, columns[i], row);
            if (is_last(columns[i])) {
                put_last(&table, (unsigned)i, rows, columns[i], &value, apart ? &apart[row - rows->first] : NULL,
                         row_at(rows, row));
                continue;
            }
            mp_table_cell(&table, value.style, "%s", text_of(columns[i], rows->untitled, &value));
        }
        mp_table_end_row(&table);
    }
    mp_buffer_free(&value.made);
    mp_table_finish(&table, text);
}

/* ---- documents -------------------------------------------------------------------------------------------------- */

static void put_site(struct mp_document *document, const struct mp_model *model, const struct mp_site *site,
                     const struct mp_site_apart *apart)
{
    struct mp_buffer text = {0};
    mp_site_named_text(&text, model, site, apart);
    mp_document_cell(document, "%.*s", (int)text.size, (const char *)text.data);
    mp_buffer_free(&text);
}

static void put_cell(struct mp_document *document, const struct mp_rows *rows, const struct mp_column *column,
                     const struct mp_value *value, const struct mp_site_apart *apart)
{
    char raw[MP_UNIT_TEXT];
    if (document->form == MP_CSV && !is_text(column)) {
        mp_document_number(document, raw_of(raw, column, value));
    } else if (column->unit == MP_SITE && !value->text) {
        put_site(document, value->model, &value->site, apart);
    } else if (column->unit == MP_SHARE || (value->whole && !is_text(column))) {
        uint64_t part = column->unit == MP_CHANGE ? (uint64_t)llabs((int64_t)value->number) : value->number;
        mp_document_bar(document, part < value->whole ? part : value->whole, value->whole, "%s",
                        text_of(column, false, value));
    } else {
        mp_document_cell(document, "%s", text_of(column, false, value));
    }
}

static void put_document(struct mp_document *document, const struct mp_rows *rows,
                         const struct mp_column *const *columns, size_t count, const char *letters,
                         const struct mp_site_apart *apart)
{
    const char *heads[MP_COLUMNS_MAX] = {0};
    struct mp_value value = {0};
    for (size_t i = 0; i < count; i++)
        heads[i] = document->form == MP_CSV && columns[i]->key ? columns[i]->key : title_of(rows, columns[i]);
    mp_document_table(document, letters, heads);
    for (size_t row = rows->first; row < rows->count; row++)
        for (size_t i = 0; i < count; i++) {
            take(&value, rows, columns[i], row);
            put_cell(document, rows, columns[i], &value, apart ? &apart[row - rows->first] : NULL);
        }
    mp_buffer_free(&value.made);
    mp_document_end_table(document);
}

bool mp_rows_text(struct mp_text *text, const struct mp_rows *rows)
{
    const struct mp_column *columns[MP_COLUMNS_MAX];
    char letters[MP_COLUMNS_MAX + 3];
    size_t count = choose(rows, text, columns, letters);
    struct mp_document *document = text->document;
    if (!count || (mp_is_csv(text) ? document->tables > 0 : rows->count <= rows->first)) return false;
    if (rows->heading && *rows->heading) mp_heading(text, "%s", rows->heading);
    if (rows->heading) mp_say(text, "\n");
    if (document) mp_document_lines(document, text->out);
    struct mp_site_apart *made = tell_apart(rows, site_column(columns, count));
    const struct mp_site_apart *apart = made ? made : rows->apart;
    if (document)
        put_document(document, rows, columns, count, letters, apart);
    else
        put_text(text, rows, columns, count, letters, apart);
    free(made);
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_value(struct mp_json *json, const struct mp_column *column, const struct mp_value *value)
{
    if (value->absent) return;
    if (column->unit == MP_SITE)
        mp_stack_json(json, value->model, value->site.stack);
    else if (is_text(column))
        mp_json_text(json, column->key, value->text);
    else if (column->unit == MP_FLAG)
        mp_json_bool(json, column->key, value->number);
    else if (column->unit == MP_CHANGE)
        mp_json_signed(json, column->key, (int64_t)value->number);
    else if (column->unit == MP_REAL && isnan(value->real))
        mp_json_null(json, column->key);
    else if (column->unit == MP_REAL)
        mp_json_real(json, column->key, value->real);
    else if (column->unit == MP_SHARE)
        mp_json_share(json, column->key, value->number, value->whole);
    else
        mp_json_known(json, column->key, value->number);
}

static void members_json(struct mp_json *json, const struct mp_rows *rows, size_t row)
{
    struct mp_value value = {0};
    for (const struct mp_column *column = rows->columns; !is_end(column); column++) {
        if (!column->key || column->only & (rows->json_without | rows->never)) continue;
        if (column->put) {
            column->put(json, column->key, rows->of, row_at(rows, row));
            continue;
        }
        take(&value, rows, column, row);
        put_value(json, column, &value);
    }
    mp_buffer_free(&value.made);
}

void mp_elements_json(struct mp_json *json, const struct mp_rows *rows)
{
    bool outer = json->flat;
    for (size_t row = rows->first; row < rows->count; row++) {
        mp_json_object(json, NULL);
        json->flat |= rows->flat;
        members_json(json, rows, row);
        mp_json_end_object(json);
        json->flat = outer;
    }
}

void mp_rows_json(struct mp_json *json, const char *key, const struct mp_rows *rows)
{
    mp_json_array(json, key);
    mp_elements_json(json, rows);
    mp_json_end_array(json);
}

void mp_object_json(struct mp_json *json, const char *key, const struct mp_rows *rows)
{
    if (!rows->count) {
        mp_json_null(json, key);
        return;
    }
    mp_json_object(json, key);
    members_json(json, rows, 0);
    mp_json_end_object(json);
}

/* ---- names of columns ------------------------------------------------------------------------------------------- */

/* Appends each column's name once, as users type it: "born-in". */
static void list_names(struct mp_buffer *out, const struct mp_column *const *tables)
{
    for (; *tables; tables++)
        for (const struct mp_column *column = *tables; !is_end(column); column++) {
            const char *name = column->title && *column->title ? column->title : column->key;
            if (!is_for_people(column) || !name) continue;
            struct mp_buffer typed = {0};
            mp_buffer_append_text(&typed, " ");
            for (const char *at = name; *at; at++)
                mp_buffer_append(&typed, *at == ' ' ? "-" : at, 1);
            mp_buffer_append_text(&typed, ",");
            if (!memmem(out->data, out->size, typed.data, typed.size)) mp_buffer_append(out, typed.data, typed.size);
            mp_buffer_free(&typed);
        }
}

enum mp_status mp_columns_check(const char *names, const struct mp_column *const *tables, struct mp_error *error)
{
    for (const char *name = names, *end; *names; name = end + 1) {
        const struct mp_column *found = NULL;
        end = name + strcspn(name, ",");
        for (size_t i = 0; tables[i] && !found; i++)
            found = find_column(tables[i], 0, name, (size_t)(end - name));
        if (!found) {
            struct mp_buffer known = {0};
            list_names(&known, tables);
            enum mp_status status = mp_fail(error, MP_INVALID, "--columns: there is no column \"%.*s\"; there are%.*s",
                                            (int)(end - name), name, (int)known.size - 1, (const char *)known.data);
            mp_buffer_free(&known);
            return status;
        }
        if (!*end) return MP_OK;
    }
    return MP_OK;
}
