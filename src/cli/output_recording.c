#include "cli/output_recording.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "exchange/common/save.h"
#include "exchange/load/load.h"

int mp_output_recording_check(const struct mp_invocation *invocation)
{
    const char *output = invocation->value[MP_OPT_OUTPUT];
    struct stat facts;
    if (!output || !*output || !strcmp(output, "-"))
        return mp_refuse("%s writes a new file: name it with -o, for instance -o snap.mp", invocation->command->name);
    if (stat(output, &facts)) return MP_EXIT_DONE;
    if (!S_ISDIR(facts.st_mode) && mp_given(invocation, MP_OPT_FORCE)) return MP_EXIT_DONE;
    return mp_give_up("%s is already there; choose another name%s", output,
                      S_ISDIR(facts.st_mode) ? ": it is a folder" : " or add --force");
}

static enum mp_status save(void *context, FILE *out, struct mp_error *error)
{
    int fd = dup(fileno(out));
    return fd < 0 ? mp_fail_errno(error, "cannot write the recording") : mp_exchange_save(context, fd, error);
}

int mp_output_recording_load(const struct mp_invocation *invocation, struct mp_model **model)
{
    const char *input = invocation->operands[0];
    struct mp_error error;
    int status = mp_output_recording_check(invocation);
    if (status) return status;
    mp_progress_start(invocation, input);
    enum mp_status loaded = mp_exchange_load(input, model, &error);
    mp_progress_end();
    return loaded ? mp_message_error(&error) : MP_EXIT_DONE;
}

int mp_output_recording(const struct mp_invocation *invocation, struct mp_model *model)
{
    return mp_output_write(invocation, save, model);
}
