#include "cli/job.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/setting.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "exchange/common/load.h"
#include "format/reader.h"

#define ROWS_OF_TEXT 10
#define MORE_TO_SAY  8 /* problems that are listed on stderr */

bool mp_job_is_folder(const char *path)
{
    struct stat facts;
    return !stat(path, &facts) && S_ISDIR(facts.st_mode);
}

bool mp_job_is_file(const char *path)
{
    struct stat facts;
    struct mp_reader *reader;
    struct mp_error error;
    char value[4] = "";
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || mp_reader_open(path, &reader, &error)) return false;
    mp_setting(value, sizeof value, mp_reader_start(reader)->configuration, MP_JOB_KEY);
    mp_reader_close(reader);
    return *value;
}

bool mp_job_asked(const struct mp_invocation *invocation)
{
    const char *first = invocation->operand_count ? invocation->operands[0] : NULL;
    return first && (invocation->operand_count > 1 || mp_job_is_folder(first) || mp_job_is_file(first));
}

/* ---- which recordings ------------------------------------------------------------------------------------------- */

static int is_recording_name(const struct dirent *entry)
{
    return *entry->d_name != '.' && mp_path_ends(entry->d_name, ".mp");
}

/* As the bytes are, in every locale: MPI's ranks may have different ones. */
static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

/* Takes the jobs out, unless there is nothing else: they count the recordings beside them. */
static void leave_out_jobs(struct mp_job_paths *paths, size_t first)
{
    size_t kept = first, jobs = 0;
    bool *is_job = mp_alloc_zeroed(paths->count + 1, sizeof *is_job);
    for (size_t i = first; i < paths->count; i++)
        jobs += is_job[i] = mp_job_is_file(paths->at[i]);
    if (jobs < paths->count - first) {
        for (size_t i = first; i < paths->count; i++) {
            if (is_job[i])
                free(paths->at[i]);
            else
                paths->at[kept++] = paths->at[i];
        }
        paths->count = kept;
    }
    free(is_job);
}

static int add_folder(const char *folder, struct mp_job_paths *paths)
{
    struct dirent **entries;
    int found = scandir(folder, &entries, is_recording_name, by_name), used = 0;
    size_t length = strlen(folder), first = paths->count;
    while (length > 1 && folder[length - 1] == '/')
        length--;
    for (int i = 0; i < found; i++) {
        char *path = mp_text_make("%.*s/%s", (int)length, folder, entries[i]->d_name);
        if (mp_job_is_folder(path)) {
            free(path);
        } else {
            mp_vec_add(paths, path);
            used++;
        }
        free(entries[i]);
    }
    if (found >= 0) free(entries);
    if (used) {
        leave_out_jobs(paths, first);
        return MP_EXIT_DONE;
    }
    mp_message(found < 0 ? "cannot read the folder %s"
                         : "%s is a folder without recordings: none of its files ends in .mp",
               folder);
    return MP_EXIT_COULD_NOT;
}

struct identified {
    dev_t device;
    ino_t inode;
    size_t at;
};

static int by_identity(const void *left, const void *right)
{
    const struct identified *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode) return a->inode < b->inode ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Leaves the first name of each file. */
static void drop_doubles(struct mp_job_paths *paths)
{
    struct identified *files = mp_alloc((paths->count + 1) * sizeof *files);
    size_t known = 0, kept = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat facts;
        if (!stat(paths->at[i], &facts)) files[known++] = (struct identified){facts.st_dev, facts.st_ino, i};
    }
    qsort(files, known, sizeof *files, by_identity);
    for (size_t i = 1; i < known; i++) {
        if (files[i].device != files[i - 1].device || files[i].inode != files[i - 1].inode) continue;
        mp_message("%s is named twice, and counts once", paths->at[files[i].at]);
        free(paths->at[files[i].at]);
        paths->at[files[i].at] = NULL;
    }
    for (size_t i = 0; i < paths->count; i++)
        if (paths->at[i]) paths->at[kept++] = paths->at[i];
    paths->count = kept;
    free(files);
}

struct recorded_process {
    char *host;
    uint32_t pid;
    uint64_t start_ns, duration_ns;
    bool snapshot, ended;
    size_t at;
};

static int by_process(const void *left, const void *right)
{
    const struct recorded_process *a = left, *b = right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->pid != b->pid) return a->pid < b->pid ? -1 : 1;
    return strcmp(a->host, b->host);
}

/* Reads all of the file: a cut one has no index, and its duration is that of its last event. */
static void find_end(const char *path, struct recorded_process *process)
{
    static const char snapshot[] = MP_SNAPSHOT_RUNNING;
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    uint32_t texts = 0, wanted = UINT32_MAX;
    if (mp_reader_open(path, &reader, &error)) return;
    while (!mp_reader_next(reader, &chunk, &error)) {
        if (chunk.kind == MP_CHUNK_STRINGS) {
            for (size_t i = 0; i < chunk.count; i++, texts++)
                if (chunk.strings[i].length == sizeof snapshot - 1 &&
                    !memcmp(chunk.strings[i].text, snapshot, sizeof snapshot - 1))
                    wanted = texts;
        } else if (chunk.kind == MP_CHUNK_EVENTS_KIND && chunk.events.count) {
            process->duration_ns = chunk.events.time_ns[chunk.events.count - 1];
        } else if (chunk.kind == MP_CHUNK_EXIT) {
            process->snapshot = chunk.how->text == wanted;
            process->ended = !process->snapshot;
            process->duration_ns = chunk.how->time_ns;
        }
    }
    mp_reader_close(reader);
}

/* Whether `other` holds all that the snapshot holds. Times of files say nothing: a copy has new ones. */
static bool holds_snapshot(const struct recorded_process *other, const struct recorded_process *snapshot,
                           const struct mp_job_paths *paths)
{
    if (other->ended || other->duration_ns != snapshot->duration_ns)
        return other->ended || other->duration_ns > snapshot->duration_ns;
    return !other->snapshot || strcmp(paths->at[other->at], paths->at[snapshot->at]) > 0;
}

static void find_later_of(struct recorded_process *same, size_t count, struct mp_job_paths *paths)
{
    for (size_t i = 0; i < count && count > 1; i++)
        find_end(paths->at[same[i].at], &same[i]);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; same[i].snapshot && j < count && !paths->has_later[same[i].at]; j++)
            paths->has_later[same[i].at] = j != i && holds_snapshot(&same[j], &same[i], paths);
}

/* Reads only the beginning of each file, and more where several are of one process. The moment at which a process's
 * recording started, to the nanosecond, its number and its host tell it from all others. */
static void find_later(struct mp_job_paths *paths)
{
    struct recorded_process *known = mp_alloc((paths->count + 1) * sizeof *known);
    size_t count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat facts;
        struct mp_reader *reader;
        struct mp_error error;
        if (stat(paths->at[i], &facts) || !S_ISREG(facts.st_mode) || mp_reader_open(paths->at[i], &reader, &error))
            continue;
        const struct mp_recording_start *start = mp_reader_start(reader);
        if (start->realtime_ns && start->pid)
            known[count++] = (struct recorded_process){
                .host = mp_text_copy(start->host), .pid = start->pid, .start_ns = start->realtime_ns, .at = i};
        mp_reader_close(reader);
    }
    qsort(known, count, sizeof *known, by_process);
    paths->has_later = mp_alloc_zeroed(paths->count + 1, sizeof *paths->has_later);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && !by_process(&known[i], &known[end]);)
            end++;
        find_later_of(known + i, end - i, paths);
    }
    for (size_t i = 0; i < count; i++)
        free(known[i].host);
    free(known);
}

int mp_job_paths_find(char *const *operands, size_t count, struct mp_job_paths *paths)
{
    int status = MP_EXIT_DONE;
    *paths = (struct mp_job_paths){0};
    for (size_t i = 0; !status && i < count; i++) {
        if (mp_job_is_folder(operands[i]))
            status = add_folder(operands[i], paths);
        else
            mp_vec_add(paths, mp_text_copy(operands[i]));
    }
    if (status) {
        mp_job_paths_free(paths);
        return status;
    }
    drop_doubles(paths);
    find_later(paths);
    return MP_EXIT_DONE;
}

void mp_job_paths_free(struct mp_job_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->at[i]);
    free(paths->has_later);
    mp_vec_free(paths);
}

void mp_job_add_paths(const struct mp_invocation *invocation, const struct mp_job_paths *paths, size_t first, size_t of,
                      struct mp_job *job)
{
    mp_progress_start_work(invocation, "reading recordings");
    for (size_t i = first; i < paths->count; i += of) {
        struct mp_model *model;
        struct mp_error error;
        if (paths->has_later[i]) {
            mp_message("%s was taken while its process ran, and is left out: a later recording of that is there",
                       paths->at[i]);
            continue;
        }
        enum mp_status status = mp_exchange_load_any(paths->at[i], &model, &error);
        if (!status) {
            status = mp_job_add(job, paths->at[i], model, &error);
            mp_model_free(model);
        }
        if (status) mp_job_add_trouble(job, paths->at[i], error.text);
        mp_progress_report(NULL, i + 1, paths->count);
    }
    mp_progress_end();
}

/* ---- a query ---------------------------------------------------------------------------------------------------- */

/* Options that look into one recording. */
static int check_options(const struct mp_invocation *invocation)
{
    static const enum mp_option single[] = {MP_OPT_TRACK,  MP_OPT_FROM,        MP_OPT_TO,    MP_OPT_GROUP,
                                            MP_OPT_FILTER, MP_OPT_RULES,       MP_OPT_QUICK, MP_OPT_SIZES,
                                            MP_OPT_FORMAT, MP_OPT_SUPPRESSIONS};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        if (!mp_given(invocation, single[i])) continue;
        mp_message("--%s looks into one recording, and this is a job of several: name one of them",
                   mp_option_rows[single[i]].name);
        return MP_EXIT_USAGE;
    }
    return mp_progress_valid(invocation) ? MP_EXIT_DONE : MP_EXIT_USAGE;
}

static int read_limit(const struct mp_invocation *invocation, bool as_json, size_t *limit)
{
    const char *text = invocation->value[MP_OPT_LIMIT];
    char *end;
    *limit = as_json ? 0 : ROWS_OF_TEXT;
    if (!text) return MP_EXIT_DONE;
    unsigned long long rows = strtoull(text, &end, 10);
    *limit = (size_t)rows;
    if (*text >= '0' && *text <= '9' && !*end) return MP_EXIT_DONE;
    mp_message("--limit: \"%s\" is not a number of rows", text);
    return MP_EXIT_USAGE;
}

bool mp_job_holds_any(const struct mp_model *model)
{
    const struct mp_model_job *rows = &model->job;
    if (rows->processes.count) return true;
    for (size_t i = 0; i < rows->troubles.count && i < MORE_TO_SAY; i++) {
        const char *text = mp_model_text(model, rows->troubles.at[i].text);
        if (*text == '(') /* of a job that was merged, as docs/FORMAT.md says: the text does not name it */
            mp_message("%s holds no process %s", mp_model_text(model, rows->troubles.at[i].path), text);
        else
            mp_message("%s", text);
    }
    if (!rows->troubles.count) mp_message("there is no process in the job");
    return false;
}

int mp_job_load(const struct mp_invocation *invocation, char *const *operands, size_t count, struct mp_model **model)
{
    struct mp_job_paths paths;
    struct mp_error error;
    int status = mp_job_paths_find(operands, count, &paths);
    if (status) return status;
    if (paths.count == 1 && mp_job_is_file(paths.at[0])) {
        if (mp_exchange_load_any(paths.at[0], model, &error)) status = mp_message_error(&error);
    } else {
        struct mp_job *job = mp_job_new();
        mp_job_add_paths(invocation, &paths, 0, 1, job);
        if (mp_job_finish(job, model, &error)) status = mp_message_error(&error);
    }
    mp_job_paths_free(&paths);
    if (status || mp_job_holds_any(*model)) return status;
    mp_model_free(*model);
    return MP_EXIT_COULD_NOT;
}

int mp_job_read_options(const struct mp_invocation *invocation, struct mp_job_query *query)
{
    *query = (struct mp_job_query){.invocation = invocation};
    query->text.out = &query->out;
    mp_json_start(&query->json, &query->out);
    query->as_json = mp_given(invocation, MP_OPT_JSON);
    query->view.path = invocation->operands[0];
    query->view.full_stacks = mp_given(invocation, MP_OPT_FULL_STACKS);
    query->view.outstanding = mp_given(invocation, MP_OPT_OUTSTANDING);
    int status = check_options(invocation);
    if (!status) status = read_limit(invocation, query->as_json, &query->view.limit);
    return status ? status : mp_query_color(invocation, &query->text.color);
}

int mp_job_open(const struct mp_invocation *invocation, struct mp_job_query *query)
{
    int status = mp_job_read_options(invocation, query);
    if (!status) status = mp_job_load(invocation, invocation->operands, invocation->operand_count, &query->model);
    if (!status) mp_job_view_make(query->model, &query->job);
    return status;
}

bool mp_job_report_problems(const char *path, const struct mp_job_view *job)
{
    struct mp_buffer missing = {0};
    bool damaged = mp_model_incomplete(job->model);
    if (damaged) {
        mp_coverage_sentence(&missing, job->model);
        mp_message("%s: %.*s; what it holds was used", path, (int)missing.size, (const char *)missing.data);
        mp_buffer_free(&missing);
    }
    for (size_t i = 0; i < job->problems.count; i++)
        mp_message("%s", job->problems.at[i]);
    return damaged || job->problems.count;
}

int mp_job_close(struct mp_job_query *query, int status)
{
    if (!status) status = mp_output_buffer(query->invocation, &query->out);
    return mp_job_end(query, status);
}

int mp_job_end(struct mp_job_query *query, int status)
{
    if (!status && mp_job_report_problems(query->view.path, &query->job)) status = MP_EXIT_INCOMPLETE;
    mp_job_view_free(&query->job);
    mp_model_free(query->model);
    mp_buffer_free(&query->out);
    return status;
}

int mp_job_answer(const struct mp_invocation *invocation, mp_job_text_writer *text, mp_job_json_writer *json)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    if (query.as_json)
        json(&query.json, NULL, &query.job, &query.view);
    else
        text(&query.text, &query.job, &query.view);
    return mp_job_close(&query, MP_EXIT_DONE);
}
