/*
 * Joins the profiles of many simulated ranks into one job, as `memprof merge` does with jobs of one rank each, and says
 * what that took.
 *
 *   join_jobs RECORDING RANKS
 *
 * RECORDING is one rank's, as tests/unit/cli/make_rank writes it. It is made a profile, once; then each rank's profile
 * is loaded from memory, given a rank of its own and other bytes at some sites, and joined. Prints one JSON object.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/job/job.h"
#include "base/hash.h"
#include "exchange/common/load.h"
#include "exchange/common/save.h"

static void must(enum mp_status status, const struct mp_error *error)
{
    if (!status) return;
    fprintf(stderr, "join_jobs: %s\n", error->text);
    exit(1);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The file that a job would be, in memory; its path goes to `path`. */
static uint64_t save(const struct mp_model *model, char path[64])
{
    struct mp_error error;
    struct stat facts;
    int fd = memfd_create("job", 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    must(mp_exchange_save(model, dup(fd), &error), &error);
    fstat(fd, &facts);
    return (uint64_t)facts.st_size;
}

static struct mp_model *profile_of(const char *recording)
{
    struct mp_error error;
    struct mp_model *model, *profile;
    must(mp_exchange_load(recording, &model, &error), &error);
    struct mp_job *job = mp_job_new();
    must(mp_job_add(job, recording, model, &error), &error);
    mp_model_free(model);
    must(mp_job_finish(job, &profile, &error), &error);
    return profile;
}

/* Another rank: in one site of eight it holds something else. */
static void vary(struct mp_model *profile, uint32_t rank, uint32_t ranks)
{
    struct mp_job_process *process = &profile->job.processes.at[0];
    process->rank = rank;
    process->pid = 1000 + rank;
    process->world_size = ranks;
    for (size_t i = 0; i < profile->job.sites.count; i++) {
        struct mp_job_site *site = &profile->job.sites.at[i];
        uint64_t hash = mp_hash_mix(((uint64_t)rank << 32) + i);
        if (hash % 8 == 0) site->bytes = site->least = site->most = site->bytes + hash % 65536;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    uint32_t ranks = (uint32_t)atoi(argv[2]);
    char path[64], whole_path[64];
    struct mp_error error;
    struct mp_model *profile = profile_of(argv[1]), *whole;
    size_t sites = profile->job.sites.count;
    uint64_t one = save(profile, path);
    mp_model_free(profile);
    struct mp_job *job = mp_job_new();
    double start = processor_seconds();
    for (uint32_t rank = 0; rank < ranks; rank++) {
        must(mp_exchange_load_any(path, &profile, &error), &error);
        vary(profile, rank, ranks);
        must(mp_job_add(job, path, profile, &error), &error);
        mp_model_free(profile);
    }
    double joined = processor_seconds();
    must(mp_job_finish(job, &whole, &error), &error);
    uint64_t bytes = save(whole, whole_path);
    double finished = processor_seconds();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"ranks\": %u, \"rows_of_sites\": %zu, \"join_s\": %.3f, \"finish_s\": %.3f, \"peak_bytes\": %llu, "
           "\"profile_bytes\": %llu, \"job_bytes\": %llu, \"processes\": %zu}\n",
           ranks, sites, joined - start, finished - joined, (unsigned long long)usage.ru_maxrss * 1024,
           (unsigned long long)one, (unsigned long long)bytes, whole->job.processes.count);
    mp_model_free(whole);
    return 0;
}
