/* What a job's processes lack, and how they ended. Pure. */
#pragma once

#include "analysis/job/job_view.h"

void mp_job_find_problems(struct mp_job_view *view);
