#include "cli/command.h"
#include "cli/output_file.h"
#include "plan/measure.h"

static int run_measure(const struct mp_invocation *invocation)
{
    struct mp_buffer file = {0};
    struct mp_error error = {0};
    int status = mp_measure(&file, &error) ? mp_message_error(&error) : mp_output_buffer(invocation, &file);
    mp_buffer_free(&file);
    return status;
}

const struct mp_command mp_command_measure = {
    .name = "measure",
    .summary = "describe this machine's GPU for plans on any machine",
    .usage = "",
    .about =
        "Writes a device file for \"memprof plan --device FILE\". It has the GPU's memory, and what the driver takes: "
        "for the context, a graph's kernels, the stacks of kernels, cuBLAS, cuDNN's workspace of one convolution, and, "
        "with two GPUs, NCCL. For each key the file says whether it was measured; what it lacks counts as in the table "
        "of devices. It takes about ten "
        "seconds, and up to a quarter of the free memory. Run it while nobody else uses the GPU. CUDA_VISIBLE_DEVICES "
        "chooses the GPU; LD_LIBRARY_PATH may name the folders of cuBLAS, cuDNN and NCCL.",
    .example = "memprof measure -o my.dev",
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE},
    .run = run_measure,
};
