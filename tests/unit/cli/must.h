/* For programs that make recordings: a failed call ends the program with the error's text. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

static void must(enum mp_status status, const struct mp_error *error)
{
    if (!status) return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, error->text);
    exit(1);
}

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        struct mp_error error = {0};                                                                                   \
        must(call, &error);                                                                                            \
    } while (0)
