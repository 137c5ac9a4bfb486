/* Small files that a user wrote: settings, rules, suppressions. */
#ifndef MP_CLI_TEXT_FILE_H
#define MP_CLI_TEXT_FILE_H

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"

/* Opens it, without waiting for anybody: MP_INVALID where it is no file (a pipe that is open already, as <(command)
 * makes one, is taken). The caller closes it. */
enum mp_status mp_text_file_open(const char *path, FILE **file, struct mp_error *error);

/* The whole file, with a NUL behind it, in the empty buffer `text`, which the caller frees, also after a failure.
 * MP_IO; MP_INVALID where it holds a byte 0 or more than a mebibyte: nobody wrote that. */
enum mp_status mp_text_file_read(const char *path, struct mp_buffer *text, struct mp_error *error);

#endif
