/*
 * A command's output: stdout, or a file that appears whole under its name or not at all. A failed write, even at the
 * very end, is noticed and reported. One output at a time; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "cli/invocation.h"
#include "format/new_file.h"

struct mp_output_file {
    FILE *file;
    char *path; /* NULL: stdout */
    struct mp_new_file made;
};

/* `path` NULL or "-": stdout. Files that format/new_file.h protects are refused without --force. Returns an exit
 * status; if it is not 0, a message was printed. An interrupt removes an unfinished file. */
int mp_output_open(const struct mp_invocation *invocation, const char *path, struct mp_output_file *output);
/* Flushes and closes the file, and moves it to its name. If `keep` is false, removes it instead. */
int mp_output_close(struct mp_output_file *output, bool keep);

/* Opens the file that -o names, lets `write` fill it, and closes it. The file appears only if everything succeeded.
 * Returns an exit status; if it is not 0, a message was printed. */
int mp_output_write(const struct mp_invocation *invocation,
                    enum mp_status (*write)(void *context, FILE *out, struct mp_error *error), void *context);
/* True if a path has that ending: ".gz". */
bool mp_path_ends(const char *path, const char *end);

/* Writes the whole buffer to the file that -o names. */
int mp_output_buffer(const struct mp_invocation *invocation, const struct mp_buffer *buffer);

/* Removes an unfinished output file, as a signal does. */
void mp_output_take_back(void);
