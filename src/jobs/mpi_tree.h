/* A merge by all processes that mpirun started: each takes its share of the recordings, and a tree joins them. */
#pragma once

#include "jobs/mpi_ranks.h"
#include "jobs/query.h"

/* Starts MPI if memprof runs under MPI's launcher and was built with MPI, and returns the ranks. Outside of a launcher:
 * NULL, *rank 0, *size 1. Under a launcher, but without the library: NULL, *size 0, and a message, because each process
 * would write the same file. */
const struct mp_mpi_ranks *mp_mpi_find(int *rank, int *size);

/* Gives all ranks the paths that rank 0 found, so that their shares fit together even if ranks see different files. A
 * rank that was started with other operands prints a message and fails. If rank 0 failed, all fail. Returns an exit
 * status. */
int mp_mpi_tell_paths(const struct mp_mpi_ranks *ranks, int rank, int size, int status,
                      const struct mp_invocation *invocation, struct mp_job_paths *paths);

/* Joins the jobs of all ranks into the job of rank 0. Fails if any rank's `status` is not 0. All ranks must call this,
 * because they wait for each other. The other ranks' jobs are freed, and their *job is NULL. Returns an exit status. */
int mp_mpi_join(const struct mp_mpi_ranks *ranks, int rank, int size, int status, struct mp_job **job);
