/* Shared by the parts of doctor.c. Not for others. */
#ifndef MP_COLLECT_DOCTOR_PARTS_H
#define MP_COLLECT_DOCTOR_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "collect/doctor/doctor.h"

/* Appends a check; NULL where memory is short. `found` and what follows as in printf. */
struct mp_check *mp_doctor_add(struct mp_checks *checks, const char *name, enum mp_check_state state, const char *found,
                               ...) __attribute__((format(printf, 4, 5)));
void mp_doctor_advise(struct mp_check *check, const char *advice, ...) __attribute__((format(printf, 2, 3)));

/* Runs `ask` in a child that may write what it found to `answer`; true where it ended in order within ten seconds.
 * Otherwise *answer is what was written until then. */
#define MP_ANSWER_ROOM 4096
typedef void mp_doctor_question(char answer[MP_ANSWER_ROOM], const void *context);
bool mp_doctor_ask(mp_doctor_question *ask, const void *context, char answer[MP_ANSWER_ROOM]);
/* The same for a program: what it wrote to stdout. */
bool mp_doctor_run(char *const *command, char answer[MP_ANSWER_ROOM]);

/* Pythons and the torch that each has. *site: the folder of the first torch's package, for whoever looks for libraries
 * that came with it (room of PATH_MAX; "" where there is none). */
bool mp_doctor_pythons(struct mp_checks *checks, char *site);
/* A torch by its folder and version: two checks. */
bool mp_doctor_torch(struct mp_checks *checks, const char *folder, const char *version);
bool mp_doctor_cupti(struct mp_checks *checks, const char *site);

#endif
