#include "output/page/page_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The places of the title and the data in a template. */
static const char title_mark[] = "<!--memprof:title-->";
static const char data_mark[] = "<!--memprof:data-->";

void mp_page_put_columns(struct mp_json *json, const struct mp_page_columns *columns)
{
    size_t bytes = 0;
    mp_json_array(json, "columns");
    mp_vec_each (const struct mp_page_column, column, columns) {
        mp_json_array(json, NULL);
        mp_json_text(json, NULL, column->name);
        mp_json_number(json, NULL, column->count);
        mp_json_number(json, NULL, column->packed.raw_size);
        mp_json_number(json, NULL, column->packed.size);
        mp_json_end_array(json);
        bytes += column->packed.size;
    }
    mp_json_end_array(json);
    mp_json_number(json, "bytes", bytes);
    mp_json_number(json, "scripts", mp_packed_scripts(bytes));
}

/* Appends JSON with `<`, `>` and `&` escaped: JSON has them only in strings, and HTML would interpret `</script` and
 * `<!--` there. */
static void append_for_script(struct mp_buffer *to, const struct mp_buffer *json)
{
    size_t from = 0;
    for (size_t i = 0; i < json->size; i++) {
        unsigned char byte = json->data[i];
        if (byte != '<' && byte != '>' && byte != '&') continue;
        mp_buffer_append(to, json->data + from, i - from);
        mp_buffer_printf(to, "\\u%04x", byte);
        from = i + 1;
    }
    if (json->size) mp_buffer_append(to, json->data + from, json->size - from);
}

static void write_columns(const struct mp_page_columns *columns, FILE *out)
{
    struct mp_packed *packed = mp_alloc_zeroed(columns->count + 1, sizeof *packed);
    for (size_t i = 0; i < columns->count; i++)
        packed[i] = columns->at[i].packed;
    mp_packed_write(packed, columns->count, out);
    free(packed);
}

enum mp_status mp_page_file_write(const unsigned char *template, const struct mp_buffer *title,
                                  const struct mp_buffer *header, const struct mp_page_columns *columns, FILE *out,
                                  struct mp_error *error)
{
    const char *start = (const char *)template, *title_at = strstr(start, title_mark);
    const char *data_at = title_at ? strstr(title_at, data_mark) : NULL;
    if (!data_at) return mp_fail(error, MP_UNSUPPORTED, "this memprof was built without its page");
    const char *after_title = title_at + sizeof title_mark - 1;

    struct mp_buffer text = {0};
    mp_buffer_append(&text, start, (size_t)(title_at - start));
    if (title->size) mp_buffer_append(&text, title->data, title->size);
    mp_buffer_append(&text, after_title, (size_t)(data_at - after_title));
    mp_buffer_append_text(&text, "<script type=\"application/json\" id=\"header\">");
    append_for_script(&text, header);
    mp_buffer_append_text(&text, "</script>\n");
    fwrite(text.data, 1, text.size, out);
    mp_buffer_free(&text);

    write_columns(columns, out);
    fputs(data_at + sizeof data_mark - 1, out);
    if (fflush(out) || ferror(out)) return mp_fail_errno(error, "cannot write the page");
    return MP_OK;
}
