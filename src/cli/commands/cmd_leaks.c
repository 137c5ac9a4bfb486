#include "cli/query.h"

#include <unistd.h>

#include "base/units.h"
#include "cli/running.h"
#include "cli/text_file.h"
#include "output/report/leaks.h"

static int read_suppressions(const char *path, struct mp_suppressions *suppressions)
{
    struct mp_buffer text = {0};
    struct mp_error error;
    enum mp_status status = mp_text_file_read(path, &text, &error);
    if (!status) status = mp_suppressions_parse((const char *)text.data, path, suppressions, &error);
    mp_buffer_free(&text);
    return status ? mp_message_error(&error) : MP_EXIT_DONE;
}

static void print_uses(const struct mp_suppressions *suppressions)
{
    char number[MP_UNIT_TEXT];
    mp_vec_each (const struct mp_suppression, used, &suppressions->at) {
        mp_message("leak:%s suppressed %llu finding%s, %s", used->pattern, (unsigned long long)used->findings,
                   used->findings == 1 ? "" : "s", mp_format_bytes(number, used->bytes));
    }
}

static int find_leaks(struct mp_query *query, struct mp_suppressions *suppressions, bool *found)
{
    struct mp_error error;
    struct mp_leaks leaks;
    struct mp_leaks_query ask = {query->track, query->view.window, query->view.grouping, query->filter, suppressions};
    if (mp_leaks_find(query->model, &ask, &leaks, &error)) return mp_message_error(&error);
    if (query->as_json)
        mp_leaks_json(&query->json, NULL, query->model, &leaks, &query->view);
    else
        mp_leaks_text(&query->text, query->model, &leaks, &query->view);
    *found = leaks.verdict == MP_VERDICT_LEAK;
    mp_leaks_free(&leaks);
    return MP_EXIT_DONE;
}

static int judge(const struct mp_invocation *invocation, struct mp_suppressions *suppressions)
{
    struct mp_query query;
    bool found = false;
    int status = mp_query_open(invocation, MP_SORT_GROWTH, &query);
    if (!status) {
        query.view.outstanding = mp_given(invocation, MP_OPT_OUTSTANDING);
        query.view.verbose = mp_given(invocation, MP_OPT_VERBOSE);
        status = find_leaks(&query, suppressions, &found);
        mp_query_note_others(&query, "leaks");
        status = mp_query_finish(&query, status);
        print_uses(suppressions);
    }
    return mp_query_found(invocation, found, status);
}

static int run_leaks(const struct mp_invocation *given)
{
    struct mp_invocation invocation = *given;
    struct mp_suppressions suppressions = {0};
    const char *path = invocation.value[MP_OPT_SUPPRESSIONS];
    int fd = -1;
    if (mp_given(given, MP_OPT_PID) == (given->operand_count > 0))
        return mp_refuse("leaks needs FILE or --pid PID: memprof leaks [options] FILE");
    int status = path ? read_suppressions(path, &suppressions) : MP_EXIT_DONE;
    if (!status && mp_given(given, MP_OPT_PID)) status = mp_running_ask(&invocation, false, &fd);
    if (!status) status = judge(&invocation, &suppressions);
    if (fd >= 0) close(fd);
    mp_suppressions_free(&suppressions);
    return status;
}

const struct mp_command mp_command_leaks = {
    .name = "leaks",
    .summary = "sites that keep growing, and outstanding blocks",
    .usage = "FILE... | --pid PID",
    .about =
        "Lists the sites that keep growing, on all tracks: blocks of ever more steps stay live, without an end and "
        "without a later free. The verdict is leak, clean or, if too little was seen, unknown. Steps are the program's "
        "marks, or else come from the lines of its loop. A leak has its bytes a step, its first step, and the lines "
        "that allocate the blocks that stay.\n\nBlocks that were never freed are no leak by themselves: --outstanding "
        "lists them. If the verdict is unknown, the table shows the blocks live at the moment with blocks from the "
        "most steps. --pid asks the memprof that records a running program what leaks so far. --suppressions takes "
        "LeakSanitizer's syntax: leak:PATTERN, found in the function, file or module of any frame.",
    .example = "memprof leaks run.mp -n 3",
    .meanings = {{MP_OPT_SORT, "sort rows by bytes, blocks, peak or growth (growth)"},
                 {MP_OPT_FAIL, "exit with 3 if there is a leak"},
                 {MP_OPT_VERBOSE, "print the reasons of each finding, and the constants of the rules"}},
    .options = {MP_REPORT_OPTIONS, MP_FORM_OPTIONS, MP_WINDOW_OPTIONS, MP_SITE_OPTIONS, MP_OPT_OUTSTANDING, MP_OPT_FAIL,
                MP_OPT_SUPPRESSIONS, MP_OPT_PID, MP_OPT_VERBOSE},
    .operands_min = 0,
    .operands_max = 1,
    .run = run_leaks,
};
