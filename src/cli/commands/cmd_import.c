#include <string.h>

#include "base/units.h"
#include "cli/command.h"
#include "cli/output_recording.h"

static void print_summary(const struct mp_model *model, const char *path)
{
    char events[MP_UNIT_TEXT], blocks[MP_UNIT_TEXT];
    mp_message("%s  %s events, %s blocks; format %s", path, mp_format_count(events, model->events.count),
               mp_format_count(blocks, model->blocks.count), model->file.format);
}

static int run_import(const struct mp_invocation *invocation)
{
    const char *input = invocation->operands[0], *output = invocation->value[MP_OPT_OUTPUT];
    struct mp_model *model;
    int status = mp_output_recording_load(invocation, &model);
    if (status) return status;
    if (!strcmp(model->file.format, "mp")) {
        mp_message("%s is a recording already; copy it%s", input,
                   mp_model_incomplete(model) ? ", or make a whole one of it with memprof recover" : "");
        status = MP_EXIT_COULD_NOT;
    } else {
        status = mp_output_recording(invocation, model);
    }
    if (!status) print_summary(model, output);
    mp_model_free(model);
    return status;
}

const struct mp_command mp_command_import = {
    .name = "import",
    .summary = "make a recording from another program's file",
    .usage = "FILE",
    .about =
        "FILE is a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot), as a pickle or JSON, or a trace of "
        "PyTorch's profiler with memory events (.pt.trace.json). Either may be gzip-compressed; the content decides, "
        "not the name. Nothing in it is executed: a pickle that would import or call anything is refused. Every "
        "command that reads a recording takes such a file, too; a recording is smaller and is read faster.\n\nA "
        "snapshot's blocks have the requested sizes, its segments are the track of the driver, its annotations are "
        "steps and regions. Coverage names what the file leaves out or contradicts.\n\nFILE may also be Nsight "
        "Systems' SQLite export (nsys profile --cuda-memory-usage=true, then nsys export --type sqlite). It gives the "
        "driver's blocks of the process with most of them, pools if exported, NVTX ranges as regions, and CUDA's "
        "backtraces as stacks; kernels and copies are left out. RMM's log (RMM_LOG_FILE, logging_resource_adaptor) "
        "gives blocks without stacks and streams.",
    .example = "memprof import memory_snapshot.pickle -o snap.mp",
    .meanings = {{MP_OPT_OUTPUT, "the new recording; needed"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_import,
};
