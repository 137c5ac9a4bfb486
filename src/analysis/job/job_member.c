#include "analysis/job/job_state.h"

static uint32_t number(const struct mp_member *member, enum mp_member_number which)
{
    uint64_t known = mp_member_number(member, which);
    return known == UINT64_MAX ? MP_NONE : (uint32_t)known;
}

struct mp_job_member mp_job_member_of(const struct mp_model *model)
{
    const struct mp_member *member = &model->start.member;
    return (struct mp_job_member){.rank = number(member, MP_MEMBER_RANK),
                                  .local_rank = number(member, MP_MEMBER_LOCAL_RANK),
                                  .world_size = number(member, MP_MEMBER_WORLD_SIZE),
                                  .node = number(member, MP_MEMBER_NODE),
                                  .parent = number(member, MP_MEMBER_PARENT),
                                  .role = member->role,
                                  .job = member->job,
                                  .helper = mp_member_is_helper(member)};
}
