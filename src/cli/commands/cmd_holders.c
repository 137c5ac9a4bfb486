#include "output/report/holders.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/query.h"
#include "cli/running.h"

static int show_holders(struct mp_query *query)
{
    const char *given = query->invocation->value[MP_OPT_SITE];
    char *end = NULL;
    unsigned long only = given ? strtoul(given, &end, 10) : 0;
    struct mp_holders holders;
    mp_holders_find(query->model, mp_given(query->invocation, MP_OPT_PID), &holders);
    int status = MP_EXIT_DONE;
    if (given && (!only || *end || only > holders.sites.count)) {
        mp_message("--site %s: give a number from 1 to %zu", given, holders.sites.count);
        status = MP_EXIT_USAGE;
    } else if (query->as_json) {
        mp_holders_json(&query->json, query->model, &holders, only, &query->view);
    } else {
        mp_holders_text(&query->text, query->model, &holders, only, &query->view);
    }
    mp_holders_free(&holders);
    return status;
}

static int run_holders(const struct mp_invocation *given)
{
    struct mp_invocation invocation = *given;
    struct mp_query query;
    bool of_running = mp_given(given, MP_OPT_PID);
    int fd = -1;
    if (of_running == (given->operand_count > 0) || (!of_running && mp_given(given, MP_OPT_BUDGET)))
        return mp_refuse(
            "holders needs FILE, or --pid PID (with --budget if you like): memprof holders [options] FILE");
    int status = of_running ? mp_running_ask(&invocation, true, &fd) : MP_EXIT_DONE;
    if (!status) status = mp_query_open(&invocation, MP_SORT_BYTES, &query);
    if (!status) status = mp_query_finish(&query, show_holders(&query));
    if (fd >= 0) close(fd);
    return status;
}

const struct mp_command mp_command_holders = {
    .name = "holders",
    .summary = "the holders of leaking blocks: objects, the graph",
    .usage = "FILE | --pid PID",
    .about =
        "Shows the blocks of each site that lived when the program last looked at itself, and their holders. A holder "
        "is a path from a name of the program through its containers, hooks, closures and graphs of autograd, as its "
        "author would write it. [*] stands for several entries of a container. Blocks of PyTorch without a path are "
        "held by native code.\n\nThe program looks when it ends, and when memory runs out. With snapshot --holders it "
        "also looks at steps, if a leak is suspected, and before a snapshot at a signal. --pid asks a program under "
        "memprof snapshot to look now, between two instructions of its main thread. If that runs native code for 3 "
        "seconds, the command says so. A look takes at most 0.2 seconds of the program, or --budget, and names what it "
        "left out.",
    .example = "memprof holders run.mp -n 3",
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_OPT_LIMIT, MP_OPT_FULL_STACKS, MP_OPT_SITE, MP_OPT_PID,
                MP_OPT_BUDGET},
    .operands_min = 0,
    .operands_max = 1,
    .run = run_holders,
};
