/*
 * The processes that mpirun started together, through the library libmemprof-mpi.so. memprof itself does not need MPI:
 * it opens the library only under MPI's launcher. Ranks exchange only bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MP_MPI_LIBRARY "libmemprof-mpi.so"
#define MP_MPI_SYMBOL  "mp_mpi_ranks"

/* Each function returns false if MPI reports an error. */
struct mp_mpi_ranks {
    bool (*begin)(int *rank, int *size);
    bool (*send)(int to, const void *bytes, size_t size);
    /* The receiver frees *bytes. */
    bool (*receive)(int from, void **bytes, size_t *size);
    void (*end)(void);
};
