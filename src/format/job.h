/*
 * Rows of a job: the summary of many recordings (docs/FORMAT.md, "Jobs"). Texts are string ids of the same file, and
 * stacks are ids of its stacks. Processes are indices into the rows of processes. Unknown numbers are MP_NONE, or
 * MP_BYTES_UNKNOWN if they have 64 bits.
 */
#pragma once

#include <stdint.h>

/* One process, as its recording describes it. */
struct mp_job_process {
    uint64_t start_unix_ns, duration_ns;
    uint64_t events, dropped, steps;
    uint64_t growth; /* bytes per step, summed over its leaks */
    uint32_t path;   /* the recording, as the user named it */
    uint32_t command, host;
    uint32_t role, job; /* from its launcher or its parent */
    uint32_t exit;      /* how it ended, in words */
    uint32_t missing;   /* what the recording lacks, as a sentence; 0: nothing */
    uint32_t reason;    /* the reason for the verdict "unknown" */
    uint32_t step_source;
    uint32_t pid, parent, rank, local_rank, world_size, node;
    uint8_t verdict; /* enum mp_verdict */
    uint8_t limited; /* 1: a limit of the user's left something out */
    uint8_t helper;  /* 1: a process that works for a rank, and is not the rank itself */
};

/* Bounds of values in a row: the number of verdicts (enum mp_verdict, above this layer), and the tracks of a
 * process. */
#define MP_JOB_VERDICTS 3
#define MP_JOB_CLASSES  13
#define MP_JOB_TRACKS   64

/* The end of a span from `start`. Stops at the highest number, since a damaged file may name any times. */
static inline uint64_t mp_job_time_after(uint64_t start, uint64_t duration)
{
    return start + duration < start ? UINT64_MAX : start + duration;
}

/* A track of a process. */
struct mp_job_track {
    uint64_t events;
    uint64_t peak_bytes, peak_ns, peak_blocks;
    uint64_t peak_step; /* 0: none */
    uint64_t end_bytes, end_blocks;
    uint64_t reserved_bytes; /* the highest reserved total of its allocator */
    uint64_t device_bytes;   /* total memory of the device */
    uint32_t process;
    uint32_t id;     /* "cuda:3/torch" */
    uint32_t kind;   /* the track without the device's number, for comparing processes: "cuda/torch" */
    uint32_t device; /* "cuda:3" */
    uint32_t uuid;
    uint8_t layer, size_basis;
    uint8_t chosen; /* 1: reports of this process show this track */
    uint8_t memory; /* 1: its bytes are memory of the device, not address space */
};

enum mp_job_sense {
    MP_JOB_PEAK,   /* bytes at the peak of each process's own track */
    MP_JOB_END,    /* bytes outstanding at its end */
    MP_JOB_GROWTH, /* bytes per step of the process's leaks at this site; no blocks */
    MP_JOB_SENSES
};

/* A site of a job: sums and extremes over its processes. There is one row for each kind of track and each sense. */
struct mp_job_site {
    uint64_t bytes, blocks; /* sum over the processes; stops at the highest number */
    uint64_t least, most;
    uint32_t stack, kind;
    uint32_t processes;                   /* how many processes have the site */
    uint32_t least_process, most_process; /* if several are equal, the first in order */
    uint8_t sense;                        /* enum mp_job_sense */
};

/* One of the sites that held most in a process at the peak of its chosen track. */
struct mp_job_holding {
    uint64_t bytes, blocks;
    uint32_t process, stack;
};

/* A cause that the leak rule found in a process: its site with the highest rate, and the sums of all its sites. */
struct mp_job_finding {
    uint64_t bytes, blocks, bytes_per_step;
    uint64_t eta_oom_steps;
    uint32_t process, track; /* string id: the track's id */
    uint32_t stack, first_step;
    uint32_t holder; /* string id: "main().losses[*] (train.py:61)"; 0: none was found */
    uint8_t class;   /* enum mp_leak_class */
    uint8_t certain; /* 0: probable, 1: certain, 2: possible */
};

enum mp_job_curve { MP_JOB_BY_STEP, MP_JOB_BY_TIME };

/* One point of a track's curve. `at` counts units of 2^shift steps, or of 2^shift nanoseconds since 1970. */
struct mp_job_point {
    uint64_t at;
    uint64_t most, last;     /* bytes: the highest within the unit, and at its end */
    uint32_t process, track; /* string id: the track's id */
    uint8_t shift;
    uint8_t curve; /* enum mp_job_curve */
};

enum mp_job_trouble_kind {
    MP_JOB_UNUSED,   /* could not be read: the text is the error's sentence, which names the file */
    MP_JOB_PARTIAL,  /* an incomplete job: the text says what it lacks */
    MP_JOB_LEFT_OUT, /* another file counts in its place: the text says why. Nothing is missing then */
    MP_JOB_LIMITED,  /* an incomplete recording, and the text says what it lacks. Its events are complete */
    MP_JOB_COPIED,   /* a worker that copied pages of its parent, and the text says how much */
};

/* A file that gave nothing to the job, or not everything. */
struct mp_job_trouble {
    uint32_t path, text;
    uint8_t kind; /* enum mp_job_trouble_kind */
};
