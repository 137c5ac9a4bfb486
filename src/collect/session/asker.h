/*
 * The rights of a process that asks memprof to write a file. memprof does so only if that process itself could, with
 * its user, groups, capabilities, root and mounts at this moment. memprof cannot see Landlock domains. One thread at a
 * time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Finds out whether the process itself could make `path` (absolute): 0, or the errno with which it would fail. ESRCH:
 * the process is gone, and may have dropped root's rights before that. */
int mp_asker_refusal(uint32_t pid, const char *path);

/* 0 if the process may ask about others: it is in memprof's own user namespace, and has all of memprof's capabilities.
 * The kernel lets only such processes look at memprof's programs. Else an errno: EPERM, or the errno with which the
 * check failed. */
int mp_asker_may_not_look(uint32_t pid);

/* "pid 12 runs as uid 65534 and may not write PATH (Permission denied)". */
enum mp_status mp_asker_fail(uint32_t pid, const char *path, int reason, struct mp_error *error);
