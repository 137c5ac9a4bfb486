#include "output/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"
#include "model/track.h"
#include "output/html.h"
#include "output/page_data.h"
#include "output/page_header.h"
#include "output/page_template.h"

/* Where the template has the title and the recording. */
static const char title_mark[] = "<!--memprof:title-->";
static const char data_mark[] = "<!--memprof:data-->";

/* "run.mp: python3 train.py, cuda:0/torch, peak 61.4 GiB": what a browser's tab and its history show. */
static void append_title(struct mp_buffer *to, const struct mp_model *model, const struct mp_page_options *options,
                         const struct mp_page_data *data)
{
    mp_html_text(to, options->title ? options->title : "memprof");
    for (size_t i = 0; model->start.command && model->start.command[i]; i++) {
        mp_buffer_append_text(to, i ? " " : ": ");
        mp_html_text(to, model->start.command[i]);
    }
    unsigned track = mp_page_first_track(model, options);
    if (track >= model->tracks.count) return;
    char id[MP_TRACK_ID_MAX], peak[MP_UNIT_TEXT];
    mp_buffer_append_text(to, ", ");
    mp_html_text(to, mp_track_id(model, (uint16_t)track, id));
    mp_buffer_printf(to, ", peak %s", mp_format_bytes(peak, data->tracks.at[track].peak_bytes));
}

static enum mp_status write_data(const struct mp_page_data *data, FILE *out, struct mp_error *error)
{
    struct mp_packed *packed = calloc(data->columns.count + 1, sizeof *packed);
    if (!packed) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the page");
    for (size_t i = 0; i < data->columns.count; i++)
        packed[i] = data->columns.at[i].packed;
    mp_packed_write(packed, data->columns.count, out);
    free(packed);
    return MP_OK;
}

static enum mp_status write_page(const struct mp_model *model, const struct mp_page_options *options,
                                 const struct mp_page_data *data, FILE *out, struct mp_error *error)
{
    const char *template = (const char *)mp_page_template;
    const char *title_at = strstr(template, title_mark);
    const char *data_at = title_at ? strstr(title_at, data_mark) : NULL;
    if (!data_at) return mp_fail(error, MP_UNSUPPORTED, "this memprof was built without its page");
    const char *after_title = title_at + sizeof title_mark - 1;

    struct mp_buffer text = {0};
    mp_buffer_append(&text, template, (size_t)(title_at - template));
    append_title(&text, model, options, data);
    mp_buffer_append(&text, after_title, (size_t)(data_at - after_title));
    mp_buffer_append_text(&text, "<script type=\"application/json\" id=\"header\">");
    mp_page_header(model, options, data, &text);
    mp_buffer_append_text(&text, "</script>\n");
    if (text.failed) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the page");
    fwrite(text.data, 1, text.size, out);
    mp_buffer_free(&text);

    enum mp_status status = write_data(data, out, error);
    if (status) return status;
    fputs(data_at + sizeof data_mark - 1, out);
    if (fflush(out) || ferror(out)) return mp_fail_errno(error, "cannot write the page");
    return MP_OK;
}

enum mp_status mp_page_write(const struct mp_model *model, const struct mp_page_options *options, FILE *out,
                             struct mp_error *error)
{
    struct mp_page_data data;
    enum mp_status status = mp_page_data_make(model, options->cut, options->rules, &data, error);
    if (status) return status;
    status = write_page(model, options, &data, out, error);
    mp_page_data_free(&data);
    return status;
}
