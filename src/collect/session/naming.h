/* Names of snapshot files. Pure but for the machine's name; any thread. */
#ifndef MP_COLLECT_NAMING_H
#define MP_COLLECT_NAMING_H

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

/* A process, as far as its file's name is made of it. The name (%n) is its rank, as "rank03" where there are up to 100;
 * of what works for another process its role and pid, of others their program and pid. */
struct mp_named {
    uint32_t pid;
    struct mp_member member;
    const char *program; /* collect/recording/recording.h */
};

/* This machine's name, as files have it. */
void mp_naming_host(char *to, size_t room);

/* True where two processes can never get one name from the pattern. */
bool mp_naming_separates_processes(const char *pattern);

/* The file name for a process; freed by the caller, NULL where memory is short. `number` 0 is the plain name, n > 0 the
 * n-th that must differ: run.mp, run.PID.mp, run.PID.2.mp. */
char *mp_naming_path(const struct mp_naming *naming, const struct mp_named *process, unsigned number);

#endif
