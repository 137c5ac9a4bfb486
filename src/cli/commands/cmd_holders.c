#include "output/report/holders.h"

#include <stdlib.h>

#include "cli/query.h"

static int show_holders(struct mp_query *query)
{
    const char *given = query->invocation->value[MP_OPT_SITE];
    char *end = NULL;
    unsigned long only = given ? strtoul(given, &end, 10) : 0;
    struct mp_holders holders;
    mp_holders_find(query->model, &holders);
    int status = MP_EXIT_DONE;
    if (given && (!only || *end || only > holders.sites.count)) {
        mp_message("--site %s: there are sites 1 to %zu", given, holders.sites.count);
        status = MP_EXIT_USAGE;
    } else if (query->as_json) {
        mp_holders_json(&query->json, query->model, &holders, only, &query->view);
    } else {
        mp_holders_text(&query->text, query->model, &holders, only, &query->view);
    }
    mp_holders_free(&holders);
    return status;
}

static int run(const struct mp_invocation *invocation)
{
    struct mp_query query;
    int status = mp_query_open(invocation, MP_SORT_BYTES, &query);
    return status ? status : mp_query_finish(&query, show_holders(&query));
}

extern const struct mp_command mp_command_holders;
const struct mp_command mp_command_holders = {
    .name = "holders",
    .summary = "what still holds the blocks: the path of objects, the graph",
    .usage = "FILE",
    .about = "For each place in the program that allocated, the blocks that lived when the program last looked at itself, "
             "and what held them: the path from a name of the program through its containers, hooks, closures and graphs "
             "of autograd, as its author would write it. [*] stands for several entries of a container. The program "
             "looks when it ends, and with snapshot --holders at steps, too; a look takes 0.2 seconds at most, and says "
             "what it left out. Blocks of PyTorch that no path leads to are held by native code.",
    .example = "memprof holders run.mp -n 3",
    .options = {MP_REPORT_OPTIONS, MP_OPT_LIMIT, MP_OPT_FULL_STACKS, MP_OPT_SITE},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
