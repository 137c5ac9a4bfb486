#include "cli/form.h"

#include <string.h>
#include <unistd.h>

#include "model/stack.h"

static const struct {
    const char *name;
    bool document;
    enum mp_document_form form;
} forms[] = {
    {"text", false, MP_MARKDOWN}, {"markdown", true, MP_MARKDOWN}, {"html", true, MP_HTML}, {"csv", true, MP_CSV}};

/* The form that a file name's ending selects; NULL: none. */
static const char *format_of_name(const char *path)
{
    static const char *const endings[][2] = {{".html", "html"}, {".htm", "html"}, {".md", "markdown"}, {".csv", "csv"}};
    const char *ending = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(ending, endings[i][0])) return endings[i][1];
    return NULL;
}

int mp_form_read(const struct mp_invocation *invocation, bool *document, enum mp_document_form *form)
{
    const char *format = invocation->value[MP_OPT_FORMAT];
    bool json = mp_given(invocation, MP_OPT_JSON);
    *document = false;
    *form = MP_MARKDOWN;
    if (format && json) return mp_refuse("--json and --format do not go together");
    if (format && !strcmp(format, "html") && !invocation->value[MP_OPT_OUTPUT] && isatty(STDOUT_FILENO))
        return mp_refuse("--format html: a page is no text for a terminal; give it a file with -o FILE.html");
    if (!format && !json) format = format_of_name(invocation->value[MP_OPT_OUTPUT]);
    for (size_t i = 0; format && i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(format, forms[i].name)) continue;
        *document = forms[i].document;
        *form = forms[i].form;
        return MP_EXIT_DONE;
    }
    if (!format) return MP_EXIT_DONE;
    return mp_refuse("--format: there is no format \"%s\"; there are text, markdown, html and csv", format);
}

/* Each command's tables whose columns can be chosen. */
static const struct {
    const char *command;
    const struct mp_column *tables[4];
} own[] = {
    {"report", {mp_site_columns, mp_finding_columns, mp_region_columns}},
    {"peak", {mp_site_columns}},
    {"leaks", {mp_finding_columns, mp_site_columns}},
    {"steps", {mp_step_columns, mp_region_columns}},
    {"compare", {mp_compare_columns, mp_compared_columns}},
    {"advise", {mp_change_columns}},
    {"holders", {mp_holders_columns}},
    {"frag", {mp_segment_columns, mp_stream_columns, mp_pin_columns}},
    {"info", {mp_track_columns, mp_device_columns, mp_sample_columns}},
};

static int check_columns(const struct mp_invocation *invocation, const struct mp_column *const *tables)
{
    const char *columns = invocation->value[MP_OPT_COLUMNS];
    struct mp_error error;
    for (size_t i = 0; !tables && i < sizeof own / sizeof *own; i++)
        if (!strcmp(own[i].command, invocation->command->name)) tables = own[i].tables;
    if (!columns || !tables || !mp_columns_check(columns, tables, &error)) return MP_EXIT_DONE;
    return mp_refuse("%s", error.text);
}

int mp_form_open(const struct mp_invocation *invocation, const struct mp_column *const *tables, struct mp_buffer *out,
                 struct mp_text *text, struct mp_document *document)
{
    enum mp_document_form form;
    bool asked;
    text->out = out;
    if (!mp_command_takes(invocation->command, MP_OPT_COLUMNS)) return MP_EXIT_DONE;
    int status = mp_form_read(invocation, &asked, &form);
    if (!status) status = check_columns(invocation, tables);
    if (status) return status;
    if (asked && invocation->operand_count) {
        mp_document_start(document, out, form, mp_path_short(invocation->operands[invocation->operand_count - 1]));
        *text = document->text;
    }
    text->columns = invocation->value[MP_OPT_COLUMNS];
    return MP_EXIT_DONE;
}

void mp_form_close(struct mp_document *document)
{
    if (document->out) mp_document_end(document);
    document->out = NULL;
}
