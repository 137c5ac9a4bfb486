/*
 * How code below the command line reports failure: a status as the return value, and a sentence in a struct that the
 * caller owns. Never prints or exits. Any thread; the struct belongs to one thread at a time.
 */
#pragma once

enum mp_status {
    MP_OK = 0,
    MP_NO_MEMORY,
    MP_IO,              /* the system refused; sys_errno says why */
    MP_NOT_A_RECORDING, /* the file is no recording */
    MP_TOO_NEW,         /* written by a later major version */
    MP_DAMAGED,         /* cut or inconsistent so badly that reading cannot go on */
    MP_INVALID,         /* the caller's argument, as the user wrote it, makes no sense */
    MP_LIMIT,           /* a stated bound was reached */
    MP_NOT_FOUND,
    MP_UNSUPPORTED,
    MP_BUSY, /* still in use by somebody else: may work later */
};

struct mp_error {
    enum mp_status status;
    int sys_errno;  /* 0 if no system call failed */
    char text[480]; /* one sentence without a full stop: what failed, with what */
};

/* Fills *error (may be NULL) and returns status, so that `return mp_fail(...)` reads as one step. errno is kept. */
enum mp_status mp_fail(struct mp_error *error, enum mp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As mp_fail with MP_IO; appends ": " and the message of errno to the text. */
enum mp_status mp_fail_errno(struct mp_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
