#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/commit.h"
#include "cli/invocation.h"
#include "cli/output_file.h"

#define WIDTH        80
#define COMMAND_ROOM 14 /* columns for a command's name and the blanks after it */

static int print(struct mp_buffer *out)
{
    static const struct mp_invocation to_stdout;
    int status = mp_output_buffer(&to_stdout, out);
    mp_buffer_free(out);
    return status;
}

/* Appends `text` in lines of at most WIDTH characters, each after `indent` blanks. The first line already has `written`
 * characters. */
static void wrap(struct mp_buffer *out, const char *text, int indent, int written)
{
    int at = written;
    bool first = true;
    while (*text) {
        int word = (int)strcspn(text, " \n");
        if (!first && at + 1 + word > WIDTH) {
            mp_buffer_append_text(out, "\n");
            at = 0;
            first = true;
        }
        int before = first ? at ? 0 : indent : 1;
        mp_buffer_printf(out, "%*s%.*s", before, "", word, text);
        at += before + word;
        first = false;
        text += word;
        text += strspn(text, " ");
        for (; *text == '\n'; text++, at = 0, first = true)
            mp_buffer_append_text(out, "\n");
    }
    mp_buffer_append_text(out, "\n");
}

int mp_help_version(void)
{
    struct mp_buffer out = {0};
    const char *last = "";
    mp_buffer_append_text(&out, "memprof " PACKAGE_VERSION MP_COMMIT "\n");
    for (const struct mp_command_left_out *one = mp_commands_left_out; one->name; last = (one++)->part)
        if (strcmp(last, one->part)) mp_buffer_printf(&out, "%s%s", *last ? ", " : "built without ", one->part);
    if (*last) mp_buffer_append_text(&out, "\n");
    return print(&out);
}

int mp_help_of_all(void)
{
    struct mp_buffer out = {0};
    mp_buffer_append_text(&out, "memprof records where GPU memory goes and finds what keeps it.\n\n"
                                "  memprof snapshot -o run.mp -- python3 train.py   record a program, unchanged\n"
                                "  memprof report run.mp                            the whole story on one screen\n"
                                "  memprof trace_plot run.mp -o trace.html          every block over time, a page\n");
    for (size_t i = 0; mp_commands[i]; i++) {
        const char *heading = mp_command_heading(mp_commands[i]);
        if (mp_commands[i]->hidden) continue;
        if (heading) mp_buffer_printf(&out, "\n%s:\n", heading);
        mp_buffer_printf(&out, "  %-*s%s\n", COMMAND_ROOM, mp_commands[i]->name, mp_commands[i]->summary);
    }
    mp_buffer_append_text(&out, "\nmemprof FILE is memprof report FILE.\n"
                                "memprof COMMAND --help shows a command's options and an example.\n");
    return print(&out);
}

/* The left column of an option: "-o, --output FILE". */
static void option_name(char *name, size_t room, const struct mp_option_row *row)
{
    char letter[5] = {'-', row->letter, ',', ' '};
    snprintf(name, room, "  %s--%s%s%s", row->letter ? letter : "    ", row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
}

#define USAGE_INDENT 7
#define NAME_ROOM    26 /* columns for an option's name and two blanks; a longer name gets its own line */

static void option_rows(struct mp_buffer *out, const struct mp_command *command, enum mp_option_group group)
{
    char name[64];
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        const struct mp_option_row *row = &mp_option_rows[i];
        if (!mp_command_takes(command, i) || row->group != group) continue;
        option_name(name, sizeof name, row);
        bool fits = strlen(name) + 2 <= NAME_ROOM;
        mp_buffer_printf(out, "%-*s%s", fits ? NAME_ROOM : 0, name, fits ? "" : "\n");
        wrap(out, mp_command_option_help(command, i), NAME_ROOM, fits ? NAME_ROOM : 0);
    }
}

static void option_groups(struct mp_buffer *out, const struct mp_command *command)
{
    static const char *const headings[MP_OPTION_GROUPS] = {[MP_OPTS_COMMON] = NULL,
                                                           [MP_OPTS_RECORDED] = "What is recorded",
                                                           [MP_OPTS_STEPS] = "Steps",
                                                           [MP_OPTS_LONG_RUNS] = "Long runs, and programs that run",
                                                           [MP_OPTS_RARE] = "Rarely needed"};
    for (int group = 0; group < MP_OPTION_GROUPS; group++) {
        struct mp_buffer rows = {0};
        option_rows(&rows, command, group);
        if (rows.size && headings[group]) mp_buffer_printf(out, "\n%s:\n", headings[group]);
        mp_buffer_append(out, rows.data, rows.size);
        mp_buffer_free(&rows);
    }
}

int mp_help_of_command(const struct mp_command *command)
{
    struct mp_buffer out = {0};
    mp_buffer_printf(&out, "memprof %s: %s\n\n", command->name, command->summary);
    size_t before = out.size;
    mp_buffer_printf(&out, "usage: memprof %s [options]%s", command->name, *command->usage ? " " : "");
    wrap(&out, command->usage, USAGE_INDENT, (int)(out.size - before));
    mp_buffer_append_text(&out, "\n");
    option_groups(&out, command);
    if (command->about) {
        mp_buffer_append_text(&out, "\n");
        wrap(&out, command->about, 0, 0);
    }
    mp_buffer_printf(&out, "\nexample: %s\n", command->example);
    return print(&out);
}
