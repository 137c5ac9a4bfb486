#include <string.h>

#include "cli/query.h"
#include "exchange/chrome_trace.h"

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static int write_trace(const struct mp_query *query, const char *path)
{
    struct mp_error error;
    struct mp_output_file output;
    int status = mp_output_open(path, mp_given(query->invocation, MP_OPT_FORCE), &output);
    if (status) return status;
    bool written = !mp_chrome_trace_write(query->model, ends_with(path, ".gz"), output.file, &error);
    if (!written) status = mp_message_error(&error);
    int closed = mp_output_close(&output, written);
    return status ? status : closed;
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    const char *path = invocation->value[MP_OPT_OUTPUT];
    if (!path) {
        mp_message("chrome_trace needs -o FILE: out.json, or out.json.gz to compress it");
        return MP_EXIT_USAGE;
    }
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_end(&query, write_trace(&query, path));
}

extern const struct mp_command mp_command_chrome_trace;
const struct mp_command mp_command_chrome_trace = {
    .name = "chrome_trace",
    .summary = "a trace for chrome://tracing and Perfetto",
    .usage = "FILE",
    .about = "Writes counters of allocated and reserved bytes for each track, sampled counters, and steps and regions "
             "as slices. A name that ends in .gz is compressed.",
    .example = "memprof chrome_trace run.mp -o run.json.gz",
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
