#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "export/chrome_trace.h"

struct trace {
    struct mp_query *query;
    struct mp_chrome_query ask;
    struct mp_invocation to; /* the user's options, with the path that --tensorboard determines */
    char path[4096];
    uint64_t left_out;
};

static enum mp_status write_trace(void *context, FILE *out, struct mp_error *error)
{
    struct trace *trace = context;
    return mp_chrome_trace_write(&trace->ask, out, &trace->left_out, error);
}

/* Names the file as torch.profiler.tensorboard_trace_handler does: HOST_PID.TIME.pt.trace.json.gz. */
static int name_for_tensorboard(struct trace *trace, const char *folder)
{
    const struct mp_recording_start *start = &trace->query->model->start;
    char host[256];
    snprintf(host, sizeof host, "%s", *start->host ? start->host : "host");
    for (char *at = host; *at; at++)
        if (strchr("/.", *at)) *at = '-';
    if (mkdir(folder, 0777) && errno != EEXIST)
        return mp_give_up("cannot make the folder %s: %s", folder, strerror(errno));
    int length = snprintf(trace->path, sizeof trace->path, "%s/%s_%u.%llu.pt.trace.json.gz", folder, host, start->pid,
                          (unsigned long long)start->realtime_ns);
    trace->to.value[MP_OPT_OUTPUT] = trace->path;
    if (length < (int)sizeof trace->path) return MP_EXIT_DONE;
    return mp_refuse("--tensorboard: the name of the folder is too long");
}

/* Reads the trace to merge into and finds the part of the recording that it covers. */
static int align(struct trace *trace, struct mp_chrome_input *input)
{
    const struct mp_invocation *invocation = trace->query->invocation;
    const struct mp_model *model = trace->query->model;
    struct mp_error error;
    struct mp_window covered;
    mp_progress_start(invocation, input->path);
    enum mp_status status = mp_chrome_input_read(input->path, input, &error);
    mp_progress_end();
    if (status) return mp_message_error(&error);
    trace->ask.merge = input;
    if (mp_chrome_align(input, model, &covered, &error)) return mp_message_error(&error);
    if (!mp_given(invocation, MP_OPT_FROM) && !mp_given(invocation, MP_OPT_TO)) trace->ask.window = covered;
    if (input->damaged) mp_message("%s; copied as it is, with counters for the part before", input->damage.text);
    if (model->start.pid && !mp_map_find(&input->pids, (uint64_t)model->start.pid + 1))
        mp_message("no event of %s is of process %u, whose recording this is", input->path, model->start.pid);
    return MP_EXIT_DONE;
}

static int write_to_place(struct trace *trace)
{
    const struct mp_invocation *invocation = trace->query->invocation;
    const char *folder = invocation->value[MP_OPT_TENSORBOARD], *merge = invocation->value[MP_OPT_MERGE];
    struct mp_chrome_input input = {.path = merge};
    trace->to = *invocation;
    trace->ask = (struct mp_chrome_query){.model = trace->query->model, .window = trace->query->view.window};
    int status = folder ? name_for_tensorboard(trace, folder) : MP_EXIT_DONE;
    if (!status && merge) status = align(trace, &input);
    trace->ask.compress = !status && mp_path_ends(trace->to.value[MP_OPT_OUTPUT], ".gz");
    if (!status) status = mp_output_write(&trace->to, write_trace, trace);
    if (!status && trace->left_out)
        mp_message("[memory] events left out, because there are more than a million: %llu; --from and --to pick a part",
                   (unsigned long long)trace->left_out);
    if (!status && folder) mp_message("%s", trace->path);
    mp_chrome_input_free(&input);
    return status;
}

static int run_chrome_trace(const struct mp_invocation *invocation)
{
    struct mp_query query;
    struct trace trace = {.query = &query};
    bool folder = mp_given(invocation, MP_OPT_TENSORBOARD), file = mp_given(invocation, MP_OPT_OUTPUT);
    if (folder == file)
        return mp_refuse(file ? "chrome_trace writes to -o FILE or to --tensorboard DIR, not to both"
                              : "chrome_trace needs -o FILE: out.json, or out.json.gz to compress it");
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_end(&query, write_to_place(&trace));
}

const struct mp_command mp_command_chrome_trace = {
    .name = "chrome_trace",
    .summary = "a trace for Perfetto, chrome://tracing and TensorBoard",
    .usage = "FILE",
    .about =
        "Writes a trace in the form of PyTorch's profiler: counters of allocated and reserved bytes for each track, "
        "sampled counters, steps and regions. Each device's uppermost layer also has [memory] and [OutOfMemory] "
        "events. A name that ends in .gz is compressed. Stacks, kinds of memory and blocks of other layers are left "
        "out. A counter of more than a million changes keeps its highest points, and more than a million [memory] "
        "events are left out.\n\n--merge TRACE puts the counters of the same run into a copy of a trace of PyTorch's "
        "profiler, under the rows of its GPUs. Every byte of the trace stays, and clocks are aligned. Only the part "
        "that the trace covers is added, with [memory] events if the trace has none. Two files without a common moment "
        "are refused.\n\n--tensorboard DIR writes HOST_PID.TIME.pt.trace.json.gz to DIR, where TensorBoard's PyTorch "
        "plugin finds it.",
    .example = "memprof chrome_trace run.mp --merge torch.pt.trace.json.gz -o both.json.gz",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed without --tensorboard; - is stdout"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_FROM, MP_OPT_TO, MP_OPT_MERGE, MP_OPT_TENSORBOARD, MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_chrome_trace,
};
