/* A merge by all processes that mpirun started: each takes its share of the recordings, and a tree joins them. */
#ifndef MP_CLI_MPI_TREE_H
#define MP_CLI_MPI_TREE_H

#include "cli/jobs/job.h"
#include "cli/mpi/ranks.h"

/* Where memprof runs under MPI's launcher and was built with it: the ranks, begun; else NULL with *rank 0 and *size 1.
 * Without the library each process would do the same work and write the same file: then a message says so, and *size is
 * 0. */
const struct mp_mpi_ranks *mp_mpi_find(int *rank, int *size);

/* Gives all ranks the paths that rank 0 found, so that shares fit together whatever each of them sees, and what is
 * wrong is said once. A rank that was started with other operands says so and fails; where rank 0 failed, all do.
 * Returns an exit status. */
int mp_mpi_tell_paths(const struct mp_mpi_ranks *ranks, int rank, int size, int status,
                      const struct mp_invocation *invocation, struct mp_job_paths *paths);

/* Joins the jobs of all ranks into that of rank 0. Fails if any rank's `status` is not 0. All ranks must call this, as
 * they wait for each other. The other ranks' jobs are given up, and their *job is NULL. Returns an exit status. */
int mp_mpi_join(const struct mp_mpi_ranks *ranks, int rank, int size, int status, struct mp_job **job);

#endif
