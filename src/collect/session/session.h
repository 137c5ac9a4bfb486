/*
 * The state of a session, for its parts: processes, socket, threads. One thread at a time.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "collect/metrics/metrics.h"
#include "collect/recording/recording.h"
#include "collect/recording/suspicion.h"
#include "collect/session/doorbell.h"
#include "collect/session/finisher.h"
#include "collect/session/looks.h"
#include "collect/session/naming.h"
#include "collect/session/refused.h"
#include "collect/session/session_folder.h"
#include "collect/session/snapshots.h"
#include "collect/session/unreached.h"

#define MP_VISITORS 64 /* connections without a message so far; with one more, the oldest is closed */
#define MP_ROUND_MS 20 /* longest time between rounds; a half-full ring rings the doorbell earlier */

struct mp_collected {
    struct mp_recording *recording;
    int pidfd; /* -1: for the command itself, whose end waitpid() reports */
    uint32_t pid;
    struct mp_suspicion suspicion;
};

struct mp_collector_options;
struct mp_collector_result;

struct mp_collector {
    const struct mp_collector_options *options;
    struct mp_collector_result *result;
    struct mp_naming naming;
    char host[256];
    int locked; /* descriptor of the locked folder of the socket (collect/session/session_folder.h) */
    char socket_folder[MP_SESSION_FOLDER_ROOM], socket_path[MP_SESSION_FOLDER_ROOM + 16];
    int listener, signals;
    MP_VEC(int) visitors; /* connections without a message so far, oldest first */
    struct mp_doorbell doorbell;
    struct mp_finisher finisher;
    struct mp_snapshots snapshots;
    struct mp_looks looks;
    struct mp_device_watch *devices;
    struct mp_metrics metrics;
    sigset_t newly_ignored; /* signals that memprof newly ignores: the command gets their default back */
    sigset_t mask;          /* the former mask of blocked signals, for the command */
    pid_t command;
    bool command_ended;
    bool waits_no_longer; /* waits no longer for processes that outlive the command */
    bool ending;          /* no new process is recorded */
    struct mp_unreached_look unreached;
    struct mp_refused unplaced; /* refusals that no file mentions yet */
    int wait_status;
    MP_VEC(struct mp_collected) processes;
    MP_VEC(char *) paths; /* paths of all files made so far */
};
