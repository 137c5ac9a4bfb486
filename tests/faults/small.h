/* A small recording with something of everything: what the damage tests cut and flip. */
#ifndef MP_TESTS_FAULTS_SMALL_H
#define MP_TESTS_FAULTS_SMALL_H

/* Writes it to fd (taken over), of a run with that batch size. The same bytes each time. Ends the process where that
 * fails. */
void small_recording(int fd, unsigned batch);

#endif
