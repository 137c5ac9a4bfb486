/* Problems of a job's processes: missing data, and how they ended. Pure. */
#pragma once

#include "model/model.h"

struct mp_job_texts {
    char **at;
    size_t count, room;
};

/* Adds sentences about what the job lacks to *problems, and about what does not affect the numbers to *notes.
 * `programs`: by process, "train.py". */
void mp_job_problems_find(const struct mp_model *model, const char *const *programs, struct mp_job_texts *problems,
                          struct mp_job_texts *notes);
