/* Small files that a user wrote: settings, rules, suppressions. */
#pragma once

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"

/* Opens the file without waiting for another process: MP_INVALID: the path is no file (a pipe such as <(command) is
 * accepted). The caller closes it. */
enum mp_status mp_text_file_open(const char *path, FILE **file, struct mp_error *error);

/* Reads the whole file into the empty buffer `text`, and adds a NUL. The caller frees `text`, even after a failure.
 * MP_IO. MP_INVALID: the file has a byte 0, or more than 1 MiB, which nobody writes by hand. */
enum mp_status mp_text_file_read(const char *path, struct mp_buffer *text, struct mp_error *error);
