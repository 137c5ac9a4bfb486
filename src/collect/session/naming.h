/* Names of snapshot files. Pure, except for the machine's name; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/member.h"

struct mp_naming {
    const char *pattern; /* absolute; its last part may have %p (pid), %r (rank), %n (name), %h (host), %t (time) and
                          * %% */
    const char *host;
    uint64_t start_unix_s;
};

/* Facts from which a process's file name is made. The name (%n) is the rank, as "rank03" with up to 100 ranks. For a
 * helper of another process it is the role and pid, otherwise the program and pid. */
struct mp_named {
    uint32_t pid;
    struct mp_member member;
    const char *program; /* as in collect/recording/recording.h */
};

/* This machine's name for files. */
void mp_naming_host(char *to, size_t room);

/* True if the pattern never gives two processes one name. */
bool mp_naming_separates_processes(const char *pattern);

/* The file name for a process; freed by the caller, NULL: memory is short. `number` 0 gives the plain name, n > 0 the
 * n-th alternative: run.mp, run.PID.mp, run.PID.2.mp. */
char *mp_naming_path(const struct mp_naming *naming, const struct mp_named *process, unsigned number);
