/* A job as one page that opens from disk: a bar for each process, curves aligned by step, and the sites of all. It also
 * shows one process alone, or compares two. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "jobs/report.h"

enum mp_status mp_job_page_write(const struct mp_job_view *job, const char *title, FILE *out, struct mp_error *error);

/* The page without a job, as viz/ builds it; made by viz/Makefile.inc. Ends with a NUL. */
extern const unsigned char mp_job_page_template[];
