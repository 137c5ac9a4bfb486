/*
 * Shared by the parts of the collector: the loop and the end (collector.c), new processes and questions
 * (collector_accept.c). Not for others.
 */
#ifndef MP_COLLECT_COLLECTOR_PARTS_H
#define MP_COLLECT_COLLECTOR_PARTS_H

#include <signal.h>
#include <sys/types.h>

#include "collect/metrics/metrics.h"
#include "collect/session/collector.h"
#include "collect/session/doorbell.h"
#include "collect/session/finisher.h"
#include "collect/session/looks.h"
#include "collect/session/naming.h"
#include "collect/session/session_folder.h"
#include "collect/session/suspicion.h"

#define MP_VISITORS 64 /* connections that have said nothing yet; one more, and the oldest is closed */
#define MP_ROUND_MS 20 /* at least so often; a ring that is half full rings the doorbell */

struct mp_collected {
    struct mp_recording *recording;
    int pidfd; /* -1: the command itself, whose end waitpid() reports */
    uint32_t pid;
    struct mp_suspicion suspicion;
};

struct mp_collector {
    const struct mp_collector_options *options;
    struct mp_collector_result *result;
    struct mp_naming naming;
    char host[256];
    char *output_folder;
    char socket_folder[MP_SESSION_FOLDER_ROOM], socket_path[MP_SESSION_FOLDER_ROOM + 16];
    int listener, signals;
    MP_VEC(int) visitors; /* connections that have said nothing yet, oldest first */
    struct mp_doorbell doorbell;
    struct mp_finisher finisher;
    struct mp_snapshots snapshots;
    struct mp_looks looks;
    struct mp_device_watch *devices;
    struct mp_metrics metrics;
    sigset_t newly_ignored; /* signals that were not ignored before: the command gets their default back */
    sigset_t mask;          /* of blocked signals before, which the command gets */
    pid_t command;
    bool command_ended;
    int wait_status;
    MP_VEC(struct mp_collected) processes;
    MP_VEC(char *) paths; /* of every file made so far */
};

/* Takes connections that wait, and answers those that have said something: a process that is to be recorded, or a
 * question. Waits for nobody. */
void mp_collector_accept(struct mp_collector *collector);
/* The process has ended, or been replaced. */
void mp_collector_end_process(struct mp_collector *collector, size_t index, struct mp_exit how, const char *text);

#endif
