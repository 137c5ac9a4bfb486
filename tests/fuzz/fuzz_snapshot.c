/*
 * libFuzzer target for PyTorch snapshots: the input is the file, a pickle where its first byte is one's and JSON
 * otherwise. A readable snapshot is also written as a recording, as `memprof import` does.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/allocator/frag.h"
#include "exchange/common/save.h"
#include "exchange/load/load.h"
#include "model/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each track's holes, and a replay of the record where it has one: a recording tells the same as the snapshot. */
static uint64_t replay_all(const struct mp_model *model)
{
    uint64_t sum = 0;
    for (uint16_t track = 0; track < model->tracks.count; track++)
        for (int recorded = 0; recorded < 2; recorded++) {
            const struct mp_frag_query query = {.track = track,
                                                .window = {.last = (uint32_t)model->events.count, .whole = true},
                                                .replay = recorded ? "recorded" : "expandable_segments:True"};
            struct mp_frag frag;
            struct mp_error error;
            if (mp_frag_find(model, &query, &frag, &error)) continue;
            sum = sum * 31 + frag.reserved * 7 + frag.replay.result.differences + frag.replay.result.reserved_peak;
            mp_frag_free(&frag);
        }
    return sum;
}

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
    if (replay_all(model) != replay_all(saved)) abort();
    close(again);
    mp_model_free(saved);
    mp_model_free(model);
    return 0;
}
