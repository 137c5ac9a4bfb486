/*
 * Questions to a running collector, on the socket that recorded programs know. The socket is in a folder that only the
 * user may open. Only processes of the user and root get answers. A question is one message of fixed size. If it asks
 * for a file, it comes with the descriptor of an empty regular file for the answer. The client thus chooses the file's
 * path. The answer is one message of fixed size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/intern.h"

#define MP_CONTROL_MAGIC   UINT32_C(0x6d70636b)
#define MP_CONTROL_VERSION 2
#define MP_CONTROL_NO_ROOM (-2)

enum mp_control_command {
    MP_CONTROL_LIVE = 1,     /* write the live blocks as a snapshot file (collect/recording/recording.h) */
    MP_CONTROL_SNAPSHOT = 2, /* write the whole recording so far (collect/session/snapshots.h) */
    MP_CONTROL_HOLDERS = 3,  /* write the whole recording so far, after the program has looked for holders of its
                              * tensors */
    MP_CONTROL_OVERVIEW = 4, /* write the figures of all processes as JSON (collect/session/overview.h), at once */
    MP_CONTROL_BARE = 5,     /* as MP_CONTROL_LIVE, without functions and lines of native frames: for clients that ask
                              * often */
};

struct mp_control_question {
    uint32_t magic, version, command;
    uint32_t pid;       /* the recorded process */
    uint32_t budget_ms; /* time for a look */
};

struct mp_control_answer {
    uint32_t magic, version;
    uint32_t status; /* enum mp_status */
    uint32_t pid;    /* the process in the answer */
    char text[240];  /* the reason, unless the status is MP_OK */
};

/* ---- the collector's side ---- */

/* Reads one message of at most `room` bytes. Returns its size. 0: no message came within the socket's time limit, or it
 * was too long, or it had more than one descriptor. *file: the descriptor that came with it, which the caller closes;
 * -1: none; MP_CONTROL_NO_ROOM: this process has no free descriptor for it. *who: the sender at that time, on a socket
 * with SO_PASSCRED; else its pid is 0. */
size_t mp_control_receive(int connection, void *message, size_t room, int *file, struct ucred *who);
/* True if the message is a question of this version. */
bool mp_control_is_question(const void *message, size_t size, struct mp_control_question *question);
void mp_control_answer(int connection, enum mp_status status, uint32_t pid, const struct mp_error *error);

/* ---- the client's side ---- */

/* The path of the socket in the environment with which a process began; false: there is none. */
bool mp_control_socket_of(pid_t pid, char *path, size_t room);
/* The path of the socket of the collector that records process `pid`, or that is process `pid`. */
enum mp_status mp_control_find(pid_t pid, char *path, size_t room, struct mp_error *error);
/* Writes the variables, a NAME=VALUE line each, that make a process part of the session of mp_control_find(). */
enum mp_status mp_control_print_variables(pid_t pid, FILE *to, struct mp_error *error);
/* Asks the collector at the socket's path without waiting: `file` gets the answer, and *connection (to be closed)
 * becomes readable when the answer is complete. MP_NOT_FOUND: nobody listens there. */
enum mp_status mp_control_begin(const char *path, enum mp_control_command command, pid_t pid, int file, int *connection,
                                struct mp_error *error);
/* Takes the answer from a connection of mp_control_begin(). */
enum mp_status mp_control_end(int connection, struct mp_error *error);

/* Asks the collector that records process `pid`, or that is process `pid`, for a file of the live blocks. *fd: an
 * anonymous file, at its beginning, to be closed; *answered_pid: the process that it describes. */
enum mp_status mp_control_ask_live(pid_t pid, int *fd, pid_t *answered_pid, struct mp_error *error);
/* Asks in the same way for the whole recording so far, into `fd`, an empty regular file. */
enum mp_status mp_control_ask_snapshot(pid_t pid, int fd, pid_t *answered_pid, struct mp_error *error);
/* Asks like mp_control_ask_live(), but for the whole recording so far, ending with a look for holders that is made
 * now. */
enum mp_status mp_control_ask_holders(pid_t pid, uint32_t budget_ms, int *fd, pid_t *answered_pid,
                                      struct mp_error *error);

/* Adds the path of each possible socket of this user's sessions to `paths`. A socket may have no listener any more.
 * Sockets in the usual folders are found at once. `thorough`: also searches the environments of the user's processes,
 * which takes some 20 microseconds each. False: memory is short. One thread at a time. */
bool mp_sessions_find(bool thorough, struct mp_intern *paths);
