/* The library libmemprof-mpi.so. Only this file includes MPI's headers. */
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

#include "jobs/mpi_ranks.h"

#define PART (1 << 30) /* most bytes of a message, because MPI counts in int */
#define TAG  25

static bool begin(int *rank, int *size)
{
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS && MPI_Comm_size(MPI_COMM_WORLD, size) == MPI_SUCCESS;
}

static bool send(int to, const void *bytes, size_t size)
{
    uint64_t whole = size;
    bool sent = MPI_Send(&whole, 1, MPI_UINT64_T, to, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
    for (size_t done = 0; sent && done < size;) {
        int part = size - done < PART ? (int)(size - done) : PART;
        sent = MPI_Send((const char *)bytes + done, part, MPI_BYTE, to, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
        done += (size_t)part;
    }
    return sent;
}

static bool receive(int from, void **bytes, size_t *size)
{
    uint64_t whole;
    if (MPI_Recv(&whole, 1, MPI_UINT64_T, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    *size = (size_t)whole;
    *bytes = malloc(*size ? *size : 1);
    bool received = *bytes;
    for (size_t done = 0; received && done < *size;) {
        int part = *size - done < PART ? (int)(*size - done) : PART;
        received = MPI_Recv((char *)*bytes + done, part, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
                   MPI_SUCCESS;
        done += (size_t)part;
    }
    return received;
}

static void end(void)
{
    MPI_Finalize();
}

__attribute__((visibility("default"))) const struct mp_mpi_ranks mp_mpi_ranks = {begin, send, receive, end};
