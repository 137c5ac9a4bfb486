#include "output/report/columns.h"

#include <stdio.h>

#include "base/units.h"

static bool is_text(const struct mp_column *column)
{
    return column->unit <= MP_STRING_OR_NONE;
}

static void take_member(struct mp_value *value, const struct mp_model *model, const struct mp_column *column,
                        const void *row)
{
    const void *at = (const char *)row + column->offset;
    value->number = column->width == 8   ? *(const uint64_t *)at
                    : column->width == 4 ? *(const uint32_t *)at
                                         : *(const uint8_t *)at;
    if (column->unit == MP_NAME)
        value->text = *(const char *const *)at;
    else if (column->unit == MP_STRING || (column->unit == MP_STRING_OR_NONE && value->number))
        value->text = mp_model_text(model, (uint32_t)value->number);
}

static void take(struct mp_value *value, const struct mp_rows *rows, const struct mp_column *column, size_t number)
{
    const void *row = (const char *)rows->at + number * rows->size;
    mp_buffer_clear(&value->made);
    *value = (struct mp_value){.style = column->style, .made = value->made};
    if (column->get)
        column->get(value, rows->of, row);
    else
        take_member(value, rows->model, column, row);
    if (!value->made.size) return;
    mp_buffer_append(&value->made, "", 1);
    value->text = (const char *)value->made.data;
}

static const char *text_of(char *to, enum mp_unit unit, const struct mp_value *value)
{
    if (value->text) return value->text;
    if (unit <= MP_STRING_OR_NONE) return "";
    if (value->number == MP_BYTES_UNKNOWN) return "-";
    if (unit == MP_BYTES) return mp_format_bytes(to, value->number);
    if (unit == MP_DURATION) return mp_format_duration(to, value->number);
    if (unit == MP_COUNT) return mp_format_count(to, value->number);
    snprintf(to, MP_UNIT_TEXT, "%.1f %%", value->whole ? 100.0 * (double)value->number / (double)value->whole : 0.0);
    return to;
}

/* The columns that people see, in their order, and a letter for each side. */
static size_t choose(const struct mp_rows *rows, bool text, const struct mp_column **to, char *letters)
{
    size_t count = 0;
    for (unsigned place = 0; place < MP_COLUMNS_MAX; place++)
        for (const struct mp_column *column = rows->columns; column->title || column->key; column++)
            if (column->title && column->place == place && !(column->only & rows->without) &&
                !(text && column->not_in_text)) {
                letters[count] = is_text(column) ? 'l' : 'r';
                to[count++] = column;
            }
    letters[count] = '\0';
    return count;
}

void mp_rows_text(struct mp_text *text, const struct mp_rows *rows)
{
    const struct mp_column *columns[MP_COLUMNS_MAX];
    char letters[MP_COLUMNS_MAX + 1], number[MP_UNIT_TEXT];
    size_t count = choose(rows, true, columns, letters);
    struct mp_value value = {0};
    struct mp_table table;
    mp_table_start(&table, letters);
    for (size_t i = 0; i < count; i++)
        mp_table_cell(&table, MP_DIM, "%s", columns[i]->title);
    mp_table_end_row(&table);
    for (size_t row = rows->first; row < rows->count; row++) {
        for (size_t i = 0; i < count; i++) {
            take(&value, rows, columns[i], row);
            mp_table_cell(&table, value.style, "%s", text_of(number, columns[i]->unit, &value));
        }
        mp_table_end_row(&table);
    }
    mp_buffer_free(&value.made);
    mp_table_finish(&table, text);
}

void mp_rows_document(struct mp_document *document, const struct mp_rows *rows)
{
    const struct mp_column *columns[MP_COLUMNS_MAX];
    const char *heads[MP_COLUMNS_MAX] = {0};
    char letters[MP_COLUMNS_MAX + 1], number[MP_UNIT_TEXT];
    size_t count = choose(rows, false, columns, letters);
    struct mp_value value = {0};
    for (size_t i = 0; i < count; i++)
        heads[i] = columns[i]->title;
    mp_document_table(document, letters, heads);
    for (size_t row = rows->first; row < rows->count; row++)
        for (size_t i = 0; i < count; i++) {
            take(&value, rows, columns[i], row);
            const char *cell = text_of(number, columns[i]->unit, &value);
            if (columns[i]->unit == MP_SHARE)
                mp_document_bar(document, value.number < value.whole ? value.number : value.whole, value.whole, "%s",
                                cell);
            else
                mp_document_cell(document, "%s", cell);
        }
    mp_buffer_free(&value.made);
    mp_document_end_table(document);
}

void mp_rows_json(struct mp_json *json, const char *key, const struct mp_rows *rows)
{
    struct mp_value value = {0};
    mp_json_array(json, key);
    for (size_t row = rows->first; row < rows->count; row++) {
        mp_json_object(json, NULL);
        json->flat = rows->flat;
        for (const struct mp_column *column = rows->columns; column->title || column->key; column++) {
            if (!column->key || column->only & rows->json_without) continue;
            take(&value, rows, column, row);
            if (is_text(column))
                mp_json_text(json, column->key, value.text);
            else if (column->unit == MP_FLAG)
                mp_json_bool(json, column->key, value.number);
            else
                mp_json_known(json, column->key, value.number);
        }
        if (rows->members) rows->members(json, rows->of, row);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
    mp_buffer_free(&value.made);
}
