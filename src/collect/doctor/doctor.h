/*
 * Checks what memprof can record on this machine: whether it has all that it needs, and what the user can do otherwise.
 * Works without a GPU and without a driver. Child processes try foreign libraries and programs, so that a crash or hang
 * costs only a line of the answer. One thread. Lack of memory ends the program.
 */
#pragma once

#include "collect/doctor/checks.h"

/* Takes some seconds, as it starts a Python. The caller frees checks->at with mp_vec_free(). */
void mp_doctor_examine(struct mp_checks *checks);
