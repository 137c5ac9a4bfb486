/*
 * The recorder's connection to its collector: whether this process is to be recorded, and the mapped spool.
 *
 * A process starts `pending` if the environment names a session. It attaches at its first event, so that programs
 * without events cost nothing. If the system has no descriptor or memory left, the process stays pending and tries
 * again, ever more rarely (4 ms to 16 s). A forked child is pending again. A child made by a raw clone() finds the page
 * below wiped, never records, and says so at its first event. All functions may be called in hooks, from any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/core/futex.h"
#include "capture/core/lock.h"
#include "wire/config.h"
#include "wire/spool.h"

/* Lies in a page that the kernel wipes in children (MADV_WIPEONFORK). Zero means "not recording, no lock held". */
struct mp_session_page {
    _Atomic uint32_t recording;  /* 1: the spool is mapped, and the collector ran at the last check */
    _Atomic uint32_t generation; /* counts attaches since exec(); threads compare it with their own number */
    mp_lock attach_lock, table_lock, question_lock, snapshot_lock, module_lock;
    _Atomic uint32_t forking, holding, fork_in_vain; /* capture/core/fork.h */
    _Atomic uint64_t dropped_early;                  /* events of handlers while their thread attached */
    _Atomic uint64_t dropped_unattached;             /* events before attaching got its descriptors and memory */
    _Atomic uint64_t attach_after;                   /* monotonic ns: no attempt before this time */
    uint32_t attempts;                               /* failed attempts; under attach_lock, like the members below */
    int refused_for;                                 /* errno of the first failure, if the collector got it */
    char refused_name[MP_PROCESS_NAME];              /* the name in that report */
    _Atomic uint32_t told;                           /* 1: this child of a raw clone() has said so */
};

struct mp_session {
    struct mp_session_page *page;
    struct mp_spool_header *header; /* NULL until attached */
    struct mp_doorbell_page *doorbell;
    struct mp_doorbell_page *inherited; /* the doorbell of the process that forked this one; NULL */
    uint64_t clock_shift_ns;            /* modulo 2^64 */
    struct mp_record_config config;
    _Atomic bool pending;        /* an attempt to attach may succeed */
    _Atomic uint32_t look_wakes; /* copy of the spool's count, for the next session in a forked child */
};

extern struct mp_session mp_session;

/* The collector's clock: the time of every record. */
static inline uint64_t mp_session_clock_ns(void)
{
    return mp_clock_monotonic_ns() + mp_session.clock_shift_ns;
}

/* True if this process records now. Attaches first if that is pending. The fast path is one load. */
bool mp_session_attach(void);
static inline bool mp_session_recording(void)
{
    struct mp_session_page *page = mp_session.page;
    if (__builtin_expect(!page, 0)) return false;
    if (__builtin_expect(atomic_load_explicit(&page->recording, memory_order_acquire), 1)) return true;
    return atomic_load_explicit(&mp_session.pending, memory_order_relaxed) && mp_session_attach();
}

/* True if the process does not record yet, but may begin once the system has a descriptor or memory. */
static inline bool mp_session_tries_again(void)
{
    struct mp_session_page *page = mp_session.page;
    return page && atomic_load(&mp_session.pending) && atomic_load(&page->attach_after);
}

/* True if a program that this process starts is to be recorded, too: --follow wants it, as far as this process knows.
 */
static inline bool mp_session_passes_on(void)
{
    if (!mp_session.page) return false;
    return mp_session.header ? mp_session.config.follow : atomic_load(&mp_session.pending);
}

/* Counts an event that came before the system gave the descriptors and memory for recording. */
void mp_session_count_unattached(void);

/* Notifies the collector of new work (at most one system call until it has reacted). */
void mp_session_ring_doorbell(void);

/* Adds a sentence to the recording's notes, each text once. Beyond MP_SPOOL_NOTES they are dropped. */
void mp_session_note(const char *text);
void mp_session_source(enum mp_source source); /* one source or several, as bits */
/* The system refused a call of the recorder's (errno says why). In a sandbox recording then ends, since the next
 * refused call may kill the program. */
void mp_session_refused(const char *call);
/* Counts an event that is dropped because there was no memory for its thread. */
void mp_session_no_memory(void);
/* Counts that something was left out because a lock was not free in time. The collector reports the count at the end.
 */
void mp_session_without_lock(void);

/* mp_session_start() is called by the library's constructor and reads the environment. mp_session_after_fork() is
 * called in a forked child. `inside_hook`: a signal handler inside a hook forked, and that hook will continue in the
 * child, too. */
void mp_session_start(void);
void mp_session_after_fork(bool inside_hook);
/* Called in a forked child that lacks some of the recorder's memory: the child never records. */
void mp_session_give_up(void);
