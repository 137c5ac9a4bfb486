/*
 * Checks of this machine: a line of the doctor's answer each, and questions that a child process asks. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/vec.h"

enum mp_check_state {
    MP_CHECK_OK,
    MP_CHECK_LIMITED, /* recording works, but with less than possible: advice says what is missing, and what to do */
    MP_CHECK_ABSENT,  /* missing; advice says what is then not recorded */
};

struct mp_check {
    const char *name; /* one or two words, the same on every machine */
    enum mp_check_state state;
    char found[240];
    char advice[320]; /* "": nothing is wrong */
};

struct mp_checks {
    struct mp_check *at; /* in reading order */
    size_t count, room;
};

/* `advice` NULL: all is well. `found` and its arguments are those of printf. */
void mp_doctor_add(struct mp_checks *checks, const char *name, enum mp_check_state state, const char *advice,
                   const char *found, ...) __attribute__((format(printf, 5, 6)));

/* Runs `ask` in a child, which writes its findings to `out`. True if the child ended properly within ten seconds.
 * If it did not, *answer has what the child wrote until then. The child's other output is lost. */
#define MP_ANSWER_ROOM 4096

typedef void mp_doctor_question(FILE *out, const void *context);
bool mp_doctor_ask(mp_doctor_question *ask, const void *context, char answer[MP_ANSWER_ROOM]);
