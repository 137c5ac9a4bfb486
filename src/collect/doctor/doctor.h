/*
 * Checks what can be recorded on this machine: each thing that memprof relies on, whether it is there, and what to do
 * where it is not. Works without a GPU and without a driver. Child processes try the libraries and programs of others,
 * so that one that crashes or hangs costs only a line of the answer. One thread.
 */
#ifndef MP_COLLECT_DOCTOR_H
#define MP_COLLECT_DOCTOR_H

#include "base/error.h"
#include "base/vec.h"

enum mp_check_state {
    MP_CHECK_OK,
    MP_CHECK_LIMITED, /* recording works, but with less than possible: advice says what is missing and what to do */
    MP_CHECK_ABSENT,  /* not there; advice says what is then not recorded */
};

struct mp_check {
    const char *name; /* a word or two, the same on every machine */
    enum mp_check_state state;
    char found[240];
    char advice[320]; /* "" where nothing is wrong */
};

struct mp_checks {
    struct mp_check *at; /* in reading order */
    size_t count, room;
};

/* Takes some seconds: it starts the Pythons that it finds. */
enum mp_status mp_doctor_examine(struct mp_checks *checks, struct mp_error *error);
void mp_doctor_free(struct mp_checks *checks);

#endif
