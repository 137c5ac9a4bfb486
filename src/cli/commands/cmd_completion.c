#include "cli/completion.h"
#include "cli/help.h"
#include "cli/output_file.h"

static int run_completion(const struct mp_invocation *invocation)
{
    struct mp_buffer out = {0};
    const char *shell = invocation->operand_count ? invocation->operands[0] : "bash";
    if (!mp_completion_write(&out, shell)) return mp_refuse("completion: %s is none of bash, zsh and fish", shell);
    int status = mp_output_buffer(invocation, &out);
    mp_buffer_free(&out);
    return status;
}

const struct mp_command mp_command_completion = {
    .name = "completion",
    .summary = "print what completes commands and options in a shell",
    .usage = "[bash|zsh|fish]",
    .about = "eval \"$(memprof completion bash)\" in ~/.bashrc turns it on, or the same with zsh in ~/.zshrc, after "
             "compinit. In fish: memprof completion fish | source. make install puts all three where the shells look.",
    .example = "memprof completion zsh",
    .options = {MP_OPT_OUTPUT},
    .operands_max = 1,
    .run = run_completion,
};
