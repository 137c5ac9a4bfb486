/*
 * Where a command's result goes: stdout, or a file that appears whole under its name or not at all. A write that fails,
 * be it at the very end, is noticed and said. One output at a time; one thread.
 */
#ifndef MP_CLI_OUTPUT_FILE_H
#define MP_CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "cli/options.h"
#include "format/new_file.h"

struct mp_output_file {
    FILE *file;
    char *path; /* NULL: stdout */
    struct mp_new_file made;
};

/* `path` NULL or "-": stdout. What format/new_file.h keeps is refused without --force. Returns an exit status; a
 * message was written where it is not 0. An interrupt removes what is not whole. */
int mp_output_open(const struct mp_invocation *invocation, const char *path, struct mp_output_file *output);
/* Flushes, closes and moves the file to its name; or, with `keep` false, removes what was written. */
int mp_output_close(struct mp_output_file *output, bool keep);

/* Opens what -o names, lets `write` fill it, and closes it: a file appears only where all went well. Returns an exit
 * status; a message was written where it is not 0. */
int mp_output_write(const struct mp_invocation *invocation,
                    enum mp_status (*write)(void *context, FILE *out, struct mp_error *error), void *context);
/* Whether a path ends so: ".gz". */
bool mp_path_ends(const char *path, const char *end);

/* All of it at once, to where -o says. */
int mp_output_buffer(const struct mp_invocation *invocation, const struct mp_buffer *buffer);

/* Removes what an output that is not closed has written so far, as a signal does. */
void mp_output_take_back(void);

#endif
