#include "cli/query.h"
#include "exchange/chrome_trace.h"

static enum mp_status write_trace(void *context, FILE *out, struct mp_error *error)
{
    const struct mp_query *query = context;
    bool compress = mp_path_ends(query->invocation->value[MP_OPT_OUTPUT], ".gz");
    return mp_chrome_trace_write(query->model, compress, out, error);
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    if (!mp_given(invocation, MP_OPT_OUTPUT)) {
        mp_message("chrome_trace needs -o FILE: out.json, or out.json.gz to compress it");
        return MP_EXIT_USAGE;
    }
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_end(&query, mp_output_write(invocation, write_trace, &query));
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
