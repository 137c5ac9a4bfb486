/*
 * libFuzzer target for merging into a trace of PyTorch's profiler: the input is the trace. A readable file is copied
 * with an event put in, and every byte of it must come out again, in its order.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exchange/common/input.h"
#include "export/chrome_merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char event[] = "{\"name\": \"memprof\"}";

static void check_copy(const uint8_t *data, size_t size, const struct mp_chrome_input *input, const char *copy,
                       size_t copied)
{
    size_t at = (size_t)input->events_at;
    if (at > size || copied < size || memcmp(copy, data, at)) abort();
    if (memcmp(copy + copied - (size - at), data + at, size - at)) abort();
    if (!memmem(copy + at, copied - size, event, strlen(event))) abort();
}

static void copy_trace(const uint8_t *data, size_t size, const struct mp_chrome_input *input)
{
    char *copy = NULL;
    size_t copied = 0;
    FILE *out = open_memstream(&copy, &copied);
    struct mp_sink sink;
    struct mp_error error;
    if (!out) abort();
    mp_sink_start(&sink, out, false);
    enum mp_status status = mp_chrome_copy_head(input, &sink, &error);
    mp_buffer_append_text(&sink.text, event);
    if (!status) status = mp_chrome_copy_rest(input, true, &sink, &error);
    status = mp_sink_end(&sink, status, &error);
    fclose(out);
    if (!status) check_copy(data, size, input, copy, copied);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || (size && pwrite(fd, data, size, 0) != (ssize_t)size)) abort();
    struct mp_chrome_input input;
    struct mp_error error;
    struct mp_window window;
    static const struct mp_model empty = {.start.realtime_ns = UINT64_C(1763620000123456789), .duration_ns = 1};
    enum mp_status status = mp_chrome_input_read(path, &input, &error);
    bool wrapped = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
    if (status == MP_NO_MEMORY) abort();
    if (!status) {
        (void)mp_chrome_align(&input, &empty, &window, &error);
        if (input.events_at && !wrapped) copy_trace(data, size, &input);
        mp_chrome_input_free(&input);
    }
    close(fd);
    return 0;
}
