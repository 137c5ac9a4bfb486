#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/member.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "output/report/columns.h"
#include "output/report/job.h"

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
    mp_json_number(json, "lost_file_bytes", job->model->damage.lost_bytes);
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

void mp_job_coverage_text(struct mp_text *text, const struct mp_job_view *job)
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

void mp_job_processes_json(struct mp_json *json, const struct mp_job_view *job)
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

void mp_job_processes_text(struct mp_text *text, const struct mp_job_view *job, size_t limit)
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

uint64_t mp_job_sites_sum(const struct mp_job_view *job, enum mp_job_sense sense)
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

void mp_job_sites_text(struct mp_text *text, const struct mp_job_view *job, enum mp_job_sense sense, size_t limit,
                       enum mp_stacks stacks)
{
    const struct chosen_sites sites = choose_sites(job, sense, true);
    const struct mp_rows rows = site_rows(&sites, limit, stacks);
    mp_rows_text(text, &rows);
    mp_say_more(text, sites.count - rows.count, limit);
    free(sites.at);
}

void mp_job_sites_json(struct mp_json *json, const char *key, const struct mp_job_view *job, enum mp_job_sense sense,
                       size_t limit)
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
    value->site = (struct mp_site){.stack = ((const struct mp_job_finding *)row)->stack, .births = 1};
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
void mp_job_findings_text(struct mp_text *text, const struct mp_job_view *job, size_t limit, bool full_stacks)
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

void mp_job_findings_json(struct mp_json *json, const struct mp_job_view *job, size_t limit)
{
    const struct mp_rows rows = finding_rows(job, job->leaks.at, mp_shown(job->leaks.count, limit), MP_STACKS);
    mp_rows_json(json, "findings", &rows);
}
