/* A small recording with something of everything: what the damage tests cut and flip. */
#ifndef MP_TESTS_FAULTS_SMALL_H
#define MP_TESTS_FAULTS_SMALL_H

enum small_form {
    SMALL_READINGS, /* with readings of the device */
    SMALL_PLAIN,    /* without: questions may be answered from a part of the file */
    SMALL_FOLDED,   /* its newest events; without readings */
    SMALL_FORMS
};

/* Writes it to fd (taken over), of a run with that batch size. The same bytes each time. Ends the process where that
 * fails. */
void small_recording(int fd, unsigned batch, enum small_form form);

#endif
