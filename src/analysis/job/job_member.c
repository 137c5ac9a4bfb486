#include "analysis/job/job_member.h"

struct mp_job_member mp_job_member_of(const struct mp_model *model)
{
    (void)model;
    return (struct mp_job_member){MP_NONE, MP_NONE, MP_NONE, MP_NONE, MP_NONE, "", "", false};
}
