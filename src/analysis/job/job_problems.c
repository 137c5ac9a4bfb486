#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/job/job_view.h"
#include "base/buffer.h"
#include "base/memory.h"

#define NAMED 3 /* recordings with a problem that are named; of others the number is given */

/* A list that stays readable: "a.mp (the file is cut), b.mp (...) and 4 more". */
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

static void add_sentence(struct mp_job_view *view, struct list *list, const char *one, const char *many)
{
    if (list->count) {
        char more[48] = "";
        if (list->count > NAMED) snprintf(more, sizeof more, " and %zu more", list->count - NAMED);
        char *sentence = mp_text_make("%zu %s: %.*s%s", list->count, list->count == 1 ? one : many,
                                      (int)list->text.size, (const char *)list->text.data, more);
        mp_vec_add(&view->problems, sentence);
    }
    mp_buffer_free(&list->text);
    *list = (struct list){.count = 0};
}

/* A rank itself, and no process that works for it. */
static bool is_rank(const struct mp_job_process *process)
{
    return process->rank != MP_NONE && !process->helper;
}

static void find_lacking(struct mp_job_view *view)
{
    const struct mp_model *model = view->model;
    struct list list = {.count = 0};
    for (size_t i = 0; i < model->job.troubles.count; i++) {
        const struct mp_job_trouble *trouble = &model->job.troubles.at[i];
        put_in(&list, "%.0s%s", mp_model_text(model, trouble->path), mp_model_text(model, trouble->text));
    }
    add_sentence(view, &list, "file could not be used", "files could not be used");
    for (size_t i = 0; i < model->job.processes.count; i++) {
        const struct mp_job_process *process = &model->job.processes.at[i];
        if (process->missing)
            put_in(&list, "%s (%s)", mp_model_text(model, process->path), mp_model_text(model, process->missing));
    }
    add_sentence(view, &list, "recording is not whole", "recordings are not whole");
}

/* Which ranks of 0 to `size` - 1 there are not: "1, 4-7". Ranks come in order. */
static void find_absent(struct mp_job_view *view)
{
    const struct mp_model_job *job = &view->model->job;
    uint32_t size = 0, next = 0;
    bool differ = false, any = false;
    struct mp_buffer absent = {0};
    uint64_t count = 0;
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
            mp_buffer_printf(&absent, rank - next > 1 ? "%s%u-%u" : "%s%u", absent.size ? ", " : "", next, rank - 1);
        }
        if (process && rank >= next) next = rank + 1;
    }
    if (count && any)
        mp_vec_add(&view->problems,
                   mp_text_make("%llu rank%s no recording: %.*s", (unsigned long long)count,
                                count == 1 ? " has" : "s have", (int)absent.size, (const char *)absent.data));
    if (differ)
        mp_vec_add(&view->problems,
                   mp_text_make("the recordings do not agree on how many ranks there are: they are of several runs"));
    mp_buffer_free(&absent);
}

static bool overlap(const struct mp_job_process *a, const struct mp_job_process *b)
{
    return a->start_unix_ns < mp_job_time_after(b->start_unix_ns, b->duration_ns) &&
           b->start_unix_ns < mp_job_time_after(a->start_unix_ns, a->duration_ns);
}

/* One recording twice, or two processes that both were the same rank at one time. */
static void find_doubles(struct mp_job_view *view)
{
    const struct mp_model *model = view->model;
    const struct mp_model_job *job = &model->job;
    struct list list = {.count = 0};
    for (size_t i = 1; i < job->processes.count; i++) {
        const struct mp_job_process *a = &job->processes.at[i - 1], *b = &job->processes.at[i];
        char rank[32];
        bool same = a->pid == b->pid && a->host == b->host && a->start_unix_ns == b->start_unix_ns && a->pid != MP_NONE;
        bool twice = is_rank(a) && is_rank(b) && a->rank == b->rank && (same || overlap(a, b));
        snprintf(rank, sizeof rank, "rank %u", b->rank);
        if (twice)
            put_in(&list, "%s (%s)", rank, mp_model_text(model, b->path));
        else if (same)
            put_in(&list, "%s (of the same process as %s)", mp_model_text(model, b->path),
                   mp_model_text(model, a->path));
    }
    add_sentence(view, &list, "recording is there twice", "recordings are there twice");
}

/* Ranks that run another program than most of them. */
static void find_strangers(struct mp_job_view *view)
{
    const struct mp_model *model = view->model;
    size_t most = 0, ranks = 0;
    uint32_t usual = 0;
    size_t *counts = mp_alloc_zeroed(view->groups.count + 1, sizeof *counts);
    for (size_t i = 0; i < model->job.processes.count; i++) {
        if (!is_rank(&model->job.processes.at[i])) continue;
        for (uint32_t k = 0; k < view->groups.count; k++)
            if (!strcmp(view->groups.at[k].program, view->groups.at[view->group[i]].program)) {
                ranks++;
                if (++counts[k] > most) most = counts[usual = k];
                break;
            }
    }
    struct list list = {.count = 0};
    for (size_t i = 0; ranks > most && i < model->job.processes.count; i++) {
        const struct mp_job_process *process = &model->job.processes.at[i];
        const char *program = view->groups.at[view->group[i]].program;
        char name[32];
        snprintf(name, sizeof name, "rank %u", process->rank);
        if (is_rank(process) && strcmp(program, view->groups.at[usual].program))
            put_in(&list, "%s (%s)", name, program);
    }
    add_sentence(view, &list, "rank ran another program than the rest", "ranks ran another program than the rest");
    free(counts);
}

void mp_job_find_problems(struct mp_job_view *view)
{
    find_lacking(view);
    find_absent(view);
    find_doubles(view);
    find_strangers(view);
}
