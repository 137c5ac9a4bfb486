#include "exchange/load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exchange/input.h"
#include "exchange/kineto.h"

/* A recording is read by position, so a compressed one is unwrapped into memory first. */
static enum mp_status load_wrapped(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    char name[64];
    int fd = memfd_create("recording", MFD_CLOEXEC);
    if (fd < 0) return mp_fail_errno(error, "cannot unwrap %s", input->path);
    enum mp_status status = mp_input_fill(input, 1, error);
    while (!status && input->at < input->end) {
        ssize_t put = write(fd, input->at, (size_t)(input->end - input->at));
        if (put < 0 && errno != EINTR) {
            status = mp_fail_errno(error, "cannot unwrap %s", input->path);
        } else {
            input->at += put > 0 ? put : 0;
            status = mp_input_fill(input, 1, error);
        }
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (!status) status = mp_model_load(name, model, error);
    close(fd);
    if (!status) (*model)->file_bytes = input->file_bytes;
    return status;
}

/* JSON begins with a brace or bracket, maybe after a byte order mark. */
static bool looks_like_json(struct mp_input *input)
{
    if (input->end - input->at >= 3 && !memcmp(input->at, "\xef\xbb\xbf", 3)) input->at += 3;
    const unsigned char *at = input->at;
    while (at < input->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at < input->end && (*at == '{' || *at == '[');
}

static enum mp_status load_input(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    enum mp_status status = mp_input_fill(input, MP_INPUT_WINDOW, error);
    if (status) return status;
    if (looks_like_json(input) && mp_kineto_looks_like(input->at, (size_t)(input->end - input->at)))
        return mp_kineto_load(input->path, model, error);
    if (looks_like_json(input))
        return mp_fail(error, MP_NOT_A_RECORDING, "%s is JSON, but nothing that memprof can read", input->path);
    return input->wrapped ? load_wrapped(input, model, error) : mp_model_load(input->path, model, error);
}

enum mp_status mp_exchange_load(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct stat facts;
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || !facts.st_size) return mp_model_load(path, model, error);
    struct mp_input input;
    enum mp_status status = mp_input_open(path, &input, error);
    if (status) return status;
    status = load_input(&input, model, error);
    mp_input_close(&input);
    return status;
}
