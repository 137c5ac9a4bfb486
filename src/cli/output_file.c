#include "cli/output_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/messages.h"
#include "format/reader.h"

static char *volatile unfinished; /* what a signal leaves behind if nobody removes it */

static void remove_unfinished(int signal_number)
{
    char *path = unfinished;
    if (path) unlink(path);
    raise(signal_number); /* SA_RESETHAND: this time it ends the process */
}

static void watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction before, action = {.sa_handler = remove_unfinished, .sa_flags = SA_RESETHAND | SA_NODEFER};
        if (!sigaction(ending[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(ending[i], &action, NULL);
    }
}

static bool is_recording(const char *path)
{
    struct mp_reader *reader = NULL;
    enum mp_status status = mp_reader_open(path, &reader, NULL);
    mp_reader_close(reader);
    return status == MP_OK || status == MP_TOO_NEW;
}

static int cannot(const char *path)
{
    mp_message("cannot write %s: %s", path ? path : "to stdout", strerror(errno));
    return MP_EXIT_COULD_NOT;
}

static void forget(struct mp_output_file *output)
{
    unfinished = NULL;
    free(output->path);
    free(output->temporary);
    *output = (struct mp_output_file){0};
}

static int open_temporary(struct mp_output_file *output)
{
    if (asprintf(&output->temporary, "%s.XXXXXX", output->path) < 0) {
        output->temporary = NULL;
        return -1;
    }
    watch_signals();
    int fd = mkstemp(output->temporary);
    if (fd < 0) return -1;
    unfinished = output->temporary;
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) || !(output->file = fdopen(fd, "w"))) {
        unlink(output->temporary);
        close(fd);
        return -1;
    }
    return 0;
}

static int open_named(const char *path, bool force, struct mp_output_file *output)
{
    struct stat info;
    bool exists = !stat(path, &info);
    if (exists && S_ISDIR(info.st_mode)) {
        mp_message("cannot write %s: it is a folder; give the name of a file", path);
        return MP_EXIT_COULD_NOT;
    }
    if (exists && S_ISREG(info.st_mode) && !force && is_recording(path)) {
        mp_message("%s is a recording and stays as it is; --force overwrites it", path);
        return MP_EXIT_COULD_NOT;
    }
    output->path = exists ? realpath(path, NULL) : strdup(path); /* through a link, not over it */
    bool done;
    if (output->path && exists && !S_ISREG(info.st_mode))
        done = (output->file = fopen(path, "we"));
    else
        done = output->path && !open_temporary(output);
    if (done) return MP_EXIT_DONE;
    int status = cannot(path);
    forget(output);
    return status;
}

int mp_output_open(const char *path, bool force, struct mp_output_file *output)
{
    *output = (struct mp_output_file){.file = stdout};
    if (!path || !strcmp(path, "-")) return MP_EXIT_DONE;
    if (*path) return open_named(path, force, output);
    mp_message("--output needs the name of a file");
    return MP_EXIT_USAGE;
}

int mp_output_close(struct mp_output_file *output, bool keep)
{
    bool written = !ferror(output->file) && !fflush(output->file);
    if (output->path) {
        int failure = errno;
        bool closed = !fclose(output->file);
        if (!written) errno = failure;
        written = written && closed;
    }
    int status = MP_EXIT_DONE;
    if (keep && !written) status = cannot(output->path);
    if (output->temporary) {
        bool moved = keep && written && !rename(output->temporary, output->path);
        if (keep && written && !moved) status = cannot(output->path);
        if (!moved) unlink(output->temporary);
    }
    forget(output);
    return status;
}

int mp_output_write(const struct mp_invocation *invocation,
                    enum mp_status (*write)(void *context, FILE *out, struct mp_error *error), void *context)
{
    struct mp_error error;
    struct mp_output_file output;
    int status = mp_output_open(invocation->value[MP_OPT_OUTPUT], mp_given(invocation, MP_OPT_FORCE), &output);
    if (status) return status;
    bool written = !write(context, output.file, &error);
    if (!written) status = mp_message_error(&error);
    int closed = mp_output_close(&output, written);
    return status ? status : closed;
}

bool mp_path_ends(const char *path, const char *end)
{
    size_t length = strlen(path), tail = strlen(end);
    return length >= tail && !strcmp(path + length - tail, end);
}

int mp_output_buffer(const struct mp_invocation *invocation, const struct mp_buffer *buffer)
{
    struct mp_output_file output;
    if (buffer->failed) {
        mp_message("not enough memory for the output");
        return MP_EXIT_COULD_NOT;
    }
    int status = mp_output_open(invocation->value[MP_OPT_OUTPUT], mp_given(invocation, MP_OPT_FORCE), &output);
    if (status) return status;
    fwrite(buffer->data, 1, buffer->size, output.file);
    return mp_output_close(&output, true);
}
