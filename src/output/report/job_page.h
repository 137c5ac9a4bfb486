/* A job as one self-contained page: its processes with a bar each, its sites, and, for programs and for a page that
 * draws more, the report's JSON and all curves. */
#ifndef MP_OUTPUT_JOB_PAGE_H
#define MP_OUTPUT_JOB_PAGE_H

#include "output/report/job.h"

/* Script elements of type application/json: #report holds memprof.report/1, #curves
 * [{"process","track","by" ("step", "time"),"unit" (steps, or ns),"points":[[at,most,last],...]}]: `at` times the unit
 * is a step, or ns since 1970. */
void mp_job_page(struct mp_buffer *out, const struct mp_job_view *job, const struct mp_view *view);

#endif
