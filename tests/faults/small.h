/* A small recording with something of every kind, which the damage tests cut and flip. */
#pragma once

enum small_form {
    SMALL_READINGS, /* with readings of the device */
    SMALL_PLAIN,    /* without readings, so that questions may be answered from a part of the file */
    SMALL_FOLDED,   /* its newest events; without readings */
    SMALL_FORMS
};

/* Writes the recording of a run with batch size `batch` to `fd`, and takes over `fd`. The bytes are the same each time.
 * Ends the process on failure. */
void small_recording(int fd, unsigned batch, enum small_form form);
