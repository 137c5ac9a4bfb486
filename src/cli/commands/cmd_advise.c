#include "output/report/advise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "cli/record/advise_try.h"

/* Kinds of changes that no replay can prove, with the command that can. */
static const struct {
    const char *name, *instead;
} gone[] = {
    {"precision", "record the program with autocast too, and `memprof compare` the two recordings"},
    {"optimizer",
     "--kind lifetime has temporaries of a step and state in 8 bits; for a smaller batch record both ways, and "
     "`memprof compare` the two recordings"},
    {"offload", "record the program with save_on_cpu too, and `memprof compare` the two recordings"},
    {"shard", "run the sharded program under `memprof plan`, which needs no GPU"},
};

/* Prints a message about an unknown kind, and returns MP_EXIT_USAGE. */
static int refuse_kind(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        if (strlen(gone[i].name) != length || strncmp(gone[i].name, name, length)) continue;
        return mp_refuse("--kind %s is gone: %s", gone[i].name, gone[i].instead);
    }
    return mp_refuse("--kind: \"%.*s\" is no kind of change; there are allocator, checkpoint and lifetime", (int)length,
                     name);
}

/* Reads `list`, names of kinds separated by commas (NULL: all). MP_EXIT_USAGE, after a message, if a name is
 * unknown. */
static int read_kinds(const char *list, unsigned *kinds)
{
    *kinds = list ? 0 : ~0u;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[16];
        size_t length = strcspn(at, ",");
        enum mp_change_kind kind = MP_CHANGE_KINDS;
        if (length < sizeof name) {
            memcpy(name, at, length);
            name[length] = '\0';
            kind = mp_change_kind_named(name);
        }
        if (kind == MP_CHANGE_KINDS) return refuse_kind(at, length);
        *kinds |= 1u << kind;
    }
    return MP_EXIT_DONE;
}

/* Reads --capacity. 0: not given, or to be taken from the recording. */
static int read_capacity(const char *text, uint64_t *capacity)
{
    *capacity = 0;
    if (!text || !strcmp(text, "auto") || (mp_parse_bytes(text, capacity) && *capacity)) return MP_EXIT_DONE;
    return mp_refuse("--capacity: \"%s\" is not an amount of memory, such as 24GiB", text);
}

static int find_advice(struct mp_query *query, struct mp_advise_query *ask)
{
    struct mp_error error;
    struct mp_advise advise;
    if (mp_query_pick_track(query)) return MP_EXIT_COULD_NOT;
    ask->track = query->track;
    uint64_t total = query->model->devices.at[query->model->tracks.at[query->track].device].total_bytes;
    if (mp_given(query->invocation, MP_OPT_CAPACITY) && !ask->capacity) ask->capacity = total;
    if (ask->capacity == MP_BYTES_UNKNOWN)
        return mp_give_up("%s does not give the device's memory; give it: --capacity 24GiB", query->view.path);
    mp_progress_start_work(query->invocation, "trying changes");
    enum mp_status status = mp_advise_find(query->model, ask, &advise, &error);
    mp_progress_end();
    if (status) return mp_message_error(&error);
    if (query->as_json)
        mp_advise_json(&query->json, NULL, query->model, &advise, &query->view);
    else
        mp_advise_text(&query->text, query->model, &advise, &query->view);
    mp_advise_free(&advise);
    return MP_EXIT_DONE;
}

static int run_advise(const struct mp_invocation *invocation)
{
    struct mp_query query;
    struct mp_advise_query ask = {.progress = mp_progress_report};
    int status = read_kinds(invocation->value[MP_OPT_KIND], &ask.kinds);
    if (!status && mp_given(invocation, MP_OPT_TRY_CHANGES)) return mp_advise_try(invocation, ask.kinds, NULL);
    if (!status && invocation->operand_count > 1)
        return mp_refuse("advise reads one recording, not \"%s\" as well; memprof advise --help lists its options",
                         invocation->operands[1]);
    if (!status) status = read_capacity(invocation->value[MP_OPT_CAPACITY], &ask.capacity);
    if (!status) status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, find_advice(&query, &ask));
}

const struct mp_command mp_command_advise = {
    .name = "advise",
    .summary = "changes that would save memory, replayed",
    .usage = "FILE | --try -- COMMAND [ARGUMENT...]",
    .about =
        "Lists changes to the program that would lower the peak: settings of PyTorch's caching allocator, also for one "
        "phase; blocks that live longer than they are needed; temporaries of an optimizer's step; Adam's state in 8 "
        "bits and gradients of embeddings with few rows; requests of side "
        "streams; modules whose activations can be made again in backward; logits that a loss can take in chunks; "
        "an evaluation's batch; and outputs that are joined.\n\nA replay of the recording shows the bytes that a "
        "change saves and the peak that is "
        "left. Each row also says how to write the change and what it costs. ~ marks a replay with blocks that the "
        "recording does not have. With --capacity, changes are combined "
        "until the program fits, the cheapest first.\n\n--try -- COMMAND runs the command as it is, and once more with "
        "each "
        "change that can be made from outside: checkpoints, no_grad, an optimizer's options, settings of the "
        "allocator, "
        "the garbage collector, autocast. It shows what was measured next to the estimate. `memprof plan --advise` "
        "does "
        "the same without a GPU.",
    .example = "memprof advise run.mp --capacity 24GiB",
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_OPT_TRACK, MP_OPT_LIMIT, MP_OPT_CAPACITY, MP_OPT_KIND,
                MP_OPT_TRY_CHANGES},
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .run = run_advise,
};
