#include "jobs/view.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "jobs/join.h"
#include "model/stack.h"

/* A process is out of line if its distance from the median exceeds FAR times the usual distance, and this part of the
 * median. */
#define FAR          6
#define PART         10
#define LEAST_BYTES  (64u << 10)
#define PART_OF_PAIR 4 /* of two processes, neither is the usual one, so they must differ by this part */

uint64_t mp_job_peak_of(const struct mp_job_view *view, uint32_t process)
{
    const struct mp_job_track *track = mp_job_chosen(view, process);
    return track ? track->peak_bytes : 0;
}

uint64_t mp_job_end_of(const struct mp_job_view *view, uint32_t process)
{
    const struct mp_job_track *track = mp_job_chosen(view, process);
    return track ? track->end_bytes : 0;
}

static void choose(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    view->chosen = mp_alloc((job->processes.count + 1) * sizeof *view->chosen);
    for (size_t i = 0; i < job->processes.count; i++)
        view->chosen[i] = MP_NONE;
    for (size_t i = 0; i < job->tracks.count; i++)
        if (job->tracks.at[i].chosen) view->chosen[job->tracks.at[i].process] = (uint32_t)i;
}

/* ---- attempts ---------------------------------------------------------------------------------------------------- */

MP_ORDER_OF_INDICES(by_rank_and_time, struct mp_job_process,
                    MP_RISING(helper) ?: MP_RISING(rank) ?: MP_RISING(start_unix_ns) ?: MP_COMPARE(a, b))

/* A launcher such as torchrun starts all ranks anew after a failure. The k-th attempt is over when a rank's k-th
 * process has ended, and a later process has the same rank. */
static void find_attempts(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    size_t count = job->processes.count;
    const struct mp_job_process *rows = job->processes.at;
    MP_VEC(uint64_t) ends = {0}; /* by attempt, counted from 0 */
    uint32_t *order = mp_alloc((count + 1) * sizeof *order), nth = 0;
    view->attempt = mp_alloc_zeroed(count + 1, sizeof *view->attempt);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (count) qsort_r(order, count, sizeof *order, by_rank_and_time, job->processes.at);
    for (size_t i = 1; i < count; i++) {
        const struct mp_job_process *one = &rows[order[i - 1]], *next = &rows[order[i]];
        uint64_t end = mp_job_time_after(one->start_unix_ns, one->duration_ns);
        bool again = !next->helper && next->rank != MP_NONE && one->rank == next->rank && one->start_unix_ns &&
                     end <= next->start_unix_ns;
        if (one->rank != next->rank) nth = 0;
        if (!again) continue;
        if (nth == ends.count) mp_vec_add(&ends, end);
        if (end < ends.at[nth]) ends.at[nth] = end;
        nth++;
    }
    for (size_t i = 0; ends.count && i < count; i++)
        if (rows[i].rank != MP_NONE)
            view->attempt[i] = 1 + (uint32_t)MP_COUNT_BEFORE(ends.count, k, ends.at[k] <= rows[i].start_unix_ns);
    mp_vec_free(&ends);
    free(order);
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static char *short_name(const char *word, size_t length)
{
    char *path = mp_text_copy_part(word, length), *name = mp_text_copy(mp_path_short(path));
    free(path);
    return name;
}

static const char *after(const char *word)
{
    word += strcspn(word, " ");
    return word + strspn(word, " ");
}

/* "train.py" of "python3 -u train.py --lr 3", "package.main" of "python -m package.main", else the program's name. */
static char *program_of(const char *command)
{
    char *program = short_name(command, strcspn(command, " "));
    const char *word = after(command);
    if (strncmp(program, "python", 6) && strncmp(program, "pypy", 4)) return program;
    while (*word == '-') {
        size_t length = strcspn(word, " ");
        bool module = length > 1 && word[1] != '-' && word[length - 1] == 'm' && !memchr(word, 'X', length) &&
                      !memchr(word, 'W', length);
        bool pair = length == 2 && strchr("XW", word[1]);
        if (length == 2 && word[1] == 'c') return program;
        word = after(word);
        if (module) break;
        if (pair) word = after(word);
    }
    if (!*word) return program;
    free(program);
    return short_name(word, strcspn(word, " "));
}

struct named {
    const struct mp_job_view *view;
    char **programs;
};

static int compare_groups(const struct named *named, uint32_t left, uint32_t right)
{
    const struct mp_job_process *a = &named->view->model->job.processes.at[left];
    const struct mp_job_process *b = &named->view->model->job.processes.at[right];
    const struct mp_job_track *first = mp_job_chosen(named->view, left), *second = mp_job_chosen(named->view, right);
    uint32_t one = first ? first->kind : 0, other = second ? second->kind : 0;
    if (a->helper != b->helper) return a->helper - b->helper;
    if (a->role != b->role) return a->role < b->role ? -1 : 1;
    if (named->view->attempt[left] != named->view->attempt[right])
        return named->view->attempt[left] < named->view->attempt[right] ? -1 : 1;
    if (one != other) return one < other ? -1 : 1;
    return strcmp(named->programs[left], named->programs[right]);
}

static int by_group(const void *left, const void *right, void *context)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = compare_groups(context, a, b);
    return order ? order : a < b ? -1 : a > b;
}

static int by_peak(const void *left, const void *right, void *context)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t first = mp_job_peak_of(context, a), second = mp_job_peak_of(context, b);
    if (first != second) return first > second ? -1 : 1;
    return a < b ? -1 : a > b;
}

MP_ORDER(by_size, uint64_t, MP_COMPARE(*a, *b))

static void sum_up(struct mp_job_view *view, struct mp_job_group *group)
{
    uint64_t *distances = mp_alloc(group->count * sizeof *distances);
    qsort_r(group->processes, group->count, sizeof *group->processes, by_peak, view);
    uint64_t upper = mp_job_peak_of(view, group->processes[(group->count - 1) / 2]);
    uint64_t lower = mp_job_peak_of(view, group->processes[group->count / 2]);
    group->median = lower + (upper - lower) / 2;
    for (size_t i = 0; i < group->count; i++) {
        uint32_t process = group->processes[i];
        uint64_t peak = mp_job_peak_of(view, process);
        distances[i] = peak > group->median ? peak - group->median : group->median - peak;
        group->sum += peak;
        group->end_bytes += mp_job_end_of(view, process);
        group->growth += view->model->job.processes.at[process].growth;
        group->leaking += view->model->job.processes.at[process].verdict == MP_VERDICT_LEAK;
    }
    qsort(distances, group->count, sizeof *distances, by_size);
    group->spread = distances[group->count / 2];
    free(distances);
}

/* Orders groups: devices before hosts, ranks before their helpers, then the higher peak first. */
static int by_weight(const void *left, const void *right, void *context)
{
    const struct mp_job_view *view = context;
    const struct mp_job_group *a = left, *b = right;
    const char *first = mp_model_text(view->model, a->kind), *second = mp_model_text(view->model, b->kind);
    int device = (*first && strncmp(first, "cpu", 3)) - (*second && strncmp(second, "cpu", 3));
    if (device) return -device;
    if (a->helper != b->helper) return a->helper - b->helper;
    uint64_t highest = mp_job_peak_of(view, a->processes[0]), other = mp_job_peak_of(view, b->processes[0]);
    if (highest != other) return highest > other ? -1 : 1;
    return a->processes[0] < b->processes[0] ? -1 : 1;
}

static void find_groups(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    size_t count = job->processes.count;
    struct named named = {view, mp_alloc_zeroed(count + 1, sizeof *named.programs)};
    uint32_t *order = mp_alloc((count + 1) * sizeof *order);
    view->group = mp_alloc_zeroed(count + 1, sizeof *view->group);
    for (uint32_t i = 0; i < count; i++) {
        named.programs[i] = program_of(mp_model_text(view->model, job->processes.at[i].command));
        order[i] = i;
    }
    qsort_r(order, count, sizeof *order, by_group, &named);
    for (size_t i = 0; i < count; i++) {
        if (!i || compare_groups(&named, order[i - 1], order[i])) {
            const struct mp_job_track *track = mp_job_chosen(view, order[i]);
            struct mp_job_group group = {.role = job->processes.at[order[i]].role,
                                         .kind = track ? track->kind : 0,
                                         .program = mp_text_copy(named.programs[order[i]]),
                                         .helper = job->processes.at[order[i]].helper,
                                         .attempt = view->attempt[order[i]]};
            mp_vec_add(&view->groups, group);
        }
        struct mp_job_group *group = &view->groups.at[view->groups.count - 1];
        MP_VEC(uint32_t) list = {group->processes, group->count, group->room};
        mp_vec_add(&list, order[i]);
        group->processes = list.at;
        group->count = list.count;
        group->room = list.room;
    }
    for (size_t i = 0; i < view->groups.count; i++)
        sum_up(view, &view->groups.at[i]);
    if (view->groups.count) qsort_r(view->groups.at, view->groups.count, sizeof *view->groups.at, by_weight, view);
    for (uint32_t i = 0; i < view->groups.count; i++)
        for (size_t k = 0; k < view->groups.at[i].count; k++)
            view->group[view->groups.at[i].processes[k]] = i;
    for (size_t i = 0; i < count; i++)
        free(named.programs[i]);
    free(named.programs);
    free(order);
}

/* ---- out of line ------------------------------------------------------------------------------------------------ */

MP_ORDER(by_site, struct mp_job_site, MP_RISING(sense) ?: MP_RISING(kind) ?: MP_RISING(stack))

static const struct mp_job_site *find_site(const struct mp_job_view *view, uint32_t kind, uint32_t stack)
{
    const struct mp_job_site key = {.stack = stack, .kind = kind, .sense = MP_JOB_PEAK};
    const struct mp_model_job *job = &view->model->job;
    return job->sites.count ? bsearch(&key, job->sites.at, job->sites.count, sizeof key, by_site) : NULL;
}

static uint64_t gap(const struct mp_job_reason *reason)
{
    return reason->own > reason->others ? reason->own - reason->others : reason->others - reason->own;
}

static void add_reason(struct mp_job_outlier *outlier, struct mp_job_reason reason)
{
    size_t at = outlier->reason_count;
    if (gap(&reason) < outlier->distance / PART) return;
    while (at && gap(&outlier->reasons[at - 1]) < gap(&reason))
        at--;
    if (at == MP_JOB_REASONS) return;
    size_t last = outlier->reason_count < MP_JOB_REASONS ? outlier->reason_count++ : MP_JOB_REASONS - 1;
    memmove(outlier->reasons + at + 1, outlier->reasons + at, (last - at) * sizeof reason);
    outlier->reasons[at] = reason;
}

/* The first holding of a process, by bisection. */
static size_t first_holding(const struct mp_model_job *job, uint32_t process)
{
    return MP_COUNT_BEFORE(job->holdings.count, i, job->holdings.at[i].process < process);
}

/* True if a process certainly has nothing at a site: its largest sites are known, and all others are smaller. */
static bool lacks(const struct mp_model_job *job, uint32_t process, const struct mp_job_site *site)
{
    uint64_t smallest = UINT64_MAX;
    size_t first = first_holding(job, process), at = first;
    for (; at < job->holdings.count && job->holdings.at[at].process == process; at++) {
        if (job->holdings.at[at].stack == site->stack) return false;
        if (job->holdings.at[at].bytes < smallest) smallest = job->holdings.at[at].bytes;
    }
    return at - first < MP_JOB_HOLDINGS || site->least > smallest;
}

static void find_reasons(const struct mp_job_view *view, struct mp_job_outlier *outlier)
{
    const struct mp_model_job *job = &view->model->job;
    const struct mp_job_group *group = &view->groups.at[outlier->group];
    uint64_t rest = group->count - 1;
    for (size_t i = first_holding(job, outlier->process); outlier->more && i < job->holdings.count; i++) {
        const struct mp_job_holding *own = &job->holdings.at[i];
        if (own->process != outlier->process) break;
        const struct mp_job_site *site = find_site(view, group->kind, own->stack);
        uint64_t others = site && rest && site->bytes > own->bytes ? (site->bytes - own->bytes) / rest : 0;
        if (own->bytes > others) add_reason(outlier, (struct mp_job_reason){own->stack, own->bytes, others});
    }
    for (size_t i = 0; !outlier->more && i < job->sites.count; i++) {
        const struct mp_job_site *site = &job->sites.at[i];
        if (site->sense != MP_JOB_PEAK || site->kind != group->kind || !rest) continue;
        if (site->processes == rest && lacks(job, outlier->process, site))
            add_reason(outlier, (struct mp_job_reason){site->stack, 0, site->bytes / rest});
        bool has_less = site->least_process == outlier->process && site->processes == group->count;
        if (has_less && site->bytes - site->least > site->least * rest)
            add_reason(outlier, (struct mp_job_reason){site->stack, site->least, (site->bytes - site->least) / rest});
    }
}

MP_ORDER(by_distance, struct mp_job_outlier, MP_FALLING(distance) ?: MP_RISING(process))

static void judge(struct mp_job_view *view, uint32_t at)
{
    const struct mp_job_group *group = &view->groups.at[at];
    bool pair = group->count == 2;
    uint64_t usual = pair ? mp_job_peak_of(view, group->processes[1]) : group->median;
    uint64_t far = pair ? usual / PART_OF_PAIR : group->spread * FAR;
    if (far < usual / PART) far = usual / PART;
    if (far < LEAST_BYTES) far = LEAST_BYTES;
    for (size_t i = 0; group->kind && group->count > 1 && i < (pair ? 1 : group->count); i++) {
        uint64_t peak = mp_job_peak_of(view, group->processes[i]);
        uint64_t distance = peak > usual ? peak - usual : usual - peak;
        if (distance <= far) continue;
        /* An incomplete recording is not reported as low: it may just lack the missing bytes. */
        uint32_t low = peak < usual ? group->processes[i] : pair ? group->processes[1] : MP_NONE;
        if (low != MP_NONE && view->model->job.processes.at[low].missing) continue;
        struct mp_job_outlier outlier = {
            .process = group->processes[i], .group = at, .more = peak > usual, .distance = distance};
        mp_vec_add(&view->outliers, outlier);
    }
}

#define EXPLAINED 64 /* most processes whose sites are compared */

static void find_outliers(struct mp_job_view *view)
{
    for (uint32_t i = 0; i < view->groups.count; i++)
        judge(view, i);
    if (!view->outliers.count) return;
    qsort(view->outliers.at, view->outliers.count, sizeof *view->outliers.at, by_distance);
    for (size_t i = 0; i < view->outliers.count && i < EXPLAINED; i++)
        find_reasons(view, &view->outliers.at[i]);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

MP_ORDER(by_step, struct mp_job_point, MP_RISING(at) ?: MP_FALLING(most) ?: MP_RISING(process))

/* Sums the processes' points, unit by unit. If a process has several points in a unit, only its highest counts. */
static void add_to_steps(struct mp_job_view *view, const struct mp_job_point *points, size_t count, uint64_t *last)
{
    for (size_t i = 0; i < count; i++) {
        const struct mp_job_point *point = &points[i];
        bool fresh = !i || points[i - 1].at != point->at;
        struct mp_job_step step = {
            .first = point->at << view->step_shift, .least = UINT64_MAX, .most_process = point->process};
        if (fresh) mp_vec_add(&view->steps, step);
        struct mp_job_step *row = &view->steps.at[view->steps.count - 1];
        if (!fresh && last[point->process] == point->at)
            continue; /* the process's highest point in this unit came
                       * before */
        last[point->process] = point->at;
        if (!row->processes) row->most = point->most;
        row->processes++;
        row->sum += point->most;
        if (point->most < row->least) {
            row->least = point->most;
            row->least_process = point->process;
        }
    }
}

static void find_steps(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    MP_VEC(struct mp_job_point) points = {0};
    if (!view->groups.count) return;
    for (size_t i = 0; i < job->points.count; i++) {
        struct mp_job_point point = job->points.at[i];
        if (point.curve != MP_JOB_BY_STEP || view->group[point.process]) continue;
        if (point.shift > view->step_shift) view->step_shift = point.shift;
        mp_vec_add(&points, point);
    }
    for (size_t i = 0; i < points.count; i++)
        points.at[i].at >>= view->step_shift - points.at[i].shift;
    if (points.count) {
        uint64_t *last = mp_alloc((job->processes.count + 1) * sizeof *last);
        memset(last, 0xff, (job->processes.count + 1) * sizeof *last);
        qsort(points.at, points.count, sizeof *points.at, by_step);
        add_to_steps(view, points.at, points.count, last);
        free(last);
    }
    mp_vec_free(&points);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static int by_growth(const void *left, const void *right, void *context)
{
    const struct mp_job_finding *rows = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (rows[a].bytes_per_step != rows[b].bytes_per_step)
        return rows[a].bytes_per_step > rows[b].bytes_per_step ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void find_leaks(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    for (uint32_t i = 0; i < job->findings.count; i++)
        if (job->findings.at[i].class < MP_LEAK_RETAINED_ONCE) mp_vec_add(&view->leaks, i);
    if (view->leaks.count)
        qsort_r(view->leaks.at, view->leaks.count, sizeof *view->leaks.at, by_growth, job->findings.at);
}

/* True if a process without a verdict leaves the job's open: it marks steps of its own, is a rank, or kept blocks of an
 * allocator other than the C library's. A launcher or an engine's own process does none of these. */
bool mp_job_is_unjudged(const struct mp_job_view *view, uint32_t index)
{
    const struct mp_model_job *job = &view->model->job;
    const struct mp_job_process *process = &job->processes.at[index];
    bool has_steps = process->steps && strcmp(mp_model_text(view->model, process->step_source), "inferred") != 0;
    if (process->verdict != MP_VERDICT_UNKNOWN || has_steps || (process->rank != MP_NONE && !process->helper))
        return false;
    uint64_t kept = 0;
    mp_vec_each (const struct mp_job_track, track, &job->tracks)
        if (track->process == index && track->layer != MP_LAYER_MALLOC) kept += track->end_bytes;
    return !kept;
}

static void sum_processes(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    size_t unknown = 0;
    view->highest = MP_NONE;
    for (uint32_t i = 0; i < job->processes.count; i++) {
        const struct mp_job_process *process = &job->processes.at[i];
        view->events += process->events;
        view->dropped += process->dropped;
        view->end_bytes += mp_job_end_of(view, i);
        view->leaking += process->verdict == MP_VERDICT_LEAK;
        view->unjudged += mp_job_is_unjudged(view, i);
        unknown += process->verdict == MP_VERDICT_UNKNOWN;
        view->limited |= process->limited;
        uint64_t from = process->start_unix_ns, to = mp_job_time_after(from, process->duration_ns);
        if (from && (!view->from_unix_ns || from < view->from_unix_ns)) view->from_unix_ns = from;
        if (to > view->to_unix_ns) view->to_unix_ns = to;
    }
    if (view->unjudged == job->processes.count) view->unjudged = 0; /* somebody did the work */
    view->verdict = view->leaking ? MP_VERDICT_LEAK : unknown > view->unjudged ? MP_VERDICT_UNKNOWN : MP_VERDICT_CLEAN;
}

void mp_job_view_make(const struct mp_model *model, struct mp_job_view *view)
{
    *view = (struct mp_job_view){.model = model};
    choose(view);
    sum_processes(view);
    find_attempts(view);
    find_groups(view);
    if (view->groups.count && view->groups.at[0].kind) view->highest = view->groups.at[0].processes[0];
    find_outliers(view);
    find_steps(view);
    find_leaks(view);
    mp_job_devices_find(model, &view->devices);
    const char **programs = mp_alloc_zeroed(model->job.processes.count + 1, sizeof *programs);
    for (size_t i = 0; i < model->job.processes.count; i++)
        programs[i] = view->groups.at[view->group[i]].program;
    mp_job_problems_find(model, programs, &view->problems, &view->notes);
    free(programs);
}

void mp_job_view_free(struct mp_job_view *view)
{
    for (size_t i = 0; i < view->groups.count; i++) {
        free(view->groups.at[i].program);
        free(view->groups.at[i].processes);
    }
    for (size_t i = 0; i < view->problems.count; i++)
        free(view->problems.at[i]);
    for (size_t i = 0; i < view->notes.count; i++)
        free(view->notes.at[i]);
    free(view->chosen);
    free(view->group);
    free(view->attempt);
    mp_vec_free(&view->groups);
    mp_vec_free(&view->outliers);
    mp_vec_free(&view->devices);
    mp_vec_free(&view->steps);
    mp_vec_free(&view->leaks);
    mp_vec_free(&view->problems);
    mp_vec_free(&view->notes);
}
