#include <string.h>

#include "cli/query.h"
#include "exchange/pytorch_export.h"
#include "model/track.h"

/* What the file has otherwise than the recording. */
static void say_what_differs(const struct mp_query *query, const struct mp_pytorch_exported *exported)
{
    char id[MP_TRACK_ID_MAX];
    if (exported->moved != MP_TRACK_NONE)
        mp_message("the recording has no GPU: %s is written as device 0",
                   mp_track_id(query->model, exported->moved, id));
    if (exported->left_out)
        mp_message("tracks left out, as a snapshot holds one of each device: %llu",
                   (unsigned long long)exported->left_out);
    if (exported->unknown_sizes)
        mp_message("blocks left out, as their sizes are not known: %llu", (unsigned long long)exported->unknown_sizes);
    if (exported->moved_blocks)
        mp_message("blocks whose address is not known, or is another block's, got one of their own: %llu",
                   (unsigned long long)exported->moved_blocks);
}

struct snapshot {
    const struct mp_query *query;
    struct mp_pytorch_exported exported;
};

static enum mp_status write_snapshot(void *context, FILE *out, struct mp_error *error)
{
    struct snapshot *snapshot = context;
    bool as_json = mp_path_ends(snapshot->query->invocation->value[MP_OPT_OUTPUT], ".json");
    return mp_pytorch_export(snapshot->query->model, as_json, out, &snapshot->exported, error);
}

static int export_snapshot(const struct mp_query *query)
{
    struct snapshot snapshot = {.query = query};
    int status = mp_output_write(query->invocation, write_snapshot, &snapshot);
    if (!status) say_what_differs(query, &snapshot.exported);
    return status;
}

static int run(const struct mp_invocation *invocation)
{
    const char *path = invocation->value[MP_OPT_OUTPUT], *format = invocation->value[MP_OPT_FORMAT];
    if (!path || !format) {
        mp_message("export needs -o FILE and --format FORMAT: memprof export run.mp -o run.pickle --format pytorch");
        return MP_EXIT_USAGE;
    }
    if (strcmp(format, "pytorch")) {
        mp_message("--format: there is no format \"%s\"; there is pytorch", format);
        return MP_EXIT_USAGE;
    }
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_end(&query, export_snapshot(&query));
}

extern const struct mp_command mp_command_export;
const struct mp_command mp_command_export = {
    .name = "export",
    .summary = "the recording in a format of other programs",
    .usage = "FILE",
    .about =
        "--format pytorch writes a memory snapshot as PyTorch itself does, for its viewer "
        "(https://pytorch.org/memory_viz) and all that reads such files: a pickle, or JSON where the name ends in "
        ".json. Each GPU has the blocks of its uppermost layer; a recording without a GPU has its CPU blocks there, "
        "as device 0.",
    .example = "memprof export run.mp -o run.pickle --format pytorch",
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_FORMAT},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
