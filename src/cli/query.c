#include "cli/query.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/device/plan.h"
#include "base/units.h"
#include "cli/progress.h"
#include "cli/text_file.h"
#include "collect/recover/left_behind.h"
#include "exchange/load/load.h"
#include "model/stack.h"
#include "output/report/coverage.h"

#define ROWS_OF_TEXT 10

int mp_query_limit(const struct mp_invocation *invocation, size_t *limit)
{
    const char *text = invocation->value[MP_OPT_LIMIT];
    char *end;
    if (!text) return MP_EXIT_DONE;
    unsigned long long rows = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end) {
        *limit = (size_t)rows;
        return MP_EXIT_DONE;
    }
    return mp_refuse("--limit: \"%s\" is not a number of rows", text);
}

int mp_query_color(const struct mp_invocation *invocation, bool *color)
{
    const char *when = invocation->value[MP_OPT_COLOR], *terminal = getenv("TERM");
    const char *to = invocation->value[MP_OPT_OUTPUT];
    bool plain = (getenv("NO_COLOR") && *getenv("NO_COLOR")) || !terminal || !strcmp(terminal, "dumb");
    if (!when || !strcmp(when, "auto"))
        *color = !plain && (!to || !strcmp(to, "-")) && isatty(STDOUT_FILENO);
    else if (!strcmp(when, "always") || !strcmp(when, "never"))
        *color = !strcmp(when, "always");
    else {
        return mp_refuse("--color: \"%s\" is not auto, always or never", when);
    }
    return MP_EXIT_DONE;
}

/* Checks of arguments that need no recording. */
static int read_rules(const char *path, struct mp_rules *rules)
{
    struct mp_buffer text = {0};
    struct mp_error error;
    enum mp_status status = mp_text_file_read(path, &text, &error);
    if (!status) status = mp_rules_parse(rules, path, (const char *)text.data, &error);
    mp_buffer_free(&text);
    return status ? mp_message_error(&error) : MP_EXIT_DONE;
}

static int read_options(struct mp_query *query, enum mp_sort_by default_sort)
{
    const struct mp_invocation *invocation = query->invocation;
    struct mp_error error;
    if (!mp_progress_valid(invocation)) return MP_EXIT_USAGE;
    int formed = mp_form_open(invocation, NULL, &query->out, &query->text, &query->document);
    if (formed) return formed;
    query->as_json = mp_given(invocation, MP_OPT_JSON);
    query->view.path = invocation->operands[invocation->operand_count - 1];
    query->view.full_stacks = mp_given(invocation, MP_OPT_FULL_STACKS);
    query->view.filter = invocation->value[MP_OPT_FILTER];
    bool csv = query->document.out && query->document.form == MP_CSV;
    query->view.limit = query->as_json || csv ? 0 : ROWS_OF_TEXT;
    query->view.grouping = (struct mp_grouping){.by = MP_GROUP_STACK, .sort = default_sort};
    const char *group = invocation->value[MP_OPT_GROUP], *sort = invocation->value[MP_OPT_SORT];
    int status = mp_query_limit(invocation, &query->view.limit);
    if (!status && !query->document.out) status = mp_query_color(invocation, &query->text.color);
    if (!status && group && mp_group_parse(group, &query->view.grouping, &error)) status = mp_message_error(&error);
    const char *rules = invocation->value[MP_OPT_RULES];
    if (!status && rules) status = read_rules(rules, &query->rules);
    query->view.grouping.rules = &query->rules;
    if (!status && sort && mp_sort_parse(sort, &query->view.grouping, &error)) status = mp_message_error(&error);
    return status;
}

static int unknown_track(const struct mp_model *model, const char *name)
{
    struct mp_buffer known = {0};
    char id[MP_TRACK_ID_MAX];
    for (size_t i = 0; i < model->tracks.count; i++)
        mp_buffer_printf(&known, "%s%s", i ? ", " : "", mp_track_id(model, (uint16_t)i, id));
    mp_message("there is no track \"%s\" in the recording; it has %.*s", name, known.size ? (int)known.size : 4,
               known.size ? (const char *)known.data : "none");
    mp_buffer_free(&known);
    return MP_EXIT_USAGE;
}

static bool in_window(const struct mp_query *query, uint32_t block)
{
    const struct mp_model_blocks *blocks = &query->model->blocks;
    uint32_t birth = blocks->alloc_event[block], death = blocks->free_event[block];
    return (birth == MP_NONE || birth < query->view.window.last) &&
           (death == MP_NONE || death >= query->view.window.first);
}

/* Prints a message if the filter matches nothing: this is a valid answer, but often due to a typo. */
static void note_empty(const struct mp_query *query)
{
    size_t live = 0;
    for (size_t i = 0; i < query->model->blocks.count; i++) {
        if (!in_window(query, (uint32_t)i)) continue;
        live++;
        if (mp_filter_picks(query->filter, (uint32_t)i)) return;
    }
    char text[MP_UNIT_TEXT];
    if (!live)
        mp_message("nothing was live in the part that --from and --to choose");
    else
        mp_message("--filter %s picks none of the %s blocks%s", query->view.filter, mp_format_count(text, live),
                   query->view.window.whole ? "" : " that were live between --from and --to");
}

enum mp_status mp_query_filter(const struct mp_query *query, const struct mp_model *model, struct mp_filter **filter,
                               struct mp_error *error)
{
    struct mp_categories *categories = NULL;
    *filter = NULL;
    if (!query->view.filter) return MP_OK;
    if (strstr(query->view.filter, "category")) categories = mp_categories_make(model, &query->rules);
    const struct mp_filter_categories answer = {categories ? mp_category_of_block : NULL, categories};
    enum mp_status status = mp_filter_make(model, query->view.filter, &answer, filter, error);
    mp_categories_free(categories);
    return status;
}

/* In a plan each operator is called by memprof's hook in Python; its frames would stand where the module's do. */
static const char hook_of_plan[] = "/torch/_ops\\.py$";

enum mp_status mp_query_skip(const struct mp_invocation *invocation, struct mp_model *model, struct mp_error *error)
{
    const char *regex = invocation->value[MP_OPT_SKIP_FRAMES];
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    if (!regex && plan.planned) regex = hook_of_plan;
    mp_plan_free(&plan);
    return regex ? mp_skip_matching(model, regex, error) : MP_OK;
}

/* Checks of arguments that depend on the recording. */
static int bind_options(struct mp_query *query)
{
    const struct mp_invocation *invocation = query->invocation;
    struct mp_error error;
    const char *track = invocation->value[MP_OPT_TRACK];
    query->track = track ? mp_track_find(query->model, track) : MP_TRACK_NONE;
    if (track && query->track == MP_TRACK_NONE) return unknown_track(query->model, track);
    if (mp_query_skip(invocation, query->model, &error) ||
        mp_window_make(query->model, invocation->value[MP_OPT_FROM], invocation->value[MP_OPT_TO], &query->view.window,
                       &error) ||
        mp_query_filter(query, query->model, &query->filter, &error))
        return mp_message_error(&error);
    if (query->model->blocks.count && (query->filter || !query->view.window.whole)) note_empty(query);
    return MP_EXIT_DONE;
}

/* For a file that is missing or ends too early: prints a message if a spool has the rest. */
static void note_spool(const char *path)
{
    struct mp_error error;
    enum mp_status status = mp_left_look(path, &error);
    if (status == MP_OK)
        mp_message("the rest is in shared memory: memprof recover %s -o whole.mp", path);
    else if (status == MP_BUSY)
        mp_message("%s", error.text);
}

static void free_query(struct mp_query *query)
{
    mp_holders_free(&query->holders);
    mp_held_causes_free(&query->causes);
    mp_form_close(&query->document);
    mp_filter_free(query->filter);
    mp_rules_free(&query->rules);
    mp_buffer_free(&query->out);
    mp_model_free(query->model);
}

int mp_query_open(const struct mp_invocation *invocation, enum mp_sort_by default_sort, struct mp_query *query)
{
    *query = (struct mp_query){.invocation = invocation};
    mp_json_start(&query->json, &query->out);
    int status = read_options(query, default_sort);
    if (status) {
        free_query(query);
        return status;
    }
    struct mp_error error;
    mp_progress_start(invocation, query->view.path);
    enum mp_status loaded = mp_exchange_load(query->view.path, &query->model, &error);
    mp_progress_end();
    if (loaded) {
        status = mp_message_error(&error);
        note_spool(query->view.path);
        free_query(query);
        return status;
    }
    status = bind_options(query);
    if (!status) return status;
    /* The requested track or time may lie in the lost part. Then the file is to blame, not the options. */
    if (status == MP_EXIT_USAGE && mp_query_report_missing(query->view.path, query->model)) status = MP_EXIT_COULD_NOT;
    free_query(query);
    return status;
}

int mp_query_pick_track(struct mp_query *query)
{
    if (query->track == MP_TRACK_NONE) query->track = mp_track_default(query->model);
    if (query->track != MP_TRACK_NONE) return MP_EXIT_DONE;
    return mp_give_up("%s has no allocations: it has no track", query->view.path);
}

bool mp_query_report_missing(const char *path, const struct mp_model *model)
{
    struct mp_buffer missing = {0};
    if (!mp_model_incomplete(model)) return false;
    mp_coverage_sentence(&missing, model);
    mp_message("%s: %.*s; what it holds was used", path, (int)missing.size, (const char *)missing.data);
    mp_buffer_free(&missing);
    if (model->file.damage.cut) note_spool(path);
    return true;
}

int mp_query_found(const struct mp_invocation *invocation, bool found, int status)
{
    bool done = status == MP_EXIT_DONE || status == MP_EXIT_INCOMPLETE;
    return done && found && mp_given(invocation, MP_OPT_FAIL) ? MP_EXIT_FOUND : status;
}

int mp_query_end(struct mp_query *query, int status)
{
    if (!status && mp_query_report_missing(query->view.path, query->model)) status = MP_EXIT_INCOMPLETE;
    free_query(query);
    return status;
}

void mp_query_hold(struct mp_query *query, const struct mp_peak *peak)
{
    if (peak->in_past || !query->model->holders.count) return;
    mp_holders_find_at(query->model, peak->track, peak->moment, &query->holders);
    mp_held_causes_find(query->model, peak->track, peak->moment, &query->causes);
    query->view.holders = &query->holders;
    query->view.causes = &query->causes;
}

/* True for "run.4711.mp", where "run.mp" is asked for. `stem`: bytes before the ending. */
static bool is_of_other(const char *name, const char *base, size_t stem)
{
    if (strncmp(name, base, stem) != 0 || name[stem] != '.') return false;
    size_t digits = strspn(name + stem + 1, "0123456789");
    return digits && !strcmp(name + stem + 1 + digits, base + stem);
}

void mp_query_note_others(const struct mp_query *query, const char *command)
{
    const char *path = query->view.path, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base), count = 0;
    if (length < 4 || strcmp(base + length - 3, ".mp") != 0) return;
    char *folder = slash ? mp_text_copy_part(path, (size_t)(base - path)) : NULL;
    DIR *names = opendir(folder ? folder : ".");
    for (struct dirent *entry; names && (entry = readdir(names));)
        count += is_of_other(entry->d_name, base, length - 3);
    if (names) closedir(names);
    free(folder);
    if (!count) return;
    char shown[MP_SHOWN_ROOM];
    int stem = (int)strlen(mp_shown_path(shown, path)) - 3;
    const char *other = count == 1 ? "a recording of another process lies" : "recordings of other processes lie";
    if (*shown == '\'') /* quoted */
        mp_message("%s beside it", other);
    else
        mp_message("%s beside it; for all: memprof %s %s %.*s.*.mp", other, command, shown, stem, shown);
}

int mp_query_finish(struct mp_query *query, int status)
{
    mp_form_close(&query->document);
    if (!status) status = mp_output_buffer(query->invocation, &query->out);
    return mp_query_end(query, status);
}
