#include "jobs/paths.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/order.h"
#include "cli/messages.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "exchange/load/load.h"
#include "format/reader.h"

/* The reason why a file does not count. Other MPI ranks get the reason by its index. The reason "" is for a merged job
 * next to its own recordings: it gets no message. */
static const char *const reasons[] = {NULL, "named twice", "",
                                      "taken while its process ran: a later recording of that is there"};
enum reason { COUNTS, TWICE, IS_JOB, HAS_LATER };

bool mp_job_is_folder(const char *path)
{
    struct stat facts;
    return !stat(path, &facts) && S_ISDIR(facts.st_mode);
}

/* ---- what a file is, by its beginning --------------------------------------------------------------------------- */

struct recorded_process {
    char *host;
    uint32_t pid;
    uint64_t start_ns, duration_ns;
    bool snapshot, ended;
    size_t at;
};

/* Reads the file's beginning. True if the file is a job. *process is the recorded process, and stays unchanged if
 * unknown. */
static bool look_at_file(const char *path, struct recorded_process *process)
{
    struct stat facts;
    struct mp_reader *reader;
    struct mp_error error;
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || mp_reader_open(path, &reader, &error)) return false;
    const struct mp_recording_start *start = mp_reader_start(reader);
    bool is_job = mp_start_is_job(start);
    if (start->realtime_ns && start->pid)
        *process = (struct recorded_process){
            .host = mp_text_copy(start->host), .pid = start->pid, .start_ns = start->realtime_ns};
    mp_reader_close(reader);
    return is_job;
}

/* ---- finding the files --------------------------------------------------------------------------------------------
 */

static int is_recording_name(const struct dirent *entry)
{
    return *entry->d_name != '.' && mp_path_ends(entry->d_name, ".mp");
}

/* Compares bytes, not by locale: MPI's ranks may have different locales. */
static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

/* Paths found. `folder` has for each path the number, from 1, of the operand that is its folder; 0: the path is an
 * operand. */
struct found {
    MP_VEC(size_t) folder;
    struct mp_job_paths *paths;
};

static void add_path(struct found *found, char *path, size_t folder)
{
    struct mp_job_path row = {.path = path};
    mp_vec_add(found->paths, row);
    mp_vec_add(&found->folder, folder);
}

static int add_folder(struct found *found, const char *folder, size_t number)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_recording_name, by_name), used = 0;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    for (int i = 0; i < count; i++) {
        char *path = mp_text_make("%.*s/%s", (int)length, folder, entries[i]->d_name);
        if (mp_job_is_folder(path)) {
            free(path);
        } else {
            add_path(found, path, number);
            used++;
        }
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    if (used) return MP_EXIT_DONE;
    return mp_give_up(count < 0 ? "cannot read the folder %s"
                                : "%s is a folder without recordings: none of its files ends in .mp",
                      folder);
}

/* ---- choosing among them ---------------------------------------------------------------------------------------- */

struct identified {
    dev_t device;
    ino_t inode;
    size_t at;
};

MP_ORDER(by_identity, struct identified, MP_RISING(device) ?: MP_RISING(inode) ?: MP_RISING(at))

/* Leaves out all but the first name of each file. */
static void leave_out_doubles(struct mp_job_paths *paths)
{
    struct identified *files = mp_alloc((paths->count + 1) * sizeof *files);
    size_t known = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat facts;
        if (!stat(paths->at[i].path, &facts)) files[known++] = (struct identified){facts.st_dev, facts.st_ino, i};
    }
    qsort(files, known, sizeof *files, by_identity);
    for (size_t i = 1; i < known; i++)
        if (files[i].device == files[i - 1].device && files[i].inode == files[i - 1].inode)
            paths->at[files[i].at].left_out = reasons[TWICE];
    free(files);
}

/* Leaves out a folder's jobs, which contain the recordings of the same folder. Jobs stay if the folder has nothing
 * else. */
static void leave_out_jobs(const struct found *found, size_t folders)
{
    struct mp_job_paths *paths = found->paths;
    bool *others = mp_alloc_zeroed(folders + 1, sizeof *others);
    for (size_t i = 0; i < paths->count; i++)
        if (!paths->at[i].is_job) others[found->folder.at[i]] = true;
    for (size_t i = 0; i < paths->count; i++) {
        size_t folder = found->folder.at[i];
        if (folder && others[folder] && paths->at[i].is_job && !paths->at[i].left_out)
            paths->at[i].left_out = reasons[IS_JOB];
    }
    free(others);
}

MP_ORDER(by_process, struct recorded_process, MP_RISING(start_ns) ?: MP_RISING(pid) ?: strcmp(a->host, b->host))

/* Reads the whole file: a cut file has no index, and its duration is the time of its last event. */
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
                if (chunk.as.strings[i].length == sizeof snapshot - 1 &&
                    !memcmp(chunk.as.strings[i].text, snapshot, sizeof snapshot - 1))
                    wanted = texts;
        } else if (chunk.kind == MP_CHUNK_EVENTS_KIND && chunk.as.events.count) {
            process->duration_ns = chunk.as.events.time_ns[chunk.as.events.count - 1];
        } else if (chunk.kind == MP_CHUNK_EXIT) {
            process->snapshot = chunk.as.how->text == wanted;
            process->ended = !process->snapshot;
            process->duration_ns = chunk.as.how->time_ns;
        }
    }
    mp_reader_close(reader);
}

/* True if `other` contains all events of the snapshot. File times are not used, since copies have new ones. */
static bool holds_snapshot(const struct recorded_process *other, const struct recorded_process *snapshot,
                           const struct mp_job_paths *paths)
{
    if (other->ended || other->duration_ns != snapshot->duration_ns)
        return other->ended || other->duration_ns > snapshot->duration_ns;
    return !other->snapshot || strcmp(paths->at[other->at].path, paths->at[snapshot->at].path) > 0;
}

static void find_later_of(struct recorded_process *same, size_t count, struct mp_job_paths *paths)
{
    for (size_t i = 0; i < count && count > 1; i++)
        find_end(paths->at[same[i].at].path, &same[i]);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; same[i].snapshot && j < count && !paths->at[same[i].at].left_out; j++)
            if (j != i && holds_snapshot(&same[j], &same[i], paths))
                paths->at[same[i].at].left_out = reasons[HAS_LATER];
}

/* Reads the beginning of each file, and more if several files are of one process. A process is identified by the
 * recording's start in ns, pid and host. */
static void look_at_all(struct found *found, size_t folders)
{
    struct mp_job_paths *paths = found->paths;
    struct recorded_process *known = mp_alloc((paths->count + 1) * sizeof *known);
    size_t count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct recorded_process process = {.start_ns = 0};
        if (paths->at[i].left_out) continue;
        paths->at[i].is_job = look_at_file(paths->at[i].path, &process);
        process.at = i;
        if (process.start_ns) known[count++] = process;
    }
    leave_out_jobs(found, folders);
    qsort(known, count, sizeof *known, by_process);
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
    struct found found = {.paths = paths};
    int status = MP_EXIT_DONE;
    *paths = (struct mp_job_paths){0};
    for (size_t i = 0; !status && i < count; i++) {
        if (mp_job_is_folder(operands[i]))
            status = add_folder(&found, operands[i], i + 1);
        else
            add_path(&found, mp_text_copy(operands[i]), 0);
    }
    if (status) {
        mp_job_paths_free(paths);
    } else {
        leave_out_doubles(paths);
        look_at_all(&found, count);
    }
    mp_vec_free(&found.folder);
    return status;
}

void mp_job_paths_free(struct mp_job_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->at[i].path);
    mp_vec_free(paths);
}

/* ---- paths for another process
 * ---------------------------------------------------------------------------------------- */

/* Each path becomes a byte (the reason, and whether it is a job), and the path with its NUL. */
void mp_job_paths_pack(const struct mp_job_paths *paths, struct mp_buffer *out)
{
    for (size_t i = 0; i < paths->count; i++) {
        unsigned char facts = 0;
        while (reasons[facts] != paths->at[i].left_out)
            facts++;
        facts = (unsigned char)(2 * facts + paths->at[i].is_job);
        mp_buffer_append(out, &facts, 1);
        mp_buffer_append(out, paths->at[i].path, strlen(paths->at[i].path) + 1);
    }
}

bool mp_job_paths_unpack(const char *bytes, size_t size, struct mp_job_paths *paths)
{
    *paths = (struct mp_job_paths){0};
    if (!size || bytes[size - 1]) return false;
    for (size_t at = 0; at < size; at += 2 + strlen(bytes + at + 1)) {
        unsigned char facts = (unsigned char)bytes[at];
        struct mp_job_path row = {.path = mp_text_copy(at + 1 < size ? bytes + at + 1 : ""),
                                  .left_out = reasons[facts / 2 % (sizeof reasons / sizeof *reasons)],
                                  .is_job = facts % 2};
        mp_vec_add(paths, row);
        if (at + 1 == size) break;
    }
    return true;
}

/* ---- adding to a job
 * ------------------------------------------------------------------------------------------------- */

void mp_job_add_paths(const struct mp_invocation *invocation, const struct mp_job_paths *paths, size_t first, size_t of,
                      struct mp_job *job)
{
    mp_progress_start_work(invocation, "reading recordings");
    for (size_t i = first; i < paths->count; i += of) {
        const struct mp_job_path *path = &paths->at[i];
        struct mp_model *model;
        struct mp_error error;
        if (path->left_out) {
            if (*path->left_out) mp_job_add_trouble(job, MP_JOB_LEFT_OUT, path->path, path->left_out);
            continue;
        }
        enum mp_status status = mp_exchange_load_any(path->path, &model, &error);
        if (!status) {
            status = mp_job_add(job, path->path, model, &error);
            mp_model_free(model);
        }
        if (status) mp_job_add_trouble(job, MP_JOB_UNUSED, path->path, error.text);
        mp_progress_report(NULL, i + 1, paths->count);
    }
    mp_progress_end();
}
