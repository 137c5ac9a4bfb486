#include "plan/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/size_probing.h"
#include "plan/messages.h"
#include "plan/words.h"

#define STAGES_MAX 256

struct ranks {
    const struct mp_invocation *invocation;
    const struct mp_plan_device *device;
    struct mp_probing probing;
    struct {
        unsigned rank;
        struct mp_plan_outcome outcome;
    } stages[STAGES_MAX];
    size_t count;
};

/* Adds the ranks to which the planned ones sent tensors, in the order in which they did (libmemprof_plan/ranks.py): the
 * next stages of a pipeline. */
static void add_peers(struct ranks *ranks)
{
    char *path = mp_text_make("%s/peers", ranks->probing.folder);
    FILE *file = fopen(path, "r");
    unsigned rank;
    while (file && ranks->count < STAGES_MAX && fscanf(file, "%u", &rank) == 1) {
        size_t known = 0;
        while (known < ranks->count && ranks->stages[known].rank != rank)
            known++;
        if (known == ranks->count) ranks->stages[ranks->count++].rank = rank;
    }
    if (file) fclose(file);
    free(path);
}

static int run_rank(struct ranks *ranks, size_t number)
{
    unsigned rank = ranks->stages[number].rank;
    char *path = mp_text_make("%s/%u.mp", ranks->probing.folder, rank);
    char *log = mp_text_make("%s/%u.log", ranks->probing.folder, rank);
    char shown[64], value[16];
    snprintf(shown, sizeof shown, "rank %u, stage %zu", rank, number + 1);
    struct mp_invocation one = *ranks->invocation;
    snprintf(value, sizeof value, "%u", rank);
    one.value[MP_OPT_RANK] = value;
    int status = mp_probing_run_words(ranks->invocation, shown, mp_plan_words(&one, false, path), log);
    struct mp_error error;
    bool ended = status < 0 || mp_probing_is_interrupted(status);
    struct mp_plan_outcome *outcome = &ranks->stages[number].outcome;
    bool failed = !ended && (access(path, R_OK) || mp_plan_judge(path, ranks->device, outcome, &error) ||
                             (status && !outcome->ooms));
    if (failed) {
        mp_message("rank %u failed; it printed last:", rank);
        mp_probing_print_tail(log);
    }
    free(path);
    free(log);
    return ended || failed ? MP_EXIT_COULD_NOT : MP_EXIT_DONE;
}

/* The rank that decides: of those that do not fit, or else of all, the one that needs most. A rank may fail with
 * little, as its first request does not fit. */
static size_t highest(const struct ranks *ranks)
{
    size_t found = 0;
    for (size_t i = 1; i < ranks->count; i++) {
        const struct mp_plan_outcome *one = &ranks->stages[i].outcome, *most = &ranks->stages[found].outcome;
        bool more = one->reserved + one->estimated > most->reserved + most->estimated;
        if (one->fits != most->fits ? most->fits : more) found = i;
    }
    return found;
}

static void put_text(const struct ranks *ranks)
{
    char reserved[MP_UNIT_TEXT];
    size_t most = highest(ranks);
    printf("%s: rank %u, %s reserved; %s %s\n", ranks->stages[most].outcome.fits ? "Highest" : "Worst",
           ranks->stages[most].rank, mp_format_bytes(reserved, ranks->stages[most].outcome.reserved),
           ranks->stages[most].outcome.fits ? "fits" : "does not fit", ranks->device->key);
    mp_plan_outcome_heading("rank");
    for (size_t i = 0; i < ranks->count; i++)
        mp_plan_outcome_row(ranks->stages[i].rank, &ranks->stages[i].outcome);
    printf("  planned, one rank of each stage%s\n",
           ranks->count > 1 ? "; we assume that the other ranks of a stage are like it"
                            : "; no pipeline was seen, so we assume that the other ranks are like rank 0");
    for (size_t i = 0; i < ranks->count; i++) {
        size_t values = ranks->stages[i].outcome.sizes + ranks->stages[i].outcome.values;
        if (values)
            printf("  rank %u depends on %zu %s read from the device; memprof plan --rank %u lists %s\n",
                   ranks->stages[i].rank, values, values == 1 ? "value" : "values", ranks->stages[i].rank,
                   values == 1 ? "it" : "them");
    }
}

static void put_json(const struct ranks *ranks)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    mp_json_start(&json, &out);
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.ranks/1");
    mp_json_number(&json, "highest", ranks->stages[highest(ranks)].rank);
    mp_json_array(&json, "ranks");
    for (size_t i = 0; i < ranks->count; i++)
        mp_plan_outcome_json(&json, "rank", ranks->stages[i].rank, &ranks->stages[i].outcome);
    mp_json_end_array(&json);
    mp_plan_print_json(&json);
}

int mp_plan_ranks(const struct mp_invocation *invocation, const struct mp_plan_device *device)
{
    struct ranks ranks = {.invocation = invocation, .device = device, .count = 1};
    int status = mp_probing_begin(&ranks.probing);
    if (!status) setenv("MEMPROF_PLAN_MESSAGES", ranks.probing.folder, 1);
    for (size_t i = 0; !status && i < ranks.count; i++) {
        status = run_rank(&ranks, i);
        if (!status) add_peers(&ranks);
    }
    mp_probing_end(&ranks.probing);
    if (!status && mp_given(invocation, MP_OPT_JSON))
        put_json(&ranks);
    else if (!status)
        put_text(&ranks);
    return status;
}
