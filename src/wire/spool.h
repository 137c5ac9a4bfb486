/*
 * The spool: one file in shared memory per recorded process. The recorder leaves its records there, and the collector
 * picks them up. The file outlives both, so that `memprof recover` can finish a recording if they die.
 *
 * Who writes what. The collector creates the file and commits space in it. It always uses fallocate: touching a hole of
 * a full file system would raise SIGBUS in the user's program. It owns `tail`, `committed` and all fields marked
 * "collector" below. The recorder maps what it needs, touches only committed space, and owns the rest. All fields that
 * both touch are atomic. Offsets replace pointers, since each side maps the file at another address. All numbers
 * little-endian, 64-bit only.
 *
 *     header page(s) | ring 0 | ring 1 | ... | table 0 | table 1 | ...
 *
 * Never allocates; may be used in the program.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"
#include "base/member.h"
#include "base/words.h"
#include "wire/record.h"

#define MP_SPOOL_MAGIC   UINT64_C(0x316c6f6f70736d70) /* "mpspool1" */
#define MP_SPOOL_VERSION 9

#define MP_SPOOL_RINGS_MAX    96
#define MP_RING_BYTES         (UINT64_C(1) << 20)
#define MP_RING_RECORDS       (MP_RING_BYTES / sizeof(struct mp_record))
#define MP_SPOOL_HEADER_BYTES (UINT64_C(64) << 10)
#define MP_SPOOL_TEXT         1024 /* bytes of each text in the header */
#define MP_SPOOL_NOTES        32
#define MP_SPOOL_SCHEDULE     512
#define MP_SPOOL_NOTE_TEXT    256

/* A thread's ring. Sequence numbers count records since the ring was made and never wrap: record n lies at index n %
 * MP_RING_RECORDS. Records in [tail, head) are published, but not yet in the file. */
enum mp_ring_state {
    MP_RING_FREE = 0,
    MP_RING_OWNED = 1,
    MP_RING_RETIRED = 2 /* its thread has ended; the ring may be
                         * emptied */
};

struct mp_ring {
    /* recorder */
    _Atomic uint64_t head;
    _Atomic uint64_t open_since; /* begin of the running hook, in monotonic ns; 0: no hook runs. Stored before the hook
                                  * reads the clock for its record, so no record can be older than the value that the
                                  * collector sees here */
    _Atomic uint64_t dropped;    /* records lost because the ring was full */
    _Atomic uint32_t state;      /* enum mp_ring_state; the collector sets it back to FREE */
    uint32_t tid;
    char name[16];
    uint64_t unused[2];
    /* collector */
    _Alignas(64) _Atomic uint64_t tail;
};

/* A table that only grows. The recorder publishes `count` after it has written the entries. */
enum mp_spool_table_id {
    MP_TABLE_NODES,   /* struct mp_wire_node; entry 0 is the empty stack */
    MP_TABLE_FRAMES,  /* struct mp_wire_frame */
    MP_TABLE_MODULES, /* struct mp_wire_module; entry 0 is "unknown" */
    MP_TABLE_TRACKS,  /* struct mp_wire_track */
    MP_TABLE_STRINGS, /* bytes: each string is a uint32_t length and its bytes, padded to 4. A string's id is a quarter
                       * of its offset, so that the recorder need not count. Offset 0 holds the empty string */
    MP_TABLES
};

struct mp_spool_table {
    uint64_t offset;            /* offset in the file */
    uint64_t room;              /* the most entries that it can ever have (bytes for strings) */
    _Atomic uint64_t committed; /* collector: number of entries that may be touched */
    _Atomic uint64_t count;
};

struct mp_wire_node {
    uint32_t parent;
    uint32_t frame; /* MP_WIRE_FRAME_CUT: frames were left out here */
};
#define MP_WIRE_FRAME_CUT UINT32_MAX

struct mp_wire_frame {
    uint64_t address;                /* native: return address less the module's bias */
    uint32_t module, function, file; /* native: module; python: string ids */
    uint32_t line;
    uint32_t language; /* enum mp_language */
    uint32_t unused;
};

struct mp_wire_module {
    uint64_t start, end, bias;
    struct mp_file_id file; /* only the build-id is filled in; the collector looks up the rest */
    uint32_t path;
    uint32_t generation; /* modules may be unloaded: if ranges overlap, the highest generation counts */
};

struct mp_wire_track {
    int16_t device_index; /* -1: the only device of its type (cpu) */
    uint8_t device_type;  /* enum mp_device_type or another number of c10's */
    uint8_t layer;
    uint8_t size_basis;
    uint8_t unused[3]; /* set to zero, since entries are compared as bytes */
    uint32_t name;     /* string id: a pool's name, 0 otherwise */
};

/* A device of the program's own driver. The index is the driver's ordinal of the device, which depends on
 * CUDA_VISIBLE_DEVICES. */
#define MP_SPOOL_DEVICES 64
struct mp_spool_device {
    _Atomic uint32_t known; /* 1: `uuid` is set */
    uint8_t uuid[16];
};

/* How CUPTI's memory records compare with its callbacks. */
struct mp_spool_cupti {
    _Atomic uint64_t records, agreed; /* number of memory records, and of records that agree with a callback */
    _Atomic uint64_t without_call;    /* records without a callback */
    _Atomic uint64_t without_record;  /* calls without a record, at the end */
    _Atomic uint64_t different;       /* records that give another address or size than their call */
    _Atomic uint64_t dropped;         /* records that CUPTI dropped */
    _Atomic uint64_t unreadable;      /* records of an unknown kind, or cut */
    _Atomic uint32_t flushed;         /* 1: CUPTI's buffers were empty at the end */
};

/* A question to the collector and its answer (statistics). The answer is valid once `answered` equals the question's
 * number. */
struct mp_spool_answer {
    _Atomic uint32_t asked, answered;
    _Atomic uint64_t live_bytes, peak_bytes, live_blocks;
    _Atomic uint32_t found;
};

/* The position of a recording in its schedule (collect/recording/schedule.h). */
struct mp_schedule_position {
    uint64_t steps;     /* steps of the program that have begun */
    uint64_t units;     /* units of the schedule that have begun */
    uint32_t unit_ring; /* the thread whose region is the unit, and that region's depth */
    uint32_t unit_depth;
    bool over;
};

/* The position after `taken` records had been taken from the rings. */
struct mp_schedule_mark {
    _Atomic uint64_t taken;
    struct mp_schedule_position position;
};

struct mp_spool_snapshot_answer {
    _Atomic uint32_t asked, answered;
    _Atomic uint32_t written; /* 1: the file is whole */
};

/* The collector's request for a look for holders of tensors (capture/torch/holders.h). It numbers its requests of all
 * kinds; no number repeats in a session. */
struct mp_spool_look {
    _Atomic uint32_t asked;     /* number of the request; 0: none. The collector withdraws a request that was not begun
                                 * in time */
    _Atomic uint32_t budget_ms; /* the most time that the look may take; MP_HOLDERS_SHORT: short if time is short */
};

#define MP_SPOOL_SHM 64
/* The program's use of the system, as only the recorder sees it. */
struct mp_spool_seen {
    _Atomic uint32_t has_cuda_allocator;   /* 1: PyTorch's CUDA allocator was loaded when the driver refused memory of a
                                            * device */
    _Atomic uint32_t shm_made;             /* number of files made by shm_open(), stored after the inode */
    _Atomic uint64_t inodes[MP_SPOOL_SHM]; /* of the last of these, a ring */
};

/* The file that the collector writes. */
struct mp_spool_written {
    char file[MP_SPOOL_TEXT]; /* path of the file in writing, set before it is made; "": none yet */
    _Atomic uint32_t failed;  /* 1: writing the file failed, and the rings are not emptied any more */
    char why[MP_SPOOL_NOTE_TEXT];
    uint64_t full_before; /* events dropped because rings were full, before the file failed */
};

/* Numbers of events, stacks and names that the recorder could not record, by cause. */
struct mp_spool_losses {
    _Atomic uint64_t dropped_no_ring;    /* events of threads for which no ring was free */
    _Atomic uint64_t dropped_no_track;   /* the table of tracks is full, or was locked for too long */
    _Atomic uint64_t dropped_no_memory;  /* events of threads without memory for their data or their ring */
    _Atomic uint64_t dropped_inside;     /* events that came during a hook of their thread, or during its attach */
    _Atomic uint64_t dropped_unattached; /* events before the system had a descriptor or memory for attaching */
    _Atomic uint64_t dropped_refused;    /* 1: the system refused a call, and recording ended with this event */
    _Atomic uint64_t dropped_retired;    /* events of threads under seccomp's strict mode */
    _Atomic uint64_t left_hooks;         /* hooks that the program left by a jump; the event of each is lost */
    _Atomic uint64_t truncated_stacks, unmatched_stacks, lost_stacks; /* lost: no room in the tables */
    _Atomic uint64_t doubtful_calls; /* events that may have begun another call of the function of --step-at */
    _Atomic uint64_t lost_strings;   /* names for which the tables had no room */
    _Atomic uint64_t without_lock;   /* stacks, names and driver blocks left out since a lock could not be taken */
};

struct mp_spool_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct mp_spool_header): a difference means another build */
    uint64_t spool_id;
    uint64_t file_bytes;
    uint64_t realtime_ns, monotonic_ns; /* one moment on both clocks: time 0 of the recording */
    uint32_t pid;
    char output[MP_SPOOL_TEXT];        /* the snapshot file's path */
    char configuration[MP_SPOOL_TEXT]; /* wire/config.h */
    char host[256];
    struct mp_member member;         /* its role may become known later, until the file is begun */
    char command[4 * MP_SPOOL_TEXT]; /* arguments, each NUL-terminated, with an empty one at the end */

    /* collector */
    _Atomic uint32_t collector; /* robust futex: the collector's thread while it lives. The kernel sets FUTEX_OWNER_DIED
                                 * when the collector dies in any way */
    _Atomic uint32_t collector_left; /* 1: the collector finished the file properly and will read nothing more */
    struct mp_spool_written written;
    _Atomic uint32_t drained; /* futex: changes whenever a tail has moved or space was committed */
    _Atomic uint32_t rings_committed;
    _Atomic uint64_t unsound;     /* impossible records: something has overwritten them */
    _Atomic uint32_t cannot_grow; /* 1: no more space can be committed now; nobody should wait for it */
    struct mp_spool_answer answer;
    struct mp_spool_snapshot_answer snapshot_answer;
    char schedule[MP_SPOOL_SCHEDULE]; /* for `memprof recover`, in the form of collect/recording/schedule.h; "": none */
    /* One of the two marks is for the number of taken records that the file and the rings show. The other mark is
     * older, or comes from a write that may be incomplete. */
    struct mp_schedule_mark schedule_marks[2];
    _Alignas(64) struct mp_spool_look look; /* hooks read it, so nothing else in its cache line may change often */

    /* recorder */
    _Alignas(64) _Atomic uint32_t rings_used;
    _Atomic uint32_t look_begun, look_ended; /* numbers of the last looks that began and ended */
    _Atomic uint32_t look_wakes;             /* 1: SIGURG makes the program look. 0: do not send it, since the program
                                              * may use it for something else */
    _Atomic uint32_t program_left;           /* 1: the program ran its exit handlers */
    _Atomic uint32_t rung;                   /* 1: the doorbell was rung and the collector has not yet noticed */
    _Atomic uint32_t ring_waiters;           /* threads that are waiting for a ring */
    struct mp_spool_losses losses;
    _Atomic uint32_t sources;         /* bits: enum mp_source */
    _Atomic uint32_t devices_changed; /* counts events that may have changed the devices' totals: contexts, modules,
                                       * libraries */
    struct mp_spool_cupti cupti;
    struct mp_spool_seen seen;
    struct mp_spool_device devices[MP_SPOOL_DEVICES];
    _Atomic uint32_t note_count;
    char notes[MP_SPOOL_NOTES][MP_SPOOL_NOTE_TEXT];

    struct mp_spool_table tables[MP_TABLES];
    struct mp_ring rings[MP_SPOOL_RINGS_MAX];
};

enum mp_source {
    MP_SOURCE_TORCH = 1,
    MP_SOURCE_C_API = 2,
    MP_SOURCE_CUPTI = 4,
    MP_SOURCE_HOOKS = 8,
    MP_SOURCE_NVTX = 16,
    MP_SOURCE_SHIM = 32, /* python/libmemprof_torch, in a process that has tensors */
    MP_SOURCE_HOST = 64  /* the C allocator */
};

static_assert(sizeof(struct mp_spool_header) <= MP_SPOOL_HEADER_BYTES, "the header must fit its pages");
static_assert(sizeof(struct mp_record) == 64, "a record is a cache line");

/* Fills in the tables' offsets and rooms, which recorder and collector compute in the same way. Returns the size of the
 * file. */
uint64_t mp_spool_layout(struct mp_spool_table tables[MP_TABLES]);
size_t mp_spool_entry_bytes(enum mp_spool_table_id table);
/* The byte of the file at which a table begins; of MP_TABLES the file's end. */
uint64_t mp_spool_table_offset(enum mp_spool_table_id table);

/* How many entries the collector may read. The program can write anything into the header. */
uint64_t mp_spool_table_count(const struct mp_spool_header *header, enum mp_spool_table_id table);

static inline uint64_t mp_ring_offset(uint32_t ring)
{
    return MP_SPOOL_HEADER_BYTES + ring * MP_RING_BYTES;
}

static inline struct mp_record *mp_ring_record(void *spool, uint32_t ring, uint64_t sequence)
{
    return (struct mp_record *)((char *)spool + mp_ring_offset(ring)) + sequence % MP_RING_RECORDS;
}

static inline void *mp_spool_entries(void *spool, enum mp_spool_table_id table)
{
    return (char *)spool + mp_spool_table_offset(table);
}

/* True if this build can use the mapped header. */
bool mp_spool_usable(const struct mp_spool_header *header);

/* True while a collector will read the rings: it has neither died nor left, and can write the file. */
bool mp_spool_attended(const struct mp_spool_header *header);
