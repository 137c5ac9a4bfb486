#include "exchange/common/input.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"

/* Real traces and snapshots are at most 100 times as large as their compressed files. */
#define UNWRAPPED_TIMES 200
#define UNWRAPPED_MORE  (32u << 20)

struct mp_input_state {
    gzFile file;
    unsigned char window[2 * MP_INPUT_WINDOW];
};

enum mp_status mp_input_open(const char *path, struct mp_input *input, struct mp_error *error)
{
    *input = (struct mp_input){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat facts;
    enum mp_status status = MP_OK;
    if (fd < 0 || fstat(fd, &facts))
        status = mp_fail_errno(error, "cannot open %s", path);
    else if (S_ISDIR(facts.st_mode))
        status = mp_fail(error, MP_NOT_A_RECORDING, "%s is a folder, not a file", path);
    else if (!S_ISREG(facts.st_mode)) /* the file must be seekable, because it is read more than once */
        status = mp_fail(error, MP_NOT_A_RECORDING, "%s is not a regular file: copy its contents into one", path);
    if (status) {
        if (fd >= 0) close(fd);
        return status;
    }
    input->file_bytes = (uint64_t)facts.st_size;
    struct mp_input_state *state = mp_alloc(sizeof *state);
    gzFile file = gzdopen(fd, "r");
    if (!file) mp_memory_lacks(0);
    gzbuffer(file, MP_INPUT_WINDOW);
    state->file = file;
    input->state = state;
    input->at = input->end = state->window;
    input->most = UNWRAPPED_TIMES * input->file_bytes + UNWRAPPED_MORE;
    status = mp_input_fill(input, 1, error);
    input->wrapped = !gzdirect(file);
    if (status) mp_input_close(input);
    return status;
}

static enum mp_status cannot_read(struct mp_input *input, struct mp_error *error)
{
    int code;
    const char *why = gzerror(input->state->file, &code);
    if (code == Z_ERRNO) return mp_fail_errno(error, "cannot read %s", input->path);
    if (code == Z_BUF_ERROR)
        return mp_fail(error, MP_DAMAGED, "%s is cut: its gzip stream ends after %llu uncompressed bytes", input->path,
                       (unsigned long long)input->offset);
    return mp_fail(error, MP_DAMAGED, "%s cannot be decompressed after %llu uncompressed bytes (gzip: %s)", input->path,
                   (unsigned long long)input->offset, why);
}

enum mp_status mp_input_fill(struct mp_input *input, size_t want, struct mp_error *error)
{
    struct mp_input_state *state = input->state;
    size_t left = (size_t)(input->end - input->at);
    if (left >= want) return MP_OK;
    memmove(state->window, input->at, left);
    input->at = state->window;
    while (left < want) {
        int got = gzread(state->file, state->window + left, (unsigned)(sizeof state->window - left));
        int code = Z_OK;
        if (got <= 0) gzerror(state->file, &code);
        if (got < 0 || code == Z_BUF_ERROR) {
            input->end = input->at + left;
            return cannot_read(input, error);
        }
        if (!got) break;
        left += (size_t)got;
        input->offset += (uint64_t)got;
    }
    if (input->wrapped && input->offset > input->most)
        return mp_fail(
            error, MP_LIMIT,
            "%s has far more contents than usual for its compressed size: if that is right, run gunzip on it first",
            input->path);
    input->end = input->at + left;
    return MP_OK;
}

void mp_input_close(struct mp_input *input)
{
    if (!input->state) return;
    gzclose(input->state->file);
    free(input->state);
    *input = (struct mp_input){0};
}
