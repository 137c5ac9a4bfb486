/* Shared by the parts of doctor.c. Not for others. */
#ifndef MP_COLLECT_DOCTOR_PARTS_H
#define MP_COLLECT_DOCTOR_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "collect/doctor/doctor.h"

/* Appends a check; NULL where memory is short. `found` and its arguments as in printf. */
struct mp_check *mp_doctor_add(struct mp_checks *checks, const char *name, enum mp_check_state state, const char *found,
                               ...) __attribute__((format(printf, 4, 5)));
void mp_doctor_advise(struct mp_check *check, const char *advice, ...) __attribute__((format(printf, 2, 3)));

/* Runs `ask` in a child that may write its findings to `answer`; true where it ended properly within ten seconds.
 * Otherwise *answer is what it had written until then. */
#define MP_ANSWER_ROOM 4096
typedef void mp_doctor_question(char answer[MP_ANSWER_ROOM], const void *context);
bool mp_doctor_ask(mp_doctor_question *ask, const void *context, char answer[MP_ANSWER_ROOM]);
/* The same for a program; the answer is its stdout. */
bool mp_doctor_run(char *const *command, char answer[MP_ANSWER_ROOM]);

/* Adds the Pythons and the torch of each. *site: the package folder of the first torch, for finding libraries that came
 * with it (room of PATH_MAX; "" where there is none). */
bool mp_doctor_pythons(struct mp_checks *checks, char *site);
/* Adds two checks of a torch, given by its folder and version. */
bool mp_doctor_torch(struct mp_checks *checks, const char *folder, const char *version);
bool mp_doctor_cupti(struct mp_checks *checks, const char *site);

#endif
