#include "jobs/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/member.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "output/report/columns.h"

/* ---- names ------------------------------------------------------------------------------------------------------ */

static void put_in_brackets(struct mp_buffer *out, const char *program)
{
    if (!*program) return;
    mp_buffer_append_text(out, " (");
    mp_text_clean(out, program);
    mp_buffer_append_text(out, ")");
}

void mp_job_name(struct mp_buffer *out, const struct mp_job_view *job, uint32_t process)
{
    const struct mp_job_process *row = &job->model->job.processes.at[process];
    const char *role = mp_model_text(job->model, row->role);
    if (row->rank != MP_NONE && !row->helper) {
        mp_buffer_printf(out, "rank %u", row->rank);
        if (job->attempt[process]) mp_buffer_printf(out, ", attempt %u", job->attempt[process]);
    } else if (*role && row->pid != MP_NONE) {
        mp_text_clean(out, role);
        mp_buffer_printf(out, " %u", row->pid);
        if (row->rank != MP_NONE) mp_buffer_printf(out, " of rank %u", row->rank);
        if (!strcmp(role, MP_ROLE_RAY)) put_in_brackets(out, job->groups.at[job->group[process]].program);
    } else {
        mp_text_clean(out, mp_path_short(mp_model_text(job->model, row->path)));
    }
}

static bool are_ranks(const struct mp_job_view *job, const struct mp_job_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (job->model->job.processes.at[group->processes[i]].rank == MP_NONE) return false;
    return !group->helper;
}

void mp_job_group_name(struct mp_buffer *out, const struct mp_job_view *job, const struct mp_job_group *group,
                       size_t count)
{
    char number[MP_UNIT_TEXT], counted[MP_MEMBER_COUNTED];
    const char *role = mp_model_text(job->model, group->role);
    mp_format_count(number, count);
    if (group->helper && *role) {
        mp_text_clean(out, mp_member_counted(counted, count, role));
        if (!strcmp(role, MP_ROLE_RAY)) put_in_brackets(out, group->program);
        return;
    }
    const char *noun = are_ranks(job, group) ? count == 1 ? "rank" : "ranks" : count == 1 ? "process" : "processes";
    mp_buffer_printf(out, "%s %s", number, noun);
    if (*group->program) mp_buffer_append_text(out, " of ");
    mp_text_clean(out, group->program);
    if (group->attempt) mp_buffer_printf(out, ", attempt %u", group->attempt);
}

/* ---- coverage --------------------------------------------------------------------------------------------------- */

void mp_job_coverage_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_object(json, "coverage");
    mp_json_bool(json, "complete", !job->problems.count && !job->limited && !mp_model_incomplete(job->model));
    mp_json_number(json, "events", job->events);
    mp_json_number(json, "dropped", job->dropped);
    mp_json_number(json, "lost_file_bytes", job->model->file.damage.lost_bytes);
    mp_json_null(json, "truncated_stacks");
    mp_json_null(json, "unattributed_bytes");
    mp_json_array(json, "sources");
    mp_json_end_array(json);
    mp_json_array(json, "notes");
    for (size_t i = 0; i < job->problems.count; i++)
        mp_json_text(json, NULL, job->problems.at[i]);
    for (size_t i = 0; i < job->notes.count; i++)
        mp_json_text(json, NULL, job->notes.at[i]);
    mp_json_end_array(json);
    mp_json_end_object(json);
}

static void put_notes(struct mp_text *text, const struct mp_job_texts *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        mp_say(text, "  note: %s\n", notes->at[i]);
}

static void job_coverage_text(struct mp_text *text, const struct mp_job_view *job)
{
    const char *recordings = mp_counted(job->model->job.processes.count, "recording");
    const char *events = mp_counted(job->events, "event");
    if (text->document)
        mp_heading(text, "Coverage");
    else
        mp_say(text, "\n");
    if (job->problems.count || mp_model_incomplete(job->model))
        mp_say(text, "`INCOMPLETE: %s, %s`\n", recordings, events);
    else if (job->limited)
        mp_say(text, "`PARTIAL: %s, %s; some had limits`\n", recordings, events);
    else
        mp_say(text, "^complete: %s, %s, none dropped^\n", recordings, events);
    put_notes(text, &job->problems);
    put_notes(text, &job->notes);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

static uint32_t number_of(const struct mp_job_view *job, const void *row)
{
    return (uint32_t)((const struct mp_job_process *)row - job->model->job.processes.at);
}

static const void *chosen_of(const void *of, const void *row)
{
    return mp_job_chosen(of, number_of(of, row));
}

static void get_name(struct mp_value *value, const void *of, const void *row)
{
    mp_job_name(&value->made, of, number_of(of, row));
}

static void get_attempt(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_view *job = of;
    value->number = job->attempt[number_of(job, row)];
}

static void get_verdict(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_process *process = row;
    value->text = mp_verdict_name(process->verdict);
    if (process->verdict == MP_VERDICT_LEAK) value->style = MP_BOLD;
}

/* Gets the missing part of the recording, or if nothing is missing, its track. */
static void get_track(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_model *model = ((const struct mp_job_view *)of)->model;
    const struct mp_job_track *track = chosen_of(of, row);
    uint32_t missing = ((const struct mp_job_process *)row)->missing;
    if (missing || track) value->text = mp_model_text(model, missing ? missing : track->id);
}

static void put_steps(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_job_process *process = row;
    mp_json_object(json, key);
    mp_json_number(json, "count", process->steps);
    mp_json_text(json, "source", mp_model_text(((const struct mp_job_view *)of)->model, process->step_source));
    mp_json_end_object(json);
}

#define PROCESS(member) MP_MEMBER(struct mp_job_process, member)
#define CHOSEN(member)  MP_MEMBER(struct mp_job_track, member), .inner = true

const struct mp_column mp_process_columns[] = {
    {"process", NULL, MP_NAME, .get = get_name, .style = MP_BOLD},
    {NULL, "path", MP_STRING, PROCESS(path)},
    {NULL, "pid", MP_COUNT, PROCESS(pid)},
    {NULL, "rank", MP_COUNT, PROCESS(rank)},
    {NULL, "attempt", MP_COUNT, .get = get_attempt, .zero_is_none = true},
    {NULL, "role", MP_STRING_OR_NONE, PROCESS(role)},
    {NULL, "helper", MP_FLAG, PROCESS(helper)},
    {NULL, "track", MP_STRING, CHOSEN(id)},
    {"peak", "peak_bytes", MP_BYTES, CHOSEN(peak_bytes), .place = 1},
    {"at", "peak_ns", MP_DURATION, CHOSEN(peak_ns), .place = 2},
    {"step", "step", MP_COUNT, CHOSEN(peak_step), .place = 3, .zero_is_none = true},
    {"outstanding", "outstanding_bytes", MP_BYTES, CHOSEN(end_bytes), .place = 4},
    {NULL, "reserved_peak_bytes", MP_BYTES, CHOSEN(reserved_bytes)},
    {"verdict", "verdict", MP_NAME, .get = get_verdict, .place = 6},
    {"a step", "bytes_per_step", MP_CHANGE, PROCESS(growth), .place = 5},
    {NULL, "steps", .put = put_steps},
    {NULL, "local_rank", MP_COUNT, PROCESS(local_rank)},
    {NULL, "world_size", MP_COUNT, PROCESS(world_size)},
    {NULL, "node", MP_COUNT, PROCESS(node)},
    {NULL, "parent_pid", MP_COUNT, PROCESS(parent)},
    {NULL, "job", MP_STRING_OR_NONE, PROCESS(job)},
    {NULL, "host", MP_STRING_OR_NONE, PROCESS(host)},
    {NULL, "command", MP_STRING_OR_NONE, PROCESS(command)},
    {NULL, "exit", MP_STRING_OR_NONE, PROCESS(exit)},
    {NULL, "start_unix_ns", MP_COUNT, PROCESS(start_unix_ns), .zero_is_none = true},
    {NULL, "duration_ns", MP_DURATION, PROCESS(duration_ns)},
    {NULL, "events", MP_COUNT, PROCESS(events)},
    {NULL, "dropped", MP_COUNT, PROCESS(dropped)},
    {NULL, "missing", MP_STRING_OR_NONE, PROCESS(missing)},
    {"track", NULL, MP_NAME, .get = get_track, .place = 7, .style = MP_DIM},
    {NULL},
};

static struct mp_rows process_rows(const struct mp_job_view *job, size_t count, const uint32_t *order)
{
    return MP_ROWS(mp_process_columns, job->model->job.processes.at, count, .of = job, .model = job->model,
                   .inner = chosen_of, .order = order);
}

/* Writes "processes": an object for each process, in order. */
static void job_processes_json(struct mp_json *json, const struct mp_job_view *job)
{
    const struct mp_rows rows = process_rows(job, job->model->job.processes.count, NULL);
    mp_rows_json(json, "processes", &rows);
}

/* Writes a group's sums in a line. */
static void group_line(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_group *group)
{
    mp_say(text, "  ");
    mp_job_group_name(text->out, job, group, group->count);
    if (!group->kind) {
        mp_say(text, ": no memory recorded\n");
        return;
    }
    mp_say(text, ": %s%s on %s", mp_bytes(mp_job_peak_of(job, group->processes[0])),
           group->count == 1 ? "" : " each at most", mp_model_text(job->model, group->kind));
    if (group->leaking)
        mp_say(text, "`; %u with a leak, +%s a step together`", group->leaking, mp_bytes(group->growth));
    mp_say(text, "\n");
}

/* Lists the first group's processes by peak, at most `limit` (0: all), then each other group in a line. */
static void job_processes_text(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    MP_VEC(uint32_t) order = {0};
    const struct mp_job_group *first = job->groups.count ? &job->groups.at[0] : NULL;
    size_t printed = 0;
    for (size_t i = 0; i < job->groups.count; i++) {
        const struct mp_job_group *group = &job->groups.at[i];
        if (i && (group->helper || !group->kind || group->count > 2 || (limit && order.count >= limit))) continue;
        mp_vec_add_all(&order, group->processes, mp_shown(group->count, limit));
        printed |= (size_t)1 << (i < 63 ? i : 63);
    }
    const struct mp_rows rows = process_rows(job, order.count, order.at);
    mp_rows_text(text, &rows);
    mp_vec_free(&order);
    if (first && limit && first->count > limit)
        mp_say(text, "^  %s more, down to %s; -n %zu shows more^\n", mp_count(first->count - limit),
               mp_bytes(mp_job_peak_of(job, first->processes[first->count - 1])), limit * 2);
    for (size_t i = 1; i < job->groups.count; i++)
        if (i >= 63 || !(printed >> i & 1)) group_line(text, job, &job->groups.at[i]);
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */

struct chosen_sites {
    const struct mp_job_view *job;
    const struct mp_job_site **at;
    size_t count;
    uint64_t bytes; /* sum over all sites */
};

MP_ORDER_OF_POINTERS(by_bytes, struct mp_job_site, MP_FALLING(bytes) ?: MP_COMPARE(a, b))

/* Chooses the sites of a sense; for people only those on the first group's kind of track. The caller frees `at`. */
static struct chosen_sites choose_sites(const struct mp_job_view *job, enum mp_job_sense sense, bool one_kind)
{
    const struct mp_model_job *rows = &job->model->job;
    struct chosen_sites sites = {.job = job, .at = mp_alloc((rows->sites.count + 1) * sizeof *sites.at)};
    mp_vec_each (const struct mp_job_site, site, &rows->sites) {
        if (site->sense != sense || (one_kind && site->kind != job->groups.at[0].kind)) continue;
        sites.bytes += site->bytes;
        sites.at[sites.count++] = site;
    }
    qsort(sites.at, sites.count, sizeof *sites.at, by_bytes);
    return sites;
}

/* Sum over all sites that mp_job_sites_text() would show without its row limit. */
static uint64_t job_sites_sum(const struct mp_job_view *job, enum mp_job_sense sense)
{
    struct chosen_sites sites = choose_sites(job, sense, true);
    free(sites.at);
    return sites.bytes;
}

static const void *site_at(const void *of, const void *row)
{
    return *(const struct mp_job_site *const *)row;
}

static void get_share(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_job_site *)row)->bytes;
    value->whole = ((const struct chosen_sites *)of)->bytes;
}

MP_GETTER(get_mean, struct mp_job_site, site, value->number = site->bytes / site->processes)

static void get_most_name(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_site *site = row;
    if (site->processes < 2 || site->most != site->least)
        mp_job_name(&value->made, ((const struct chosen_sites *)of)->job, site->most_process);
    else
        value->text = "all alike";
}

#define SITE(member) MP_MEMBER(struct mp_job_site, member), .inner = true

const struct mp_column mp_job_site_columns[] = {
    {NULL, "kind", MP_STRING, SITE(kind)},
    {"all", "bytes", MP_BYTES, SITE(bytes), .style = MP_BOLD},
    {NULL, "blocks", MP_COUNT, SITE(blocks)},
    {"share", "share", MP_SHARE, .get = get_share, .inner = true, .place = 1},
    {"in", "processes", MP_COUNT, SITE(processes), .place = 2},
    {NULL, "least_bytes", MP_BYTES, SITE(least)},
    {"mean", "mean_bytes", MP_BYTES, .get = get_mean, .inner = true, .place = 3},
    {"most", "most_bytes", MP_BYTES, SITE(most), .place = 4},
    {NULL, "least_process", MP_COUNT, SITE(least_process)},
    {NULL, "most_process", MP_COUNT, SITE(most_process)},
    {"by", NULL, MP_NAME, .get = get_most_name, .inner = true, .place = 5},
    {"site", "stack", MP_SITE, SITE(stack), .place = 6},
    {NULL},
};

static struct mp_rows site_rows(const struct chosen_sites *sites, size_t limit, enum mp_stacks stacks)
{
    return MP_ROWS(mp_job_site_columns, sites->at, mp_shown(sites->count, limit), .of = sites, .inner = site_at,
                   .model = sites->job->model, .stacks = stacks);
}

/* Writes the sites of one sense, merged over all processes, the heaviest first. */
static void job_sites_text(struct mp_text *text, const struct mp_job_view *job, enum mp_job_sense sense, size_t limit,
                           enum mp_stacks stacks)
{
    const struct chosen_sites sites = choose_sites(job, sense, true);
    const struct mp_rows rows = site_rows(&sites, limit, stacks);
    mp_rows_text(text, &rows);
    mp_say_more(text, sites.count - rows.count, limit);
    free(sites.at);
}

static void job_sites_json(struct mp_json *json, const char *key, const struct mp_job_view *job,
                           enum mp_job_sense sense, size_t limit)
{
    const struct chosen_sites sites = choose_sites(job, sense, false);
    const struct mp_rows rows = site_rows(&sites, limit, MP_STACKS);
    mp_rows_json(json, key, &rows);
    free(sites.at);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

static const char *confidence_of(const struct mp_job_finding *finding)
{
    return finding->certain == 1 ? "certain" : finding->certain == 2 ? "possible" : "probable";
}

MP_GETTER(get_confidence, struct mp_job_finding, it, value->text = confidence_of(it))
MP_GETTER(get_leaking, struct mp_job_finding, it, mp_job_name(&value->made, of, it->process))

static void get_place(struct mp_value *value, const void *of, const void *row)
{
    value->site = (struct mp_site){.stack = ((const struct mp_job_finding *)row)->stack};
    if (!value->site.stack) value->text = "(no stack)";
}

#define FINDING(member) MP_MEMBER(struct mp_job_finding, member)

const struct mp_column mp_job_finding_columns[] = {
    {"process", NULL, MP_NAME, .get = get_leaking},
    {NULL, "process", MP_COUNT, FINDING(process)},
    {"track", "track", MP_STRING, FINDING(track), .place = 4},
    {"class", "class", MP_WORD, FINDING(class), .word = mp_leak_class_name, .place = 5, .not_in_text = true},
    {"confidence", "confidence", MP_NAME, .get = get_confidence, .place = 5, .not_in_text = true},
    {"by now", "bytes", MP_BYTES, FINDING(bytes), .place = 3},
    {NULL, "blocks", MP_COUNT, FINDING(blocks)},
    {"a step", "bytes_per_step", MP_CHANGE, FINDING(bytes_per_step), .place = 1, .style = MP_BOLD},
    {"since step", "first_step", MP_COUNT, FINDING(first_step), .place = 2},
    {NULL, "eta_oom_steps", MP_COUNT, FINDING(eta_oom_steps)},
    {"held by", "holder", MP_STRING_OR_NONE, FINDING(holder), .place = 7, .not_in_text = true},
    {"site", "stack", MP_SITE, .get = get_place, .place = 6},
    {NULL},
};

/* Processes of one program have one line to change. */
static bool is_same_cause(const struct mp_job_finding *a, const struct mp_job_finding *b)
{
    return a->stack == b->stack && a->track == b->track && a->holder == b->holder && a->class == b->class;
}

static void put_kind(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct mp_job_finding *finding = row;
    const struct mp_job_view *job = of;
    struct mp_buffer more = {0};
    uint64_t bytes = finding->bytes_per_step;
    size_t others = 0;
    for (size_t i = 0; i < job->leaks.count; i++) {
        const struct mp_job_finding *other = &job->model->job.findings.at[job->leaks.at[i]];
        if (other == finding || !is_same_cause(finding, other)) continue;
        bytes += other->bytes_per_step;
        others++;
    }
    if (others)
        mp_buffer_printf(&more, "; the same in %s, +%s a step in all", mp_counted(others, "more process"),
                         mp_bytes(bytes));
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_PLAIN, "%s, %s%.*s", mp_leak_class_name(finding->class), confidence_of(finding),
                  (int)more.size, (const char *)more.data);
    mp_table_end_row(table);
    mp_buffer_free(&more);
    if (!finding->holder) return;
    mp_buffer_append_text(&more, "held by ");
    mp_text_clean(&more, mp_model_text(job->model, finding->holder));
    mp_table_skip(table, columns);
    mp_table_wide(table, MP_BOLD, "%.*s", (int)more.size, (const char *)more.data);
    mp_table_end_row(table);
    mp_buffer_free(&more);
}

static struct mp_rows finding_rows(const struct mp_job_view *job, const uint32_t *order, size_t count,
                                   enum mp_stacks stacks)
{
    return MP_ROWS(mp_job_finding_columns, job->model->job.findings.at, count, .of = job, .model = job->model,
                   .order = order, .stacks = stacks, .below = put_kind, .apart_by = MP_APART_TRACKS_SHOWN);
}

/* In text, a cause that several processes have gets one row, for the process in which it grows most. */
static void job_findings_text(struct mp_text *text, const struct mp_job_view *job, size_t limit, bool full_stacks)
{
    const struct mp_job_finding *all = job->model->job.findings.at;
    uint32_t *order = mp_alloc((job->leaks.count + 1) * sizeof *order);
    size_t count = 0;
    for (size_t i = 0; i < job->leaks.count; i++) {
        size_t k = 0;
        while (!mp_is_csv(text) && k < count && !is_same_cause(&all[order[k]], &all[job->leaks.at[i]]))
            k++;
        if (k == count || mp_is_csv(text)) order[count++] = job->leaks.at[i];
    }
    const struct mp_rows rows =
        finding_rows(job, order, mp_shown(count, limit), full_stacks ? MP_FULL_STACKS : MP_STACKS);
    mp_rows_text(text, &rows);
    mp_say_more(text, count - rows.count, limit);
    free(order);
}

static void job_findings_json(struct mp_json *json, const struct mp_job_view *job, size_t limit)
{
    const struct mp_rows rows = finding_rows(job, job->leaks.at, mp_shown(job->leaks.count, limit), MP_STACKS);
    mp_rows_json(json, "findings", &rows);
}

static const struct mp_job_process *process_at(const struct mp_job_view *job, uint32_t process)
{
    return &job->model->job.processes.at[process];
}

/* A process's name, such as "rank 2", in `to`. */
static const char *name_of(const struct mp_job_view *job, uint32_t process, char to[MP_JOB_NAME])
{
    struct mp_buffer name = {0};
    mp_job_name(&name, job, process);
    snprintf(to, MP_JOB_NAME, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
    return to;
}

static void say_group(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_group *group)
{
    mp_job_group_name(text->out, job, group, group->count);
}

static void say_steps_of(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_process *process)
{
    mp_say(text, ", %s steps (%s)", mp_count(process->steps), mp_model_text(job->model, process->step_source));
}

static bool has_many_hosts(const struct mp_model_job *rows)
{
    for (size_t i = 1; i < rows->processes.count; i++)
        if (rows->processes.at[i].host != rows->processes.at[0].host) return true;
    return false;
}

/* "run/   4 ranks of train.py, 8 loader workers   node7, 38.2 s, 212 steps (torch)   complete" */
static void put_header(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model_job *rows = &job->model->job;
    const char *host = has_many_hosts(rows) ? "several hosts" : mp_model_text(job->model, rows->processes.at[0].host);
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    mp_say(text, "`%s`   ", view->path);
    for (size_t i = 0; i < job->groups.count && i < 3; i++) {
        mp_say(text, "%s", i ? ", " : "");
        say_group(text, job, &job->groups.at[i]);
    }
    mp_say(text, "%s   %s%s%s", job->groups.count > 3 ? ", ..." : "", host, *host ? ", " : "",
           mp_time(job->to_unix_ns - job->from_unix_ns));
    if (first && first->steps) say_steps_of(text, job, first);
    mp_say(text, "   %s\n",
           job->problems.count || mp_model_incomplete(job->model) ? "INCOMPLETE"
           : job->limited                                         ? "partial"
                                                                  : "complete");
}

/* Writes "61.4 GiB" after the heading; then " in rank 2 on cuda:2/torch, at 12.7 s, step 3", and the peaks of other
 * ranks. */
static void put_highest(struct mp_text *text, const struct mp_job_view *job)
{
    char name[MP_JOB_NAME];
    const struct mp_job_group *group = &job->groups.at[0];
    const struct mp_job_track *track = mp_job_chosen(job, job->highest);
    mp_say(text, " in `%s` on %s, at %s", name_of(job, job->highest, name), mp_model_text(job->model, track->id),
           mp_time(track->peak_ns));
    if (track->peak_step) mp_say(text, ", step %s", mp_count(track->peak_step));
    if (group->count > 1) {
        uint64_t mean = group->sum / group->count;
        mp_say(text, "; the median of ");
        say_group(text, job, group);
        mp_say(text, " is %s", mp_bytes(group->median));
        if (mean) mp_say(text, ", the highest is %.2f of the mean", (double)track->peak_bytes / (double)mean);
    }
    mp_say(text, "\n");
}

static void put_reason(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_outlier *outlier,
                       const struct mp_job_reason *reason)
{
    const struct mp_site site = {.stack = reason->stack};
    uint64_t difference = outlier->more ? reason->own - reason->others : reason->others - reason->own;
    mp_say(text, "    `%s%s`  ", outlier->more ? "+" : "-", mp_bytes(difference));
    mp_site_text(text->out, job->model, &site);
    mp_say(text, "^   %s here, %s in the others on average^\n", mp_bytes(reason->own), mp_bytes(reason->others));
}

static void put_outliers(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    char name[MP_JOB_NAME];
    size_t rows = mp_shown(job->outliers.count, limit);
    if (!rows) return;
    mp_heading(text, "OUT OF LINE");
    mp_say(text, "\n");
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_outlier *outlier = &job->outliers.at[i];
        const struct mp_job_group *group = &job->groups.at[outlier->group];
        uint64_t own = mp_job_peak_of(job, outlier->process);
        mp_say(text, "  `%s` needs %s %s than ", name_of(job, outlier->process, name), mp_bytes(outlier->distance),
               outlier->more || group->count == 2 ? "more" : "less");
        if (group->count == 2)
            mp_say(text, "%s", name_of(job, group->processes[1], name));
        else
            mp_say(text, "the median of %zu, %s", group->count, mp_bytes(group->median));
        if (outlier->more && own > outlier->distance)
            mp_say(text, " (%.1f times as much)", (double)own / (double)(own - outlier->distance));
        mp_say(text, "%s\n", outlier->reason_count ? ", by" : "");
        for (size_t k = 0; k < outlier->reason_count; k++)
            put_reason(text, job, outlier, &outlier->reasons[k]);
    }
    if (rows < job->outliers.count) mp_say(text, "^  and %zu more^\n", job->outliers.count - rows);
}

static void put_devices(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    size_t rows = mp_shown(job->devices.count, limit);
    if (!rows) return;
    mp_heading(text, "SHARED");
    mp_say(text, "\n");
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_device *device = &job->devices.at[i];
        const char *host = mp_model_text(job->model, device->host);
        uint64_t from = job->from_unix_ns;
        mp_say(text, "  %s%s%s: %u processes together at most `%s`", mp_model_text(job->model, device->device),
               *host ? " of " : "", host, device->processes, mp_bytes(device->most));
        if (device->total_bytes != MP_BYTES_UNKNOWN) mp_say(text, " of %s", mp_bytes(device->total_bytes));
        mp_say(text, ", at %s^   (a sum of curves of %s, each at its highest within %s; all peaks at once: %s)^\n",
               mp_time(device->at_unix_ns > from ? device->at_unix_ns - from : 0), mp_layer_name(device->layer),
               mp_time(device->unit_ns), mp_bytes(device->separate));
    }
    if (rows < job->devices.count) mp_say(text, "^  and %zu more^\n", job->devices.count - rows);
}

/* ---- report ----------------------------------------------------------------------------------------------------- */

static void put_verdict(struct mp_text *text, const struct mp_job_view *job)
{
    char name[MP_JOB_NAME];
    const struct mp_model_job *rows = &job->model->job;
    size_t count = rows->processes.count, unknown = 0;
    uint32_t example = MP_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (rows->processes.at[i].verdict != MP_VERDICT_UNKNOWN) continue;
        if (job->unjudged && mp_job_is_unjudged(job, i)) continue;
        unknown++;
        if (example == MP_NONE) example = i;
    }
    if (!unknown) {
        mp_say(text, "clean: no site of %s keeps growing", mp_counted(count - job->unjudged, "process"));
        if (job->unjudged) mp_say(text, "; not judged: %s without marked steps", mp_counted(job->unjudged, "process"));
        mp_say(text, "\n");
        return;
    }
    mp_say(text, "unknown of %zu of %s", unknown, mp_counted(count, "process"));
    const char *reason = mp_model_text(job->model, rows->processes.at[example].reason);
    if (*reason) mp_say(text, "; %s: %s", name_of(job, example, name), reason);
    mp_say(text, "\n");
}

static void put_leaks(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    if (job->leaks.count) {
        mp_heading(text, "LEAKS  in %u of %s", job->leaking, mp_counted(job->model->job.processes.count, "process"));
        mp_say(text, "\n");
        job_findings_text(text, job, view->limit, false);
    } else {
        mp_heading(text, "LEAKS  ");
        put_verdict(text, job);
    }
}

static void put_step_rows(struct mp_text *text, const struct mp_job_view *job)
{
    char name[MP_JOB_NAME];
    const struct mp_job_step *highest = NULL;
    uint64_t widest = 0, step = 0;
    mp_vec_each (const struct mp_job_step, row, &job->steps) {
        if (!highest || row->most > highest->most) highest = row;
        if (row->most - row->least <= widest || row->processes < 2) continue;
        widest = row->most - row->least;
        step = row->first;
    }
    if (!highest) return;
    mp_heading(text, "STEPS  highest in step %llu: %s", (unsigned long long)highest->first, mp_bytes(highest->most));
    mp_say(text, " in %s", name_of(job, highest->most_process, name));
    if (widest) mp_say(text, "; farthest apart in step %llu, by %s", (unsigned long long)step, mp_bytes(widest));
    if (job->step_shift) mp_say(text, "^   (%llu steps at a time)^", 1ULL << job->step_shift);
    mp_say(text, "\n");
}

void mp_job_report_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    put_header(text, job, view);
    if (job->leaks.count) put_leaks(text, job, view);
    if (job->highest != MP_NONE) {
        mp_heading(text, "PEAK  %s", mp_bytes(mp_job_chosen(job, job->highest)->peak_bytes));
        put_highest(text, job);
        job_processes_text(text, job, view->limit);
    } else {
        mp_say(text, "\nno process allocated anything that was recorded\n");
    }
    put_outliers(text, job, view->limit);
    if (job->highest != MP_NONE) {
        mp_heading(text, "SITES");
        mp_say(text, "  of all processes, each at its own peak; see memprof peak %s\n", view->path);
        job_sites_text(text, job, MP_JOB_PEAK, view->limit, MP_ONE_LINE);
    }
    if (!job->leaks.count) put_leaks(text, job, view);
    put_step_rows(text, job);
    put_devices(text, job, view->limit);
    job_coverage_text(text, job);
}

/* ---- results as JSON ------------------------------------------------------------------------------------------- */

MP_GETTER(get_peak, struct mp_job_outlier, it, value->number = mp_job_peak_of(of, it->process))

static void get_usual(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_outlier *outlier = row;
    get_peak(value, of, row);
    value->number += outlier->more ? -outlier->distance : outlier->distance;
}

#define REASON(member)  MP_MEMBER(struct mp_job_reason, member)
#define OUTLIER(member) MP_MEMBER(struct mp_job_outlier, member)
#define DEVICE(member)  MP_MEMBER(struct mp_job_device, member)
#define GROUP(member)   MP_MEMBER(struct mp_job_group, member)

static const struct mp_column reason_columns[] = {
    {NULL, "bytes", MP_BYTES, REASON(own)},
    {NULL, "others_bytes", MP_BYTES, REASON(others)},
    {NULL, "stack", MP_SITE, REASON(stack)},
    {NULL},
};

static void put_reasons(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_job_view *job = of;
    const struct mp_job_outlier *outlier = row;
    mp_rows_json(json, key, &MP_ROWS(reason_columns, outlier->reasons, outlier->reason_count, .model = job->model));
}

static const struct mp_column outlier_columns[] = {
    {NULL, "process", MP_COUNT, OUTLIER(process)},
    {NULL, "peak_bytes", MP_BYTES, .get = get_peak},
    {NULL, "usual_bytes", MP_BYTES, .get = get_usual},
    {NULL, "sites", .put = put_reasons},
    {NULL},
};

static const struct mp_column device_columns[] = {
    {NULL, "host", MP_STRING_OR_NONE, DEVICE(host)},
    {NULL, "device", MP_STRING, DEVICE(device)},
    {NULL, "uuid", MP_STRING_OR_NONE, DEVICE(uuid)},
    {NULL, "layer", MP_WORD, DEVICE(layer), .word = mp_layer_name},
    {NULL, "processes", MP_COUNT, DEVICE(processes)},
    {NULL, "sum_peak_bytes", MP_BYTES, DEVICE(most)},
    {NULL, "at_unix_ns", MP_COUNT, DEVICE(at_unix_ns)},
    {NULL, "within_ns", MP_DURATION, DEVICE(unit_ns)},
    {NULL, "separate_peaks_bytes", MP_BYTES, DEVICE(separate)},
    {NULL, "total_bytes", MP_BYTES, DEVICE(total_bytes)},
    {NULL},
};

static void get_program(struct mp_value *value, const void *of, const void *row)
{
    const char *program = ((const struct mp_job_group *)row)->program;
    value->text = *program ? program : NULL;
}

static uint32_t lowest_of(const struct mp_job_group *group)
{
    return group->processes[group->count - 1];
}

MP_GETTER(get_highest, struct mp_job_group, it, value->number = it->processes[0])

static void get_lowest(struct mp_value *value, const void *of, const void *row)
{
    value->number = lowest_of(row);
}

MP_GETTER(get_most, struct mp_job_group, it, value->number = mp_job_peak_of(of, it->processes[0]))
MP_GETTER(get_group_mean, struct mp_job_group, group, value->number = group->sum / group->count)

static void get_least(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_job_peak_of(of, lowest_of(row));
}

static const struct mp_column group_columns[] = {
    {NULL, "program", MP_NAME, .get = get_program},        {NULL, "role", MP_STRING_OR_NONE, GROUP(role)},
    {NULL, "kind", MP_STRING_OR_NONE, GROUP(kind)},        {NULL, "processes", MP_COUNT, GROUP(count)},
    {NULL, "highest", MP_COUNT, .get = get_highest},       {NULL, "lowest", MP_COUNT, .get = get_lowest},
    {NULL, "most_bytes", MP_BYTES, .get = get_most},       {NULL, "median_bytes", MP_BYTES, GROUP(median)},
    {NULL, "mean_bytes", MP_BYTES, .get = get_group_mean}, {NULL, "least_bytes", MP_BYTES, .get = get_least},
    {NULL, "leaking", MP_COUNT, GROUP(leaking)},           {NULL},
};

void mp_job_report_json(struct mp_json *json, const struct mp_job_view *job, const struct mp_view *view)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.report/1");
    job_processes_json(json, job);
    mp_job_info_json(json, "info", job, view);
    mp_job_peak_json(json, "peak", job, view);
    mp_job_leaks_json(json, "leaks", job, view);
    mp_job_steps_json(json, "steps", job, view);
    mp_json_null(json, "frag");
    mp_json_array(json, "advice");
    mp_json_end_array(json);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- peak ------------------------------------------------------------------------------------------------------- */

void mp_job_peak_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    mp_say(text, "`%s`", mp_bytes(mp_job_chosen(job, job->highest)->peak_bytes));
    put_highest(text, job);
    mp_say(text, "\n");
    job_processes_text(text, job, view->limit);
    put_outliers(text, job, view->limit);
    mp_heading(text, "SITES");
    mp_say(text, "  on %s, of all processes, each at its own peak: %s together\n",
           mp_model_text(job->model, job->groups.at[0].kind), mp_bytes(job_sites_sum(job, MP_JOB_PEAK)));
    job_sites_text(text, job, MP_JOB_PEAK, view->limit, view->full_stacks ? MP_FULL_STACKS : MP_STACKS);
    put_devices(text, job, view->limit);
}

void mp_job_peak_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_job_track *track = job->highest == MP_NONE ? NULL : mp_job_chosen(job, job->highest);
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.peak/1");
    mp_json_text(json, "track", track ? mp_model_text(job->model, track->id) : NULL);
    mp_json_known(json, "peak_bytes", track ? track->peak_bytes : UINT64_MAX);
    mp_json_known(json, "peak_ns", track ? track->peak_ns : UINT64_MAX);
    mp_json_known(json, "step", track && track->peak_step ? track->peak_step : UINT64_MAX);
    mp_json_array(json, "regions");
    mp_json_end_array(json);
    mp_json_known(json, "blocks", track ? track->peak_blocks : UINT64_MAX);
    mp_json_known(json, "process", job->highest == MP_NONE ? UINT64_MAX : job->highest);
    mp_rows_json(json, "groups",
                 &MP_ROWS(group_columns, job->groups.at, job->groups.count, .of = job, .model = job->model));
    mp_rows_json(json, "out_of_line", &MP_ROWS(outlier_columns, job->outliers.at, job->outliers.count, .of = job));
    mp_rows_json(json, "shared_devices",
                 &MP_ROWS(device_columns, job->devices.at, job->devices.count, .model = job->model));
    job_sites_json(json, "sites", job, MP_JOB_PEAK, view->limit);
    if (!key) job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

static void put_answer(struct mp_text *text, const struct mp_job_view *job)
{
    char name[MP_JOB_NAME];
    const struct mp_model *model = job->model;
    if (!job->leaks.count) {
        put_verdict(text, job);
        return;
    }
    uint32_t worst = model->job.findings.at[job->leaks.at[0]].process, slowest = worst;
    for (size_t i = 1; i < job->leaks.count; i++) {
        uint32_t own = model->job.findings.at[job->leaks.at[i]].process;
        if (process_at(job, own)->growth > process_at(job, worst)->growth) worst = own;
        if (process_at(job, own)->growth <= process_at(job, slowest)->growth) slowest = own;
    }
    const struct mp_job_process *process = process_at(job, worst);
    mp_say(text, "`leak: %s keeps growing, +%s a step`; %u of %s", name_of(job, worst, name), mp_bytes(process->growth),
           job->leaking, mp_counted(model->job.processes.count, "process"));
    say_steps_of(text, job, process);
    if (slowest != worst)
        mp_say(text, "; the slowest: +%s a step in %s", mp_bytes(process_at(job, slowest)->growth),
               name_of(job, slowest, name));
    mp_say(text, "\n");
}

void mp_job_leaks_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    put_answer(text, job);
    if (mp_is_csv(text) ? !view->outstanding : job->leaks.count > 0) {
        mp_say(text, "\n");
        job_findings_text(text, job, view->limit, view->full_stacks);
    }
    mp_say(text, "\n%s outstanding at the end in all processes%s\n", mp_bytes(job->end_bytes),
           view->outstanding ? "" : "; --outstanding lists it");
    if (view->outstanding && job->highest != MP_NONE)
        job_sites_text(text, job, MP_JOB_END, view->limit, view->full_stacks ? MP_FULL_STACKS : MP_STACKS);
}

void mp_job_leaks_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model_job *rows = &job->model->job;
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < rows->processes.count; i++)
        if (mp_job_chosen(job, i)) blocks += mp_job_chosen(job, i)->end_blocks;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.leaks/1");
    mp_json_text(json, "verdict", mp_verdict_name(job->verdict));
    mp_json_number(json, "leaking_processes", job->leaking);
    mp_json_object(json, "steps");
    mp_json_number(json, "count", first ? first->steps : 0);
    mp_json_text(json, "source", first ? mp_model_text(job->model, first->step_source) : "none");
    mp_json_end_object(json);
    job_findings_json(json, job, view->limit);
    mp_json_object(json, "outstanding");
    mp_json_number(json, "bytes", job->end_bytes);
    mp_json_number(json, "blocks", blocks);
    job_sites_json(json, "sites", job, MP_JOB_END, view->limit);
    mp_json_end_object(json);
    job_sites_json(json, "growing", job, MP_JOB_GROWTH, view->limit);
    mp_json_object(json, "suppressed");
    mp_json_number(json, "bytes", 0);
    mp_json_number(json, "findings", 0);
    mp_json_end_object(json);
    if (!key) job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

MP_GETTER(get_mean_step, struct mp_job_step, step, value->number = step->sum / step->processes)
MP_GETTER(get_least_name, struct mp_job_step, it, mp_job_name(&value->made, of, it->least_process))
MP_GETTER(get_step_most_name, struct mp_job_step, it, mp_job_name(&value->made, of, it->most_process))
MP_GETTER(get_apart, struct mp_job_step, step, value->number = step->most - step->least)

#define STEP(member) MP_MEMBER(struct mp_job_step, member)

const struct mp_column mp_job_step_columns[] = {
    {"step", "step", MP_COUNT, STEP(first)},
    {"processes", "processes", MP_COUNT, STEP(processes)},
    {"most", "peak_bytes", MP_BYTES, STEP(most), .place = 4, .style = MP_BOLD},
    {"mean", "mean_peak_bytes", MP_BYTES, .get = get_mean_step, .place = 3},
    {"least", "least_peak_bytes", MP_BYTES, STEP(least), .place = 1},
    {NULL, "process", MP_COUNT, STEP(most_process)},
    {NULL, "least_process", MP_COUNT, STEP(least_process)},
    {"least by", NULL, MP_NAME, .get = get_least_name, .place = 2, .style = MP_DIM},
    {"most by", NULL, MP_NAME, .get = get_step_most_name, .place = 5, .style = MP_DIM},
    {"apart", NULL, MP_BYTES, .get = get_apart, .place = 6},
    {NULL},
};

static struct mp_rows step_rows(const struct mp_job_view *job, const struct mp_view *view)
{
    size_t count = job->steps.count;
    return MP_ROWS(mp_job_step_columns, job->steps.at, count, .of = job,
                   .first = view->limit && view->limit < count ? count - view->limit : 0);
}

void mp_job_steps_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_rows rows = step_rows(job, view);
    if (!rows.count) {
        mp_say(text, "no process has steps\n");
        return;
    }
    mp_say(text, "peaks of each step in ");
    say_group(text, job, &job->groups.at[0]);
    mp_say(text, ", on %s", mp_model_text(job->model, job->groups.at[0].kind));
    if (job->step_shift) mp_say(text, ", %llu steps at a time", 1ULL << job->step_shift);
    mp_say(text, "\n");
    mp_rows_text(text, &rows);
    if (rows.first) mp_say(text, "^%zu earlier ones; -n %zu shows more^\n", rows.first, view->limit * 2);
}

void mp_job_steps_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_job_process *first = job->highest == MP_NONE ? NULL : process_at(job, job->highest);
    const struct mp_job_track *track = job->highest == MP_NONE ? NULL : mp_job_chosen(job, job->highest);
    const struct mp_rows rows = step_rows(job, view);
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.steps/1");
    mp_json_text(json, "track", track ? mp_model_text(job->model, track->id) : NULL);
    mp_json_text(json, "source", first ? mp_model_text(job->model, first->step_source) : "none");
    mp_json_number(json, "steps_per_row", 1ULL << job->step_shift);
    mp_rows_json(json, "steps", &rows);
    mp_json_array(json, "regions");
    mp_json_end_array(json);
    if (!key) job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}

/* ---- info ------------------------------------------------------------------------------------------------------- */

void mp_job_info_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view)
{
    put_header(text, job, view);
    mp_say(text, "\n");
    job_processes_text(text, job, 0);
    job_coverage_text(text, job);
}

#define TRACK(member) MP_MEMBER(struct mp_job_track, member)

static const struct mp_column track_columns[] = {
    {NULL, "process", MP_COUNT, TRACK(process)},
    {NULL, "id", MP_STRING, TRACK(id)},
    {NULL, "uuid", MP_STRING_OR_NONE, TRACK(uuid)},
    {NULL, "size_basis", MP_WORD, TRACK(size_basis), .word = mp_size_basis_name},
    {NULL, "events", MP_COUNT, TRACK(events)},
    {NULL, "peak_bytes", MP_BYTES, TRACK(peak_bytes)},
    {NULL, "peak_ns", MP_DURATION, TRACK(peak_ns)},
    {NULL, "end_bytes", MP_BYTES, TRACK(end_bytes)},
    {NULL, "reserved_peak_bytes", MP_BYTES, TRACK(reserved_bytes)},
    {NULL},
};

void mp_job_info_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view)
{
    const struct mp_model *model = job->model;
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.info/1");
    mp_json_object(json, "file");
    mp_json_text(json, "path", view->path);
    mp_json_known(json, "bytes", model->file.bytes ? model->file.bytes : UINT64_MAX);
    mp_json_text(json, "format", "job");
    mp_json_end_object(json);
    mp_json_null(json, "process");
    mp_json_known(json, "start_unix_ns", job->from_unix_ns ? job->from_unix_ns : UINT64_MAX);
    mp_json_number(json, "duration_ns", job->to_unix_ns - job->from_unix_ns);
    mp_rows_json(json, "tracks",
                 &MP_ROWS(track_columns, model->job.tracks.at, model->job.tracks.count, .model = model));
    if (!key) job_processes_json(json, job);
    mp_job_coverage_json(json, job);
    mp_json_end_object(json);
}
