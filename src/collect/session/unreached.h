/*
 * Processes below the command that run without the recorder: static programs, programs with other rights, and those
 * that a raw system call started with an environment of their own. memprof looks through /proc for them, at most for a
 * hundredth of the time. A process that ends between two looks is not seen. As for files of children, only processes
 * count that held enough: `from_bytes` of memory of their own, at least 1 MiB. A larger one without the recorder is
 * reported like one that could not be recorded (collect/session/refused.h). One thread at a time.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "wire/config.h"

struct mp_unreached_process;

struct mp_unreached_look {
    uint64_t next_ns;                         /* no look before this time */
    MP_VEC(struct mp_unreached_process) tree; /* the command and the processes below it, at the last look */
    MP_VEC(uint32_t) others;                  /* all other processes then, ascending; they stay others */
};

/* Why a process runs without the recorder, in place of an errno in struct mp_unreached. The last two come from
 * python/libmemprof_engines.py. The process gave work to the engine in the name, which memprof did not start; or it is
 * a worker of an engine. */
enum mp_unreached_reason {
    MP_UNREACHED_STATIC = -1,
    MP_UNREACHED_RIGHTS = -2,
    MP_UNREACHED_VARIABLES = -3,
    MP_UNREACHED_ENGINE = -4,
    MP_REACHED_WORKER = -5
};

/* Looks if it is time, and adds a row to `page` for each process found. `recorded`: true if the process has a
 * recording. */
void mp_unreached_look(struct mp_unreached_look *look, pid_t command, uint64_t from_bytes,
                       struct mp_doorbell_page *page, bool (*recorded)(const void *context, uint32_t pid),
                       const void *context);
void mp_unreached_free(struct mp_unreached_look *look);
