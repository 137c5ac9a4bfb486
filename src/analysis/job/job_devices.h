/* The devices of a job, and who holds them. Pure. */
#pragma once

#include "analysis/job/job_view.h"

/* Parts of mp_job_view_make(). */
void mp_job_find_devices(struct mp_job_view *view);
