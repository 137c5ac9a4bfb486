#include <string.h>

#include "cli/query.h"
#include "export/pytorch.h"
#include "export/sqlite.h"
#include "export/text.h"
#include "model/track.h"

/* Reports on stderr how the file and the recording differ. */
static void say_differences(const struct mp_query *query, const struct mp_pytorch_exported *exported)
{
    char id[MP_TRACK_ID_MAX];
    if (exported->moved != MP_TRACK_NONE)
        mp_message("the recording has no GPU: %s is written as device 0",
                   mp_track_id(query->model, exported->moved, id));
    if (exported->left_out)
        mp_message("tracks left out, because a snapshot has one for each device: %llu",
                   (unsigned long long)exported->left_out);
    if (exported->unknown_sizes)
        mp_message("blocks left out, because their sizes are not known: %llu",
                   (unsigned long long)exported->unknown_sizes);
    if (exported->moved_blocks)
        mp_message("blocks with a made-up address, because theirs is unknown or another block's: %llu",
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

static int export_snapshot(struct mp_query *query)
{
    struct snapshot snapshot = {.query = query};
    int status = mp_output_write(query->invocation, write_snapshot, &snapshot);
    if (!status) say_differences(query, &snapshot.exported);
    return status;
}

static enum mp_status write_sqlite(const struct mp_block_rows *rows, const struct mp_query *query, FILE *out,
                                   struct mp_error *error)
{
    return mp_sqlite_export(rows, query->view.filter, out, error);
}

static bool is_compressed(const struct mp_query *query)
{
    return mp_path_ends(query->invocation->value[MP_OPT_OUTPUT], ".gz");
}

static enum mp_status write_csv(const struct mp_block_rows *rows, const struct mp_query *query, FILE *out,
                                struct mp_error *error)
{
    return mp_csv_export(rows, is_compressed(query), out, error);
}

static enum mp_status write_jsonl(const struct mp_block_rows *rows, const struct mp_query *query, FILE *out,
                                  struct mp_error *error)
{
    return mp_jsonl_export(rows, is_compressed(query), out, error);
}

#define FORMATS "pytorch, sqlite, csv and jsonl" /* the names of `formats` */
static const struct format {
    const char *name;
    enum mp_status (*write_rows)(const struct mp_block_rows *, const struct mp_query *, FILE *, struct mp_error *);
} formats[] = {{"pytorch", NULL}, {"sqlite", write_sqlite}, {"csv", write_csv}, {"jsonl", write_jsonl}};

struct table {
    const struct mp_query *query;
    const struct format *format;
};

static enum mp_status write_table(void *context, FILE *out, struct mp_error *error)
{
    const struct table *table = context;
    struct mp_block_rows rows;
    mp_block_rows_start(table->query->model, &table->query->view.window, table->query->filter, &rows);
    enum mp_status status = table->format->write_rows(&rows, table->query, out, error);
    mp_block_rows_free(&rows);
    return status;
}

static int run_export(const struct mp_invocation *invocation)
{
    const char *name = invocation->value[MP_OPT_FORMAT];
    bool part =
        mp_given(invocation, MP_OPT_FROM) || mp_given(invocation, MP_OPT_TO) || mp_given(invocation, MP_OPT_FILTER);
    const struct format *format = NULL;
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name)) format = &formats[i];
    if (!format)
        return mp_refuse(
            name ? "--format: there is no format \"%s\"; there are " FORMATS
                 : "export needs --format FORMAT, as in memprof export run.mp -o run.pickle --format pytorch",
            name);
    if (!format->write_rows && part)
        return mp_refuse("a snapshot of PyTorch has the whole recording: leave out --from, --to and --filter");
    struct mp_query query;
    struct table table = {&query, format};
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    if (status) return status;
    status = format->write_rows ? mp_output_write(invocation, write_table, &table) : export_snapshot(&query);
    return mp_query_end(&query, status);
}

const struct mp_command mp_command_export = {
    .name = "export",
    .summary = "the recording in a format of other programs",
    .usage = "FILE",
    .writes = "run.pickle, run.db, blocks.csv or run.jsonl",
    .about =
        "--format pytorch writes a memory snapshot as PyTorch itself does, for its viewer "
        "(https://pytorch.org/memory_viz): a pickle, or JSON if the name ends in .json. Each GPU has the blocks of its "
        "uppermost layer. A recording without a GPU has its CPU blocks as device 0. Samples, coverage and all but one "
        "track of each device are left out.\n\n--format sqlite writes a database of blocks, events, stacks, frames, "
        "steps, regions and samples. It has views for the common questions (peak_sites, outstanding_sites, "
        "allocated_sites, levels, step_peaks, region_sums); .schema of sqlite3 explains each column. Modules' build "
        "ids and the depth of cut stacks are left out.\n\n--format csv writes one line a block. --format jsonl writes "
        "one JSON object a line: the recording, tracks, stacks, blocks and other events. Both leave out samples and "
        "resizes: a block has the size it was allocated with. A name that ends in .gz is compressed.\n\n--from and "
        "--to choose the blocks of these three formats that lived in that time, --filter those that match.",
    .example = "memprof export run.mp -o run.db --format sqlite && sqlite3 run.db 'select * from peak_sites limit 5'",
    .meanings = {{MP_OPT_OUTPUT, "write to FILE, needed; - is stdout"}, {MP_OPT_FORMAT, "one of " FORMATS "; needed"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_FORMAT, MP_OPT_FROM, MP_OPT_TO, MP_OPT_FILTER, MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_export,
};
