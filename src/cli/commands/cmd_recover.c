#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/output_recording.h"
#include "collect/recover/recover.h"
#include "exchange/load/load.h"
#include "format/new_file.h"

/* The output while it is being made. */
struct output {
    const char *path;
    bool force;
    struct mp_new_file file;
};

static enum mp_status create(void *context, struct mp_recording *recording, char **path, int *fd,
                             struct mp_error *error)
{
    struct output *output = context;
    const struct mp_new_file_rule rule = {.way = output->force ? MP_NEW_FILE_FORCE : MP_NEW_FILE_FRESH};
    enum mp_status status = mp_new_file_open(output->path, &rule, &output->file, error);
    if (status) return status;
    *fd = output->file.fd;
    *path = mp_text_copy(output->file.name ? output->file.name : output->path); /* folding uses this name, too */
    return MP_OK;
}

static int print_summary(const char *input, const char *output, const struct mp_recovery *recovery)
{
    char total[MP_UNIT_TEXT], added[MP_UNIT_TEXT];
    const struct mp_damage *damage = &recovery->damage;
    mp_format_count(total, recovery->summary.events);
    mp_format_count(added, recovery->summary.events - recovery->events_from_file);
    if (recovery->had_spool)
        mp_message("%s  %s events, %s of them from shared memory", output, total, added);
    else if (!damage->cut && !damage->lost_chunks && !damage->lost_bytes)
        mp_message("%s was whole; %s is a copy of it", input, output);
    else
        mp_message("%s  %s events: what could be read of %s; no spool was found", output, total, input);
    if (recovery->summary.dropped)
        mp_message("%s dropped; memprof report says why", mp_dropped_events(recovery->summary.dropped));
    /* A kill cut the last chunk, but the spool had its events: nothing is lost. */
    bool joined = recovery->had_spool && damage->cut && !damage->lost_chunks;
    if (!joined && (damage->lost_chunks || damage->lost_bytes)) {
        char lost[MP_UNIT_TEXT], chunks[64] = "";
        if (damage->lost_chunks)
            snprintf(chunks, sizeof chunks, ": at least %llu chunks are missing",
                     (unsigned long long)damage->lost_chunks);
        mp_message("%s in %s could not be read%s", mp_format_bytes(lost, damage->lost_bytes), input, chunks);
        return MP_EXIT_INCOMPLETE;
    }
    return recovery->summary.dropped || (damage->cut && !recovery->had_spool) ? MP_EXIT_INCOMPLETE : MP_EXIT_DONE;
}

static int run_recover(const struct mp_invocation *invocation)
{
    const char *input = invocation->operands[0], *output = invocation->value[MP_OPT_OUTPUT];
    int result = mp_output_recording_check(invocation);
    if (result) return result;
    if (mp_exchange_is_job(input))
        return mp_give_up("%s is a job, which cannot be recovered: merge its recordings again", input);
    struct output to = {.path = output, .force = mp_given(invocation, MP_OPT_FORCE)};
    mp_memory_on_lack(NULL); /* the collector's code returns a status for lack of memory */
    struct mp_recovery recovery;
    struct mp_error error;
    enum mp_status status = mp_recover(input, create, &to, &recovery, &error);
    result = MP_EXIT_COULD_NOT;
    if (!status && recovery.summary.path && mp_new_file_put(&to.file, &error)) {
        /* The spool is deleted by now: name the file made from it, so that the user keeps it. */
        mp_message("%s. The recovered events are in %s", error.text, to.file.name ? to.file.name : output);
        free(to.file.name);
        to.file.name = NULL;
    } else if (status) {
        result = mp_message_error(&error);
    } else if (!recovery.summary.path) {
        mp_message("nothing of %s was left to recover", input);
    } else {
        result = print_summary(input, output, &recovery);
    }
    mp_new_file_close(&to.file);
    free(recovery.summary.path);
    return result;
}

const struct mp_command mp_command_recover = {
    .name = "recover",
    .summary = "make a cut recording whole, or the remains of a killed memprof",
    .usage = "FILE",
    .about =
        "Reads around cuts and damage, joins the events that a killed collector left in shared memory, resolves "
        "symbols, and writes a new recording. Every event is there once. If the collector was killed before it wrote "
        "anything, the name of FILE is enough.",
    .example = "memprof recover run.mp -o whole.mp",
    .meanings = {{MP_OPT_OUTPUT, "the new recording; needed"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_recover,
};
