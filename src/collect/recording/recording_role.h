/* The role of a process that its stacks show. One thread at a time. */
#ifndef MP_COLLECT_RECORDING_ROLE_H
#define MP_COLLECT_RECORDING_ROLE_H

#include "collect/recording/recording.h"

/* Looks in what the tables have up to now for functions that only a worker runs, and puts the role where the process's
 * membership is (the spool's header), if there is one. */
void mp_recording_find_role(struct mp_recording *recording);

#endif
