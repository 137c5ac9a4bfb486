/* A small recording with something of everything: what the damage tests cut and flip. */
#ifndef MP_TESTS_FAULTS_SMALL_H
#define MP_TESTS_FAULTS_SMALL_H

#include <stdbool.h>

/* Writes it to fd (taken over), of a run with that batch size; without readings of the device questions may be answered
 * from a part of the file. The same bytes each time. Ends the process where that fails. */
void small_recording(int fd, unsigned batch, bool device_readings);

#endif
