/* The beginning of a recording. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/recording/recording.h"
#include "format/new_file.h"

struct mp_new_recording {
    uint32_t pid;
    const char *output; /* absolute */
    const struct mp_record_config *config;
    bool symbols, keep_command;
    mp_recording_name *name; /* makes the file; called with `context` */
    void *context;
};

/* Makes the recording of a process, without events yet; NULL with *error. */
struct mp_recording *mp_new_recording(const struct mp_new_recording *of, struct mp_error *error);

/* Makes the recording's file. The spool gets the file's name before the file exists, for recovery. *fd: the caller
 * closes it. */
enum mp_status mp_new_recording_file(struct mp_recording *recording, const char *path, enum mp_new_file_way way,
                                     int *fd, struct mp_error *error);
