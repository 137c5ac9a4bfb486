#include "cli/command.h"
#include "cli/output_recording.h"
#include "exchange/common/anonymize.h"

static int run_anonymize(const struct mp_invocation *invocation)
{
    const char *input = invocation->operands[0];
    struct mp_model *model;
    struct mp_error error;
    int status = mp_output_recording_load(invocation, &model);
    if (status) return status;
    if (mp_damage_any(&model->file.damage)) {
        mp_message("%s is cut or damaged, and its copy would not show that: run memprof recover first", input);
        status = MP_EXIT_COULD_NOT;
    } else {
        status = mp_anonymize(model, &error) ? mp_message_error(&error) : mp_output_recording(invocation, model);
    }
    mp_model_free(model);
    return status;
}

const struct mp_command mp_command_anonymize = {
    .name = "anonymize",
    .summary = "make a copy without names, to give to others",
    .usage = "FILE",
    .about =
        "Functions, files, libraries, regions, pools and threads get numbers, the same name always the same one. "
        "Native functions in the libraries of Python, PyTorch, CUDA, C and C++ keep their names, and so do well-known "
        "files and functions of Python and PyTorch. Command, host and device UUIDs are left out. Sizes, times, "
        "addresses and line numbers stay, so peaks, leaks and sizes do, too.",
    .example = "memprof anonymize run.mp -o to-send.mp",
    .meanings = {{MP_OPT_OUTPUT, "the new recording; needed"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_anonymize,
};
