#include "jobs/mpi_tree.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/session/launch.h"
#include "exchange/common/save.h"
#include "model/load.h"

/* True if a launcher of Open MPI, MPICH or Slurm's PMI has set its variables. */
static bool launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (getenv(sizes[i])) return strcmp(getenv(sizes[i]), "1") != 0;
    return getenv("PMIX_RANK");
}

/* True in the one process that prints the message if ranks cannot communicate. */
static bool is_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return !strcmp(getenv(names[i]), "0");
    return true;
}

static void *open_library(void)
{
    static const char *const libraries[] = {MP_MPI_LIBRARY, "../lib/memprof/" MP_MPI_LIBRARY,
                                            PKGLIBDIR "/" MP_MPI_LIBRARY};
    char *path = mp_launch_find(libraries, sizeof libraries / sizeof *libraries);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    free(path);
    return library;
}

const struct mp_mpi_ranks *mp_mpi_find(int *rank, int *size)
{
    *rank = 0;
    *size = 1;
    if (!launched()) return NULL;
    void *library = open_library();
    const struct mp_mpi_ranks *ranks = library ? dlsym(library, MP_MPI_SYMBOL) : NULL;
    if (ranks && ranks->begin(rank, size)) return ranks;
    *size = 0;
    if (is_first())
        mp_message("this is mpirun, and memprof was built without MPI (configure --with-mpi): run merge without it");
    return NULL;
}

/* Writes the job to a file in memory, whose bytes are sent to other ranks. */
static enum mp_status pack(struct mp_job *job, int *fd, struct mp_error *error)
{
    struct mp_model *model;
    enum mp_status status = mp_job_finish(job, &model, error);
    if (status) return status;
    *fd = memfd_create("job", MFD_CLOEXEC);
    int written = *fd < 0 ? -1 : dup(*fd);
    status =
        written < 0 ? mp_fail_errno(error, "cannot keep a job in memory") : mp_exchange_save(model, written, error);
    mp_model_free(model);
    return status;
}

static int send_job(const struct mp_mpi_ranks *ranks, int to, struct mp_job *job)
{
    struct mp_error error;
    struct stat facts;
    int fd = -1;
    if (pack(job, &fd, &error)) {
        if (fd >= 0) close(fd);
        ranks->send(to, "", 0);
        return mp_message_error(&error);
    }
    void *bytes = fstat(fd, &facts) ? MAP_FAILED : mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    bool sent = bytes != MAP_FAILED && ranks->send(to, bytes, (size_t)facts.st_size);
    if (bytes == MAP_FAILED) ranks->send(to, "", 0);
    if (bytes != MAP_FAILED) munmap(bytes, (size_t)facts.st_size);
    close(fd);
    if (sent) return MP_EXIT_DONE;
    return mp_give_up("MPI could not send this rank's part");
}

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t put = write(fd, bytes, size);
        if (put <= 0) return false;
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

static int receive_job(const struct mp_mpi_ranks *ranks, int from, struct mp_job *job)
{
    char name[64];
    void *bytes = NULL;
    size_t size = 0;
    struct mp_error error;
    struct mp_model *model;
    bool whole = ranks->receive(from, &bytes, &size);
    if (whole && !size) { /* no bytes: that rank failed and has printed why */
        free(bytes);
        return MP_EXIT_COULD_NOT;
    }
    int fd = whole ? memfd_create("job", MFD_CLOEXEC) : -1;
    whole = fd >= 0 && write_all(fd, bytes, size);
    free(bytes);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    enum mp_status status = whole ? mp_model_load(name, &model, &error)
                                  : mp_fail(&error, MP_IO, "the part of MPI rank %d did not arrive", from);
    if (!status) {
        status = mp_job_add(job, name, model, &error);
        mp_model_free(model);
    }
    if (fd >= 0) close(fd);
    return status ? mp_message_error(&error) : MP_EXIT_DONE;
}

static void put_operands(const struct mp_invocation *invocation, struct mp_buffer *out)
{
    for (size_t i = 0; i < invocation->operand_count; i++)
        mp_buffer_append(out, invocation->operands[i], strlen(invocation->operands[i]) + 1);
}

/* Packs the operands' size in eight bytes, the operands, and the paths. Packs nothing if rank 0 failed. */
static void pack_paths(const struct mp_invocation *invocation, const struct mp_job_paths *paths, struct mp_buffer *out)
{
    struct mp_buffer operands = {0};
    put_operands(invocation, &operands);
    uint64_t size = operands.size;
    mp_buffer_append(out, &size, sizeof size);
    mp_buffer_append(out, operands.data, operands.size);
    mp_buffer_free(&operands);
    mp_job_paths_pack(paths, out);
}

static int take_paths(const struct mp_invocation *invocation, int rank, const void *bytes, size_t size,
                      struct mp_job_paths *paths)
{
    struct mp_buffer own = {0};
    uint64_t operands;
    if (size < sizeof operands) return MP_EXIT_COULD_NOT; /* rank 0 failed and has printed why */
    memcpy(&operands, bytes, sizeof operands);
    const char *at = (const char *)bytes + sizeof operands;
    put_operands(invocation, &own);
    bool same = own.size == operands && operands <= size - sizeof operands && !memcmp(own.data, at, own.size);
    mp_buffer_free(&own);
    if (same && mp_job_paths_unpack(at + operands, size - sizeof operands - operands, paths)) return MP_EXIT_DONE;
    return mp_give_up("MPI rank %d got other files than rank 0: start all ranks with the same files", rank);
}

/* The paths go from rank 0 down the tree that mp_mpi_join() climbs. */
int mp_mpi_tell_paths(const struct mp_mpi_ranks *ranks, int rank, int size, int status,
                      const struct mp_invocation *invocation, struct mp_job_paths *paths)
{
    struct mp_buffer packed = {0};
    void *bytes = NULL;
    size_t length = 0;
    int step = 1;
    while (step < size && rank % (2 * step) != step)
        step *= 2;
    if (rank) {
        if (!ranks->receive(rank - step, &bytes, &length)) length = 0;
        status = take_paths(invocation, rank, bytes, length, paths);
    } else if (!status) {
        pack_paths(invocation, paths, &packed);
        bytes = packed.data;
        length = packed.size;
    }
    while (step /= 2)
        if (rank + step < size) ranks->send(rank + step, length ? bytes : "", length);
    if (rank) free(bytes);
    mp_buffer_free(&packed);
    return status;
}

int mp_mpi_join(const struct mp_mpi_ranks *ranks, int rank, int size, int status, struct mp_job **job)
{
    for (int step = 1; step < size; step *= 2) {
        if (rank % (2 * step) == step) {
            if (status) {
                ranks->send(rank - step, "", 0); /* an empty message: this part failed, so no job is written */
                return status;
            }
            status = send_job(ranks, rank - step, *job);
            *job = NULL;
            return status;
        }
        if (rank + step >= size) continue;
        int received = receive_job(ranks, rank + step, *job);
        if (received) status = received;
    }
    return status;
}
