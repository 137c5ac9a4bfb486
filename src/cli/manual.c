#include <ctype.h>
#include <stdio.h>

#include "analysis/categories/categories.h"
#include "cli/help.h"
#include "cli/manual.h"

/* Appends text so that roff takes it literally: hyphens are escaped, and so are lines that would begin a request. */
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

static void put_option(struct mp_buffer *out, const struct mp_command *command, enum mp_option option)
{
    const struct mp_option_row *row = &mp_option_rows[option];
    mp_buffer_append_text(out, ".TP\n");
    if (row->letter) mp_buffer_printf(out, "\\fB\\-%c\\fR, ", row->letter);
    mp_buffer_append_text(out, "\\fB\\-\\-");
    roff(out, row->name);
    mp_buffer_append_text(out, "\\fR");
    if (row->argument) mp_buffer_printf(out, " \\fI%s\\fR", row->argument);
    mp_buffer_append_text(out, "\n");
    roff(out, mp_command_option_help(command, option));
    mp_buffer_append_text(out, "\n");
}

static void title(struct mp_buffer *out, const char *name, const char *summary)
{
    mp_buffer_append_text(out, ".\\\" Made by `memprof help --man`; do not edit.\n.TH ");
    for (const char *at = name; *at; at++)
        mp_buffer_printf(out, "%c", toupper((unsigned char)*at));
    mp_buffer_append_text(out, " 1 \"\" \"memprof\" \"User Commands\"\n.SH NAME\n");
    roff(out, name);
    mp_buffer_append_text(out, " \\- ");
    roff(out, summary);
    mp_buffer_append_text(out, "\n.SH SYNOPSIS\n");
}

static void command_page(struct mp_buffer *out, const struct mp_command *command)
{
    char name[64];
    snprintf(name, sizeof name, "memprof-%s", command->name);
    title(out, name, command->summary);
    mp_buffer_printf(out, "\\fBmemprof %s\\fR [options] ", command->name);
    roff(out, command->usage);
    if (command->about) {
        mp_buffer_append_text(out, "\n.SH DESCRIPTION\n\\&");
        roff(out, command->about);
    }
    mp_buffer_append_text(out, "\n.SH OPTIONS\n");
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++)
        if (mp_command_takes(command, i)) put_option(out, command, i);
    mp_buffer_append_text(out, ".SH EXAMPLE\n.nf\n");
    roff(out, command->example);
    mp_buffer_append_text(out, "\n.fi\n.SH SEE ALSO\n"
                               "\\fBmemprof\\fR(1) has the exit statuses, the variables and the categories.\n");
}

/* One rule per line, as in a file of rules. */
static void rule_lines(struct mp_buffer *out, bool doubtless)
{
    mp_buffer_append_text(out, ".PP\n.RS 4\n.nf\n");
    struct mp_category_rule rule;
    for (size_t i = 0; mp_category_rule(i, &rule); i++) {
        if (rule.doubtless != doubtless) continue;
        roff(out, rule.category);
        mp_buffer_append_text(out, " = ");
        roff(out, rule.regex);
        mp_buffer_append_text(out, "\n");
    }
    mp_buffer_append_text(out, ".fi\n.RE\n.PP\n");
}

static void categories_section(struct mp_buffer *out)
{
    mp_buffer_append_text(out, ".SH CATEGORIES\n");
    roff(out,
         "Uses of a PyTorch program's blocks: parameters, gradients (of parameters; gradients of activations are "
         "temporary), optimizer state, buffers, activations, input, temporary, workspace, communication. Forward "
         "passes without a backward (validation, generation, serving) are inference. Their blocks are working memory, "
         "or are kept over calls (keys and values, a state). A graph that is still held while the same code makes the "
         "next one is a previous graph. A block without a category is shown as (unknown), in JSON as null. The first "
         "of these that applies to a block decides:\n\n"
         "1. the rules of --rules FILE, lines NAME = REGEX. REGEX is a POSIX extended regular expression. Each frame "
         "of the block's stack is searched for it, written FUNCTION FILE:LINE, or FUNCTION LIBRARY for a native frame "
         "without a known file. The first rule that fits counts. NAME may be one of the names above or a new one; "
         "lines that begin with # are comments;\n\n"
         "2. PyTorch's own use of the block (memprof snapshot without --no-shim), or of most others of the same "
         "stack, module and size;\n\n"
         "3. these built-in rules:\n");
    rule_lines(out, true);
    roff(out,
         "4. its birth and its free. A block from forward that lives when backward begins is an activation. One from "
         "backward or the optimizer that outlives it is a gradient or optimizer state. One from before forward that "
         "forward uses is input. A block freed in the phase that made it is temporary;\n\n"
         "5. without PyTorch's own words, as in its snapshots, these:\n");
    rule_lines(out, false);
    roff(out,
         "6. a guess, marked as one, for blocks from before the recording without a stack. It looks at where these "
         "blocks are freed: in backward, by zero_grad(), in the optimizer's step, or many at once by the caller's "
         "line. It also compares sizes, since each gradient has a parameter and optimizer state of its size.\n");
}

void mp_manual_write(struct mp_buffer *out, const struct mp_command *command)
{
    if (command) {
        command_page(out, command);
        return;
    }
    title(out, "memprof", "record where GPU memory goes and find what keeps it");
    mp_buffer_append_text(out, "\\fBmemprof\\fR \\fICOMMAND\\fR [options] \\fIFILE\\fR\n.br\n"
                               "\\fBmemprof\\fR \\fIFILE\\fR, which is \\fBmemprof report\\fR \\fIFILE\\fR\n"
                               ".SH COMMANDS\nEach has a page of its own, such as \\fBmemprof\\-snapshot\\fR(1).\n");
    for (size_t i = 0; mp_commands[i]; i++) {
        if (mp_commands[i]->hidden) continue;
        mp_buffer_printf(out, ".TP\n\\fB%s\\fR\n", mp_commands[i]->name);
        roff(out, mp_commands[i]->summary);
        mp_buffer_append_text(out, "\n");
    }
    categories_section(out);
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
