#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/intern.h"
#include "base/memory.h"
#include "base/order.h"
#include "jobs/problems.h"

#define RANGES 8 /* most ranges of absent ranks that a sentence names */
#define NAMED  3 /* recordings with a problem that are named; the others are counted */

/* A list of bounded length: "a.mp (the file is cut), b.mp (...) and 4 more". */
struct list {
    struct mp_buffer text;
    size_t count;
};

static void put_in(struct list *list, const char *format, const char *name, const char *why)
{
    if (list->count++ >= NAMED) return;
    if (list->text.size) mp_buffer_append_text(&list->text, ", ");
    mp_buffer_printf(&list->text, format, name, why);
}

static void add_sentence(struct mp_job_texts *to, struct list *list, const char *one, const char *many)
{
    if (list->count) {
        char more[48] = "";
        if (list->count > NAMED) snprintf(more, sizeof more, " and %zu more", list->count - NAMED);
        char *sentence = mp_text_make("%zu %s: %.*s%s", list->count, list->count == 1 ? one : many,
                                      (int)list->text.size, (const char *)list->text.data, more);
        mp_vec_add(to, sentence);
    }
    mp_buffer_free(&list->text);
    *list = (struct list){.count = 0};
}

/* True for a rank itself, false for a process that works for one. */
static bool is_rank(const struct mp_job_process *process)
{
    return process->rank != MP_NONE && !process->helper;
}

/* Lists the troubles of one kind. The sentence of an error already names its file. */
static void list_troubles(const struct mp_model *model, enum mp_job_trouble_kind kind, const char *format,
                          struct list *list)
{
    mp_vec_each (const struct mp_job_trouble, trouble, &model->job.troubles) {
        if (trouble->kind != kind) continue;
        const char *text = mp_model_text(model, trouble->text);
        bool old = kind == MP_JOB_PARTIAL && *text == '('; /* an older memprof wrote the text with parentheses */
        put_in(list, old ? "%s %s" : format, mp_model_text(model, trouble->path), text);
    }
}

static void find_lacking(const struct mp_model *model, struct mp_job_texts *problems, struct mp_job_texts *notes)
{
    struct list list = {.count = 0};
    list_troubles(model, MP_JOB_UNUSED, "%.0s%s", &list);
    add_sentence(problems, &list, "file could not be used", "files could not be used");
    list_troubles(model, MP_JOB_PARTIAL, "%s (%s)", &list);
    add_sentence(problems, &list, "merged job is not whole", "merged jobs are not whole");
    list_troubles(model, MP_JOB_LEFT_OUT, "%s (%s)", &list);
    add_sentence(notes, &list, "file was left out", "files were left out");
    list_troubles(model, MP_JOB_LIMITED, "%s (%s)", &list);
    add_sentence(notes, &list, "limit", "limits");
    list_troubles(model, MP_JOB_COPIED, "%s (%s)", &list);
    add_sentence(notes, &list, "process copied its parent's memory", "processes copied their parent's memory");
    mp_vec_each (const struct mp_job_process, process, &model->job.processes) {
        if (process->missing)
            put_in(&list, "%s (%s)", mp_model_text(model, process->path), mp_model_text(model, process->missing));
    }
    add_sentence(problems, &list, "recording is not whole", "recordings are not whole");
}

/* Finds the missing ranks of 0 to `size` - 1: "1, 4-7". Ranks come in order. */
static void find_absent(const struct mp_model *model, struct mp_job_texts *problems)
{
    const struct mp_model_job *job = &model->job;
    uint32_t size = 0, next = 0;
    bool differ = false, any = false;
    struct mp_buffer absent = {0};
    uint64_t count = 0, ranges = 0, named = 0;
    for (size_t i = 0; i < job->processes.count; i++) {
        uint32_t world = job->processes.at[i].world_size;
        if (job->processes.at[i].rank == MP_NONE || world == MP_NONE) continue;
        differ |= size && world != size;
        if (world > size) size = world;
    }
    for (size_t i = 0; i <= job->processes.count; i++) {
        const struct mp_job_process *process = i < job->processes.count ? &job->processes.at[i] : NULL;
        if (process && !is_rank(process)) continue;
        uint32_t rank = process ? process->rank : size > next ? size : next;
        any |= process != NULL;
        if (rank > next && (any || size)) {
            count += rank - next;
            if (ranges++ < RANGES) named = count;
            if (ranges <= RANGES)
                mp_buffer_printf(&absent, rank - next > 1 ? "%s%u-%u" : "%s%u", absent.size ? ", " : "", next,
                                 rank - 1);
        }
        if (process && rank >= next) next = rank + 1;
    }
    if (count > named) mp_buffer_printf(&absent, " and %llu more", (unsigned long long)(count - named));
    if (count && any)
        mp_vec_add(problems, mp_text_make("%llu rank%s no recording: %.*s", (unsigned long long)count,
                                          count == 1 ? " has" : "s have", (int)absent.size, (const char *)absent.data));
    if (differ)
        mp_vec_add(problems, mp_text_make("the recordings give different numbers of ranks: they are of several runs"));
    mp_buffer_free(&absent);
}

static bool same_process(const struct mp_job_process *a, const struct mp_job_process *b)
{
    return a->pid != MP_NONE && a->pid == b->pid && a->host == b->host && a->start_unix_ns == b->start_unix_ns;
}

MP_ORDER_OF_INDICES(by_identity, struct mp_job_process,
                    MP_RISING(host) ?: MP_RISING(pid) ?: MP_RISING(start_unix_ns) ?: MP_COMPARE(a, b))

MP_ORDER_OF_INDICES(by_rank_and_time, struct mp_job_process,
                    MP_COMPARE(is_rank(b), is_rank(a)) ?: MP_RISING(rank) ?: MP_RISING(start_unix_ns)
                    ?: MP_COMPARE(a, b))

/* By process: another process that has the same recording, or MP_NONE. */
static void find_copies(const struct mp_model_job *job, uint32_t *order, uint32_t *other)
{
    const struct mp_job_process *rows = job->processes.at;
    qsort_r(order, job->processes.count, sizeof *order, by_identity, job->processes.at);
    for (size_t i = 1; i < job->processes.count; i++)
        if (same_process(&rows[order[i - 1]], &rows[order[i]])) other[order[i]] = order[i - 1];
}

/* By process: another process that was the same rank when it began, or MP_NONE. */
static void find_same_ranks(const struct mp_model_job *job, uint32_t *order, uint32_t *other)
{
    const struct mp_job_process *rows = job->processes.at;
    qsort_r(order, job->processes.count, sizeof *order, by_rank_and_time, job->processes.at);
    uint32_t last = MP_NONE; /* the process of that rank that ends last */
    uint64_t end = 0;
    for (size_t i = 0; i < job->processes.count && is_rank(&rows[order[i]]); i++) {
        const struct mp_job_process *row = &rows[order[i]];
        uint64_t own = mp_job_time_after(row->start_unix_ns, row->duration_ns);
        bool known = last != MP_NONE && rows[last].rank == row->rank;
        if (known && row->start_unix_ns < end && own > rows[last].start_unix_ns) other[order[i]] = last;
        if (known && own <= end) continue;
        last = order[i];
        end = own;
    }
}

/* Finds processes with two recordings, and processes that were the same rank at one time. */
static void find_doubles(const struct mp_model *model, struct mp_job_texts *problems)
{
    const struct mp_model_job *job = &model->job;
    size_t count = job->processes.count;
    struct list list = {.count = 0};
    if (!count) return;
    uint32_t *order = mp_alloc(count * sizeof *order), *other = mp_alloc(count * sizeof *other);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
        other[i] = MP_NONE;
    }
    find_copies(job, order, other);
    find_same_ranks(job, order, other);
    for (size_t i = 0; i < count; i++) {
        if (other[i] == MP_NONE) continue;
        const struct mp_job_process *a = &job->processes.at[other[i]], *b = &job->processes.at[i];
        char rank[32];
        snprintf(rank, sizeof rank, "rank %u", b->rank);
        if (is_rank(a) && is_rank(b) && a->rank == b->rank)
            put_in(&list, "%s (%s)", rank, mp_model_text(model, b->path));
        else
            put_in(&list, "%s (of the same process as %s)", mp_model_text(model, b->path),
                   mp_model_text(model, a->path));
    }
    free(order);
    free(other);
    add_sentence(problems, &list, "recording is there twice", "recordings are there twice");
}

/* Finds ranks that run another program than most ranks. */
static void find_strangers(const struct mp_model *model, const char *const *programs, struct mp_job_texts *problems)
{
    size_t most = 0, ranks = 0;
    uint32_t usual = 0;
    struct mp_intern names = {0};
    size_t *counts = mp_alloc_zeroed(model->job.processes.count + 1, sizeof *counts); /* by program's number */
    for (size_t i = 0; i < model->job.processes.count; i++) {
        if (!is_rank(&model->job.processes.at[i])) continue;
        uint32_t own = mp_intern_add_text(&names, programs[i]);
        ranks++;
        if (++counts[own] > most) most = counts[usual = own];
    }
    struct list list = {.count = 0};
    for (size_t i = 0; ranks > most && i < model->job.processes.count; i++) {
        const struct mp_job_process *process = &model->job.processes.at[i];
        char name[32];
        snprintf(name, sizeof name, "rank %u", process->rank);
        if (is_rank(process) && mp_intern_add_text(&names, programs[i]) != usual)
            put_in(&list, "%s (%s)", name, programs[i]);
    }
    add_sentence(problems, &list, "rank ran another program than the rest", "ranks ran another program than the rest");
    free(counts);
    mp_intern_free(&names);
}

void mp_job_problems_find(const struct mp_model *model, const char *const *programs, struct mp_job_texts *problems,
                          struct mp_job_texts *notes)
{
    find_lacking(model, problems, notes);
    find_absent(model, problems);
    find_doubles(model, problems);
    find_strangers(model, programs, problems);
}
