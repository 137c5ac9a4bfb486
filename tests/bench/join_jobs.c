/*
 * Joins the profiles of many simulated ranks into one job, as `memprof merge` does with jobs of one rank each, and says
 * what that took.
 *
 *   join_jobs RECORDING RANKS PARTS [JOB]
 *
 * RECORDING is one rank's, as tests/unit/cli/make_rank writes it. It is made a profile, once. Each rank's profile is
 * then loaded from memory, gets its own rank and other bytes at some sites and points, and is joined; no disk is
 * needed. PARTS: as many shares are joined by the tree of src/cli/mpi, one after the other, and the bytes counted that
 * MPI would move. JOB: where the job goes. Prints one JSON object.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "exchange/common/save.h"
#include "exchange/load/load.h"
#include "jobs/join.h"

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

/* Writes a job's file to *to, or into memory if that is -1; its path goes to `path`. */
static uint64_t save(const struct mp_model *model, char path[64], int *to)
{
    struct mp_error error;
    struct stat facts;
    int fd = *to < 0 ? memfd_create("job", 0) : *to;
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    must(mp_exchange_save(model, dup(fd), &error), &error);
    fstat(fd, &facts);
    *to = fd;
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

/* Another rank: in one site of eight it holds something else, and so it does in each point of its curves. */
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
    mp_vec_each (struct mp_job_point, point, &profile->job.points) {
        uint64_t more = mp_hash_mix(((uint64_t)rank << 32) + (point->at & 0xffff) + 1) % (point->most / 16 + 1);
        point->most += more;
        point->last += more;
        mp_vec_each (struct mp_job_track, track, &profile->job.tracks) {
            if (track->id == point->track && point->most > track->peak_bytes) track->peak_bytes = point->most;
        }
    }
}

struct simulation {
    const char *profile; /* of one rank */
    uint32_t ranks;
    uint64_t moved_bytes;
};

static void add_file(struct mp_job *job, const char *path)
{
    struct mp_error error;
    struct mp_model *model;
    must(mp_exchange_load_any(path, &model, &error), &error);
    must(mp_job_add(job, path, model, &error), &error);
    mp_model_free(model);
}

/* The job of the ranks of some parts: the second half comes as a file, as mp_mpi_join() sends it. */
static struct mp_job *join(struct simulation *simulation, uint32_t first_part, uint32_t parts, uint32_t of)
{
    struct mp_error error;
    if (parts > 1) {
        char path[64];
        struct mp_model *sent;
        struct mp_job *job = join(simulation, first_part, parts - parts / 2, of);
        struct mp_job *other = join(simulation, first_part + parts - parts / 2, parts / 2, of);
        must(mp_job_finish(other, &sent, &error), &error);
        int fd = -1;
        simulation->moved_bytes += save(sent, path, &fd);
        mp_model_free(sent);
        add_file(job, path);
        close(fd);
        return job;
    }
    struct mp_job *job = mp_job_new();
    uint32_t end = (uint32_t)((uint64_t)simulation->ranks * (first_part + 1) / of);
    for (uint32_t rank = (uint32_t)((uint64_t)simulation->ranks * first_part / of); rank < end; rank++) {
        struct mp_model *profile;
        must(mp_exchange_load_any(simulation->profile, &profile, &error), &error);
        vary(profile, rank, simulation->ranks);
        must(mp_job_add(job, simulation->profile, profile, &error), &error);
        mp_model_free(profile);
    }
    return job;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    struct simulation simulation = {.ranks = (uint32_t)atoi(argv[2])};
    uint32_t parts = (uint32_t)atoi(argv[3]);
    char path[64], whole_path[64];
    int profile_fd = -1, job_fd = argc > 4 ? open(argv[4], O_RDWR | O_CREAT | O_TRUNC, 0666) : -1;
    struct mp_error error;
    struct mp_model *profile = profile_of(argv[1]), *whole;
    size_t sites = profile->job.sites.count;
    uint64_t one = save(profile, path, &profile_fd);
    mp_model_free(profile);
    simulation.profile = path;
    double start = processor_seconds();
    struct mp_job *job = join(&simulation, 0, parts, parts);
    double joined = processor_seconds();
    must(mp_job_finish(job, &whole, &error), &error);
    uint64_t bytes = save(whole, whole_path, &job_fd);
    double finished = processor_seconds();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"ranks\": %u, \"rows_of_sites\": %zu, \"join_s\": %.3f, \"finish_s\": %.3f, \"peak_bytes\": %llu, "
           "\"profile_bytes\": %llu, \"job_bytes\": %llu, \"moved_bytes\": %llu, \"processes\": %zu}\n",
           simulation.ranks, sites, joined - start, finished - joined, (unsigned long long)usage.ru_maxrss * 1024,
           (unsigned long long)one, (unsigned long long)bytes, (unsigned long long)simulation.moved_bytes,
           whole->job.processes.count);
    mp_model_free(whole);
    return 0;
}
