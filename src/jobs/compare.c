#include "jobs/compare.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/order.h"

uint64_t mp_job_most_of(const struct mp_job_view *job, enum mp_job_sense sense)
{
    uint64_t most = 0;
    for (size_t i = 0; job->groups.count && i < job->groups.at[0].count; i++) {
        uint32_t process = job->groups.at[0].processes[i];
        uint64_t bytes = sense == MP_JOB_PEAK ? mp_job_peak_of(job, process) : mp_job_end_of(job, process);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* The number of processes with memory of a kind. */
static size_t count_processes(const struct mp_model_job *rows, uint32_t kind)
{
    unsigned char *seen = mp_alloc_zeroed(rows->processes.count + 1, 1);
    size_t count = 0;
    mp_vec_each (const struct mp_job_track, track, &rows->tracks) {
        if (!track->memory || track->kind != kind || seen[track->process]) continue;
        seen[track->process] = 1;
        count++;
    }
    free(seen);
    return count ? count : 1;
}

/* The sites on the first group's kind of track, over all processes with memory of that kind. */
static void sum_sites(const struct mp_job_view *job, enum mp_job_sense sense, struct mp_profile *profile)
{
    const struct mp_model_job *rows = &job->model->job;
    size_t processes = job->groups.count ? count_processes(rows, job->groups.at[0].kind) : 1;
    for (size_t i = 0; job->groups.count && i < rows->sites.count; i++) {
        const struct mp_job_site *site = &rows->sites.at[i];
        if (site->sense != sense || site->kind != job->groups.at[0].kind) continue;
        struct mp_profile_sample sample = {.stack = site->stack, .region = MP_NONE};
        sample.values[MP_PROFILE_PEAK] =
            (struct mp_profile_value){site->bytes / processes, site->blocks ? site->blocks : 1};
        mp_vec_add(&profile->samples, sample);
    }
}

static uint64_t change(const struct mp_job_compare_row *row)
{
    uint64_t before = row->bytes[MP_BEFORE], after = row->bytes[MP_AFTER];
    return after > before ? after - before : before - after;
}

MP_ORDER(by_change, struct mp_job_compare_row,
         MP_COMPARE(change(b), change(a)) ?: MP_RISING(stacks[MP_AFTER]) ?: MP_RISING(stacks[MP_BEFORE]))

void mp_job_compare_make(const struct mp_job_view *const sides[MP_SIDES], enum mp_job_sense sense,
                         struct mp_job_compare *compare)
{
    struct mp_flames flames = {.moved = NULL};
    *compare = (struct mp_job_compare){0};
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        struct mp_profile profile = {0};
        sum_sites(sides[side], sense, &profile);
        mp_flames_add(&flames, side, sides[side]->model, &profile, MP_PROFILE_PEAK);
        mp_profile_free(&profile);
    }
    mp_vec_each (const struct mp_flame, flame, &flames.flames) {
        const struct mp_job_compare_row row = {{flame->values[MP_BEFORE].bytes, flame->values[MP_AFTER].bytes},
                                               {flame->stacks[MP_BEFORE], flame->stacks[MP_AFTER]}};
        if (change(&row)) mp_vec_add(&compare->rows, row);
    }
    mp_flames_free(&flames);
    if (compare->rows.count) qsort(compare->rows.at, compare->rows.count, sizeof *compare->rows.at, by_change);
}

void mp_job_compare_free(struct mp_job_compare *compare)
{
    mp_vec_free(&compare->rows);
}
