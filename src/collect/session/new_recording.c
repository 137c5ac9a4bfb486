#include "collect/session/new_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/session/command_line.h"
#include "collect/session/membership.h"
#include "collect/session/naming.h"

struct mp_recording *mp_new_recording(const struct mp_new_recording *of, struct mp_error *error)
{
    struct mp_spool_header *facts = calloc(1, sizeof *facts);
    char *folder = strdup(of->output);
    struct mp_spool_file spool;
    struct mp_recording *recording = NULL;
    if (!facts || !folder) {
        mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
    } else {
        *strrchr(folder, '/') = '\0';
        *facts = (struct mp_spool_header){.magic = MP_SPOOL_MAGIC,
                                          .version = MP_SPOOL_VERSION,
                                          .header_bytes = sizeof *facts,
                                          .monotonic_ns = mp_clock_monotonic_ns(),
                                          .realtime_ns = mp_clock_realtime_ns(),
                                          .pid = of->pid};
        if (getrandom(&facts->spool_id, sizeof facts->spool_id, 0) < 0) facts->spool_id = facts->realtime_ns;
        snprintf(facts->output, sizeof facts->output, "%s", of->output);
        mp_naming_host(facts->host, sizeof facts->host);
        mp_membership_read(of->pid, &facts->member);
        if (facts->member.number[MP_MEMBER_PARENT] == (uint32_t)getpid())
            facts->member.known &= ~(1u << MP_MEMBER_PARENT); /* memprof itself counts as no parent */
        mp_record_config_format(of->config, facts->configuration, sizeof facts->configuration);
        if (of->keep_command) mp_command_line_masked(of->pid, facts->command, sizeof facts->command);
        if (!mp_spool_file_create(facts, folder, &spool, error)) {
            recording = mp_recording_new(&spool, of->symbols, of->name, of->context, error);
            if (!recording) mp_spool_file_close(&spool, true);
        }
    }
    free(folder);
    free(facts);
    return recording;
}

enum mp_status mp_new_recording_file(struct mp_recording *recording, const char *path, enum mp_new_file_way way,
                                     int *fd, struct mp_error *error)
{
    const struct mp_new_file_rule rule = {.way = way, .at_once = true};
    struct mp_new_file file;
    snprintf(recording->spool.header->written.file, sizeof recording->spool.header->written.file, "%s", path);
    enum mp_status status = mp_new_file_open(path, &rule, &file, error);
    if (!status && (status = mp_new_file_put(&file, error))) close(file.fd);
    mp_new_file_close(&file);
    *fd = file.fd;
    return status;
}
