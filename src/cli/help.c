#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/output_file.h"
#include "output/report/text.h"

#define WIDTH 80

static int print(struct mp_buffer *out)
{
    static const struct mp_invocation to_stdout;
    int status = mp_output_buffer(&to_stdout, out);
    mp_buffer_free(out);
    return status;
}

/* Text in lines of at most WIDTH characters, each after `indent` blanks. */
static void wrap(struct mp_buffer *out, const char *text, int indent)
{
    int at = 0;
    while (*text) {
        int word = (int)strcspn(text, " \n");
        if (at && at + 1 + word > WIDTH) {
            mp_buffer_append_text(out, "\n");
            at = 0;
        }
        mp_buffer_printf(out, "%*s%.*s", at ? 1 : indent, "", word, text);
        at += word + (at ? 1 : indent);
        text += word;
        text += strspn(text, " ");
        for (; *text == '\n'; text++, at = 0)
            mp_buffer_append_text(out, "\n");
    }
    mp_buffer_append_text(out, "\n");
}

int mp_help_version(void)
{
    struct mp_buffer out = {0};
    mp_buffer_append_text(&out, "memprof " PACKAGE_VERSION "\n");
    return print(&out);
}

int mp_help_of_all(void)
{
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    struct mp_table table;
    mp_buffer_append_text(&out, "memprof records where GPU memory goes and finds what keeps it.\n\n"
                                "usage: memprof COMMAND [options] FILE\n\n");
    mp_table_start(&table, "ll");
    for (size_t i = 0; mp_commands[i]; i++) {
        if (mp_commands[i]->hidden) continue;
        mp_table_cell(&table, MP_PLAIN, "%s", mp_commands[i]->name);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_commands[i]->summary);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, &text);
    mp_buffer_append_text(&out,
                          "\nmemprof FILE is memprof report FILE. memprof COMMAND --help shows a command's options\n"
                          "and an example.\n");
    return print(&out);
}

static void option_rows(struct mp_text *text, const struct mp_command *command)
{
    struct mp_table table;
    mp_table_start(&table, "ll");
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        const struct mp_option_row *row = &mp_option_rows[i];
        if (!mp_command_takes(command, i)) continue;
        char letter[5] = {'-', row->letter, ',', ' '};
        mp_table_cell(&table, MP_PLAIN, "%s--%s%s%s", row->letter ? letter : "    ", row->name,
                      row->argument ? " " : "", row->argument ? row->argument : "");
        mp_table_cell(&table, MP_PLAIN, "%s", row->help);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

int mp_help_of_command(const struct mp_command *command)
{
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    mp_buffer_printf(&out, "memprof %s: %s\n\nusage: memprof %s [options] %s\n\n", command->name, command->summary,
                     command->name, command->usage);
    option_rows(&text, command);
    if (command->about) {
        mp_buffer_append_text(&out, "\n");
        wrap(&out, command->about, 0);
    }
    mp_buffer_printf(&out, "\nexample: %s\n", command->example);
    return print(&out);
}
