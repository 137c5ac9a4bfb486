/*
 * libFuzzer target for Kineto traces and for what `memprof export` makes of whatever can be read: the input is the
 * file. The written pickle and JSON must be readable, and have the same contents.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange/load/load.h"
#include "export/pytorch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mp_model *load(int fd)
{
    char path[64];
    struct mp_model *model;
    struct mp_error error;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum mp_status status = mp_exchange_load(path, &model, &error);
    if (status == MP_NO_MEMORY) abort();
    return status ? NULL : model;
}

static struct mp_model *through(const struct mp_model *model, bool as_json)
{
    struct mp_pytorch_exported exported;
    struct mp_error error;
    int fd = memfd_create("exported", MFD_CLOEXEC), again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = fdopen(fd, "w");
    if (!out) abort();
    enum mp_status status = mp_pytorch_export(model, as_json, out, &exported, &error);
    if (status && status != MP_NOT_FOUND) abort();
    fclose(out);
    struct mp_model *read = status ? NULL : load(again);
    if (!status && !read) abort();
    close(again);
    return read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (!size || fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size) {
        close(fd);
        return 0;
    }
    struct mp_model *model = load(fd);
    close(fd);
    if (!model) return 0;
    struct mp_model *pickle = through(model, false), *json = through(model, true);
    if (!pickle != !json) abort();
    if (pickle) {
        if (pickle->events.count != json->events.count || pickle->sums.count != json->sums.count) abort();
        for (size_t i = 0; i < pickle->sums.count; i++)
            if (pickle->sums.at[i].peak_bytes != json->sums.at[i].peak_bytes) abort();
    }
    mp_model_free(pickle);
    mp_model_free(json);
    mp_model_free(model);
    return 0;
}
