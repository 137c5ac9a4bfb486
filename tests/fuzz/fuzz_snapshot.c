/*
 * libFuzzer target for PyTorch snapshots: the input is the file, a pickle where its first byte is one's and JSON
 * otherwise. Whatever is read is also written as a recording, as `memprof import` does.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange/load.h"
#include "exchange/save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    struct mp_model *model;
    struct mp_error error;
    enum mp_status status = mp_exchange_load(path, &model, &error);
    close(fd);
    if (status == MP_NO_MEMORY) abort();
    if (status) return 0;
    int to = memfd_create("saved", MFD_CLOEXEC), again = fcntl(to, F_DUPFD_CLOEXEC, 0);
    if (mp_exchange_save(model, to, &error)) abort();
    struct mp_model *saved;
    snprintf(path, sizeof path, "/proc/self/fd/%d", again);
    if (mp_model_load(path, &saved, &error)) abort();
    if (saved->events.count != model->events.count || saved->blocks.count != model->blocks.count) abort();
    for (size_t i = 0; i < model->sums.count; i++)
        if (saved->sums.at[i].peak_bytes != model->sums.at[i].peak_bytes) abort();
    close(again);
    mp_model_free(saved);
    mp_model_free(model);
    return 0;
}
