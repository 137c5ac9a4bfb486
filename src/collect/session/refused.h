/*
 * Processes that could not be recorded. Each is counted, and the first few are named. The file of the nearest recorded
 * ancestor, or the command's file, gets a note about it. A process that later gets descriptors or an answer withdraws
 * its refusal. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/config.h"

/* The first few, with the reason for the very first. */
#define MP_REFUSED_NAMED  4
#define MP_REFUSED_ENGINE 64
struct mp_refused {
    char engine[MP_REFUSED_ENGINE]; /* "dask at 127.0.0.1:8786" got work, and none of its workers came; "": none */
    size_t count;
    struct mp_refused_process {
        uint32_t pid; /* in the process's own pid namespace; 0: not known */
        char name[MP_PROCESS_NAME];
    } first[MP_REFUSED_NAMED];
    struct mp_error why;
};

/* `name` NULL: uses the kernel's name. `pid` 0: not known. */
void mp_refused_add(struct mp_refused *refused, uint32_t pid, const char *name, const struct mp_error *why);
/* Moves the processes below process `above` to *refused; 0: all processes. A running process may still be recorded, so
 * it is moved only if `ending` is set. The reports are folders next to the session's socket ("": none), and rows
 * of its doorbell's page (NULL: none). */
void mp_refused_take(const char *socket_path, struct mp_doorbell_page *page, uint32_t above, bool ending,
                     struct mp_refused *refused);
void mp_refused_merge(struct mp_refused *into, const struct mp_refused *from);
/* "3 processes could not be recorded (pid 12 python, pid 13 python, pid 14 sh): memprof did not answer in time". A
 * sentence about the engine follows, or stands alone. */
#define MP_REFUSED_TEXT (sizeof((struct mp_error *)NULL)->text + 512)
static inline bool mp_refused_any(const struct mp_refused *refused)
{
    return refused->count || *refused->engine;
}
void mp_refused_say(const struct mp_refused *refused, char *text, size_t room);
