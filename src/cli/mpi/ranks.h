/*
 * The processes that mpirun started together, as the library libmemprof-mpi.so has them: memprof itself does not need
 * MPI, and opens the library where it runs under a launcher of it. Bytes go from one rank to another, nothing else.
 */
#ifndef MP_CLI_MPI_RANKS_H
#define MP_CLI_MPI_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#define MP_MPI_LIBRARY "libmemprof-mpi.so"
#define MP_MPI_SYMBOL  "mp_mpi_ranks"

/* Each function returns false where MPI reports an error. */
struct mp_mpi_ranks {
    bool (*begin)(int *rank, int *size);
    bool (*send)(int to, const void *bytes, size_t size);
    /* The receiver frees *bytes. */
    bool (*receive)(int from, void **bytes, size_t *size);
    void (*end)(void);
};

#endif
