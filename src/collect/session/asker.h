/*
 * The rights of a process that asks memprof for something. memprof does it only where that process could: with its
 * user, groups, capabilities, root and mounts at this moment. A Landlock domain is not seen. One thread at a time.
 */
#ifndef MP_COLLECT_ASKER_H
#define MP_COLLECT_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Asks if the process could make `path` (absolute) itself: 0, or the errno of its refusal. ESRCH: the process is gone,
 * and may have given root's rights up. */
int mp_asker_refusal(uint32_t pid, const char *path);

/* 0 if the process may ask about others: it lives in memprof's own user namespace, with all of its capabilities. The
 * kernel lets no other process look at programs of memprof's. Else an errno: EPERM, or why nobody knows. */
int mp_asker_may_not_look(uint32_t pid);

/* "pid 12 runs as uid 65534 and may not write PATH (Permission denied)". */
enum mp_status mp_asker_fail(uint32_t pid, const char *path, int reason, struct mp_error *error);

#endif
