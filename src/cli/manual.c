#include <ctype.h>

#include "cli/help.h"

/* Text as roff takes it literally: no line begins a request, no hyphen is stretched. */
static void roff(struct mp_buffer *out, const char *text)
{
    for (; *text; text++) {
        if (text[0] == '\n' && text[1] == '\n') {
            mp_buffer_append_text(out, "\n.PP\n\\&");
            text++;
        } else if (*text == '\\') {
            mp_buffer_append_text(out, "\\e");
        } else if (*text == '-') {
            mp_buffer_append_text(out, "\\-");
        } else {
            mp_buffer_append(out, text, 1);
        }
    }
}

static void paragraph(struct mp_buffer *out, const char *text)
{
    mp_buffer_append_text(out, ".PP\n\\&");
    roff(out, text);
    mp_buffer_append_text(out, "\n");
}

static void option_head(struct mp_buffer *out, const struct mp_option_row *row)
{
    mp_buffer_append_text(out, ".TP\n");
    if (row->letter) mp_buffer_printf(out, "\\fB\\-%c\\fR, ", row->letter);
    mp_buffer_append_text(out, "\\fB\\-\\-");
    roff(out, row->name);
    mp_buffer_append_text(out, "\\fR");
    if (row->argument) mp_buffer_printf(out, " \\fI%s\\fR", row->argument);
    mp_buffer_append_text(out, "\n");
}

static void command_section(struct mp_buffer *out, const struct mp_command *command)
{
    mp_buffer_printf(out, ".SS memprof %s [options] %s\n", command->name, command->usage);
    mp_buffer_printf(out, "%c", toupper((unsigned char)command->summary[0]));
    roff(out, command->summary + 1);
    mp_buffer_append_text(out, ".\n");
    if (command->about) paragraph(out, command->about);
    mp_buffer_append_text(out, ".PP\nOptions:");
    bool any = false;
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        if (!mp_command_takes(command, i)) continue;
        mp_buffer_append_text(out, any ? ", \\fB\\-\\-" : " \\fB\\-\\-");
        roff(out, mp_option_rows[i].name);
        mp_buffer_append_text(out, "\\fR");
        any = true;
    }
    mp_buffer_append_text(out, ".\n.PP\nExample:\n.PP\n.RS 4\n.nf\n");
    roff(out, command->example);
    mp_buffer_append_text(out, "\n.fi\n.RE\n");
}

void mp_manual_write(struct mp_buffer *out)
{
    mp_buffer_append_text(out, ".\\\" Made by `memprof help --man`; do not edit.\n"
                               ".TH MEMPROF 1 \"\" \"memprof\" \"User Commands\"\n"
                               ".SH NAME\nmemprof \\- record where GPU memory goes and find what keeps it\n"
                               ".SH SYNOPSIS\n\\fBmemprof\\fR \\fICOMMAND\\fR [options] \\fIFILE\\fR\n"
                               ".SH COMMANDS\n");
    for (size_t i = 0; mp_commands[i]; i++)
        if (!mp_commands[i]->hidden) command_section(out, mp_commands[i]);
    mp_buffer_append_text(out, ".SH OPTIONS\n");
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        option_head(out, &mp_option_rows[i]);
        roff(out, mp_option_rows[i].help);
        mp_buffer_append_text(out, "\n");
    }
    mp_buffer_append_text(
        out,
        ".SH EXIT STATUS\n"
        ".TP\n0\ndone\n.TP\n1\ncould not; the message says what and what to do\n.TP\n2\nwrong usage\n"
        ".TP\n3\nthe check that was asked for found something\n"
        ".TP\n4\ndone, but the recording is cut or damaged or lost events\n"
        ".SH ENVIRONMENT\n.TP\n\\fBMEMPROF_CONF\\fR\nsettings as option=value,option=value; the command line and "
        "\\-\\-config come before it\n"
        ".TP\n\\fBNO_COLOR\\fR\nwhere it is set, \\-\\-color auto means never\n"
        ".SH SEE ALSO\n\\fBmemprof\\-formats\\fR(7) says of each form that is read or written what is lost in it.\n");
}
