#include "cli/help.h"
#include "cli/manual.h"
#include "cli/output_file.h"

static int run_help(const struct mp_invocation *invocation)
{
    const char *name = invocation->operand_count ? invocation->operands[0] : NULL;
    const struct mp_command *command = name ? mp_command_find(name) : NULL;
    if (name && !command) return mp_command_unknown(name);
    if (!mp_given(invocation, MP_OPT_MAN)) return command ? mp_help_of_command(command) : mp_help_of_all();
    struct mp_buffer out = {0};
    mp_manual_write(&out, command);
    int status = mp_output_buffer(invocation, &out);
    mp_buffer_free(&out);
    return status;
}

const struct mp_command mp_command_help = {
    .name = "help",
    .summary = "what a command does and takes",
    .usage = "[COMMAND]",
    .example = "memprof help peak",
    .options = {MP_OPT_OUTPUT, MP_OPT_MAN},
    .operands_max = 1,
    .run = run_help,
};
