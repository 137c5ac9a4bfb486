#include "cli/help.h"
#include "cli/output_file.h"

static int run_help(const struct mp_invocation *invocation)
{
    if (mp_given(invocation, MP_OPT_MAN) || mp_given(invocation, MP_OPT_COMPLETION)) {
        struct mp_buffer out = {0};
        (mp_given(invocation, MP_OPT_MAN) ? mp_manual_write : mp_completion_write)(&out);
        int status = mp_output_buffer(invocation, &out);
        mp_buffer_free(&out);
        return status;
    }
    if (!invocation->operand_count) return mp_help_of_all();
    const struct mp_command *command = mp_command_find(invocation->operands[0]);
    return command ? mp_help_of_command(command) : mp_command_unknown(invocation->operands[0]);
}

const struct mp_command mp_command_help = {
    .name = "help",
    .summary = "what a command does and takes",
    .usage = "[COMMAND]",
    .example = "memprof help peak",
    .options = {MP_OPT_OUTPUT, MP_OPT_MAN, MP_OPT_COMPLETION},
    .operands_max = 1,
    .run = run_help,
};
