/*
 * Rows of a job: what many recordings say together (docs/FORMAT.md, "Jobs"). Their texts are string ids, their stacks
 * those of the same file; processes are indices into the rows of processes. Numbers that are not known are MP_NONE, and
 * MP_BYTES_UNKNOWN where they have 64 bits.
 */
#ifndef MP_FORMAT_JOB_H
#define MP_FORMAT_JOB_H

#include <stdint.h>

/* One recording. */
struct mp_job_process {
    uint64_t start_unix_ns, duration_ns;
    uint64_t events, dropped, steps;
    uint64_t growth; /* bytes a step: of its leaks together */
    uint32_t path;   /* the recording, as the user named it */
    uint32_t command, host;
    uint32_t role, job; /* as its launcher or its parent gave them */
    uint32_t exit;      /* how it ended, in words */
    uint32_t missing;   /* what the recording lacks, as a sentence; 0: nothing */
    uint32_t reason;    /* of the verdict "unknown" */
    uint32_t step_source;
    uint32_t pid, parent, rank, local_rank, world_size, node;
    uint8_t verdict; /* enum mp_verdict */
    uint8_t limited; /* 1: a limit that the user set left something out */
    uint8_t helper;  /* 1: it works for the rank that started it, and is not the rank itself */
};

/* Bounds of what a row may say: numbers of words that are listed above this layer, and tracks of a process. */
#define MP_JOB_VERDICTS 3
#define MP_JOB_CLASSES  11
#define MP_JOB_TRACKS   64

/* The end of what began at `start`; a file may name times whose sum is beyond all numbers. */
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
    uint64_t reserved_bytes; /* the most that its allocator held */
    uint64_t device_bytes;   /* what the device has in all */
    uint32_t process;
    uint32_t id;     /* "cuda:3/torch" */
    uint32_t kind;   /* without the device's number, so that processes can be compared: "cuda/torch" */
    uint32_t device; /* "cuda:3" */
    uint32_t uuid;
    uint8_t layer, size_basis;
    uint8_t chosen; /* 1: the track that the process's reports are about */
    uint8_t memory; /* 1: its bytes are memory of the device */
};

enum mp_job_sense {
    MP_JOB_PEAK,   /* bytes at the peak of each process's own track */
    MP_JOB_END,    /* bytes outstanding at its end */
    MP_JOB_GROWTH, /* bytes a step, of a leak there; no blocks */
    MP_JOB_SENSES
};

/* A site in all processes that have it: one row for each kind of track and each sense. */
struct mp_job_site {
    uint64_t bytes, blocks; /* of all of them together; stops at the highest number */
    uint64_t least, most;
    uint32_t stack, kind;
    uint32_t processes;                   /* that have it */
    uint32_t least_process, most_process; /* the first in order where several are equal */
    uint8_t sense;                        /* enum mp_job_sense */
};

/* The largest items that a process itself held at the peak of its chosen track. */
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
    uint8_t class; /* enum mp_leak_class */
    uint8_t certain;
};

enum mp_job_curve { MP_JOB_BY_STEP, MP_JOB_BY_TIME };

/* A point of a track's curve. The unit of `at` is 2^shift steps, or 2^shift nanoseconds since 1970. */
struct mp_job_point {
    uint64_t at;
    uint64_t most, last;     /* bytes: the highest in that unit, and at its end */
    uint32_t process, track; /* string id: the track's id */
    uint8_t shift;
    uint8_t curve; /* enum mp_job_curve */
};

enum mp_job_trouble_kind {
    MP_JOB_UNUSED,   /* could not be read: the text is the error's sentence, which names the file */
    MP_JOB_PARTIAL,  /* a job of which only a part was there: the text is what it lacks */
    MP_JOB_LEFT_OUT, /* counts by another of the files: the text is why. Nothing is missing by that. */
    MP_JOB_LIMITED,  /* a recording that does not hold everything, and the text says what. Its events are whole. */
    MP_JOB_COPIED,   /* a worker that copied pages of its parent, and the text says how much */
};

/* A file that gave nothing to the job, or less than it should. */
struct mp_job_trouble {
    uint32_t path, text;
    uint8_t kind; /* enum mp_job_trouble_kind */
};

#endif
