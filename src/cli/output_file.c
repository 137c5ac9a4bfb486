#include "cli/output_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/messages.h"

static char *volatile unfinished; /* the file that a signal must remove */

void mp_output_take_back(void)
{
    char *path = unfinished;
    if (path) unlink(path);
}

static void remove_unfinished(int signal_number)
{
    mp_output_take_back();
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

static int cannot(const char *path)
{
    return mp_give_up("cannot write %s: %s", path ? path : "to stdout", strerror(errno));
}

static void forget(struct mp_output_file *output)
{
    unfinished = NULL;
    mp_new_file_close(&output->made);
    free(output->path);
    *output = (struct mp_output_file){0};
}

/* The command's input files: operands ("FILE", "8=FILE") and options that name a file. */
static const char **inputs_of(const struct mp_invocation *invocation)
{
    static const enum mp_option reading[] = {MP_OPT_CONFIG, MP_OPT_RULES, MP_OPT_SUPPRESSIONS, MP_OPT_MERGE};
    size_t options = sizeof reading / sizeof *reading, count = 0;
    const char **inputs = mp_alloc_zeroed(2 * invocation->operand_count + options + 1, sizeof *inputs);
    for (size_t i = 0; i < invocation->operand_count; i++) {
        const char *equals = strchr(invocation->operands[i], '=');
        inputs[count++] = invocation->operands[i];
        if (equals) inputs[count++] = equals + 1;
    }
    for (size_t i = 0; i < options; i++)
        if (invocation->value[reading[i]]) inputs[count++] = invocation->value[reading[i]];
    return inputs;
}

static int open_named(const struct mp_invocation *invocation, const char *path, struct mp_output_file *output)
{
    struct mp_error error = {0};
    const char **inputs = inputs_of(invocation);
    const struct mp_new_file_rule rule = {
        .way = mp_given(invocation, MP_OPT_FORCE) ? MP_NEW_FILE_FORCE : MP_NEW_FILE_REPORT, .inputs = inputs};
    output->path = mp_text_copy(path);
    watch_signals();
    enum mp_status status = mp_new_file_open(path, &rule, &output->made, &error);
    free(inputs);
    if (!status && !(output->file = fdopen(output->made.fd, "w"))) {
        status = mp_fail_errno(&error, "cannot write %s", path);
        close(output->made.fd);
    }
    unfinished = output->made.name;
    if (!status) return MP_EXIT_DONE;
    forget(output);
    return mp_give_up("%s", error.text);
}

int mp_output_open(const struct mp_invocation *invocation, const char *path, struct mp_output_file *output)
{
    *output = (struct mp_output_file){.file = stdout};
    if (!path || !strcmp(path, "-")) return MP_EXIT_DONE;
    if (*path) return open_named(invocation, path, output);
    return mp_refuse("--output needs the name of a file");
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
    struct mp_error error;
    if (output->path && keep && written && mp_new_file_put(&output->made, &error)) {
        mp_message("%s", error.text);
        status = MP_EXIT_COULD_NOT;
    }
    forget(output);
    return status;
}

int mp_output_write(const struct mp_invocation *invocation,
                    enum mp_status (*write)(void *context, FILE *out, struct mp_error *error), void *context)
{
    struct mp_error error;
    struct mp_output_file output;
    int status = mp_output_open(invocation, invocation->value[MP_OPT_OUTPUT], &output);
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
    int status = mp_output_open(invocation, invocation->value[MP_OPT_OUTPUT], &output);
    if (status) return status;
    fwrite(buffer->data, 1, buffer->size, output.file);
    return mp_output_close(&output, true);
}
