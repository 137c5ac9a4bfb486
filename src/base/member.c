#include "base/member.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *mp_member_number_name(enum mp_member_number which)
{
    static const char *const names[MP_MEMBER_NUMBERS] = {"rank", "local_rank", "world_size", "node", "parent"};
    return names[which];
}

void mp_member_set(struct mp_member *member, enum mp_member_number which, uint32_t number)
{
    member->known |= 1u << which;
    member->number[which] = number;
}

uint64_t mp_member_number(const struct mp_member *member, enum mp_member_number which)
{
    return mp_member_knows(member, which) ? member->number[which] : UINT64_MAX;
}

void mp_member_text(char to[MP_MEMBER_TEXT], const char *text, size_t length)
{
    size_t used = 0;
    while (length) {
        uint32_t point;
        size_t size = mp_utf8_next((const unsigned char *)text, length, &point);
        bool shown = point >= 0x20 && !(point >= 0x7f && point < 0xa0) && point != MP_UTF8_BAD;
        shown = shown && !mp_utf8_is_hidden(point);
        if (used + (shown ? size : 1) >= MP_MEMBER_TEXT) break;
        memcpy(to + used, shown ? text : "?", shown ? size : 1);
        used += shown ? size : 1;
        text += size;
        length -= size;
    }
    memset(to + used, 0, MP_MEMBER_TEXT - used);
}

struct mp_member mp_member_copy(const struct mp_member *from)
{
    struct mp_member copy = *from;
    mp_member_text(copy.role, from->role, strnlen(from->role, sizeof from->role));
    mp_member_text(copy.job, from->job, strnlen(from->job, sizeof from->job));
    return copy;
}

bool mp_member_same_rank(const struct mp_member *a, const struct mp_member *b)
{
    if (!mp_member_knows(a, MP_MEMBER_RANK)) return false;
    for (enum mp_member_number i = 0; i < MP_MEMBER_PARENT; i++)
        if (mp_member_number(a, i) != mp_member_number(b, i)) return false;
    return !strncmp(a->job, b->job, sizeof a->job);
}

/* Roles that memprof itself gives, each with its plural. */
static const struct {
    const char *role, *several;
} helpers[] = {
    {MP_ROLE_LOADER_WORKER, "loader workers"},
    {MP_ROLE_POOL_WORKER, "pool workers"},
    {MP_ROLE_WORKER, "workers"},
    {MP_ROLE_RAY, "Ray workers"},
    {MP_ROLE_FORK_SERVER, "fork servers"},
    {MP_ROLE_TRACKER, "resource trackers"},
    {MP_ROLE_FORKED, "forked children"},
};
#define HELPERS (sizeof helpers / sizeof *helpers)

static size_t helper_of(const char *role)
{
    size_t i = 0;
    while (i < HELPERS && strcmp(role, helpers[i].role) != 0)
        i++;
    return i;
}

bool mp_member_is_helper(const struct mp_member *member)
{
    return helper_of(member->role) < HELPERS;
}

bool mp_member_take_mark(struct mp_member *member, const char *mark)
{
    unsigned rank, size;
    bool own = mp_member_knows(member, MP_MEMBER_RANK) && !mp_member_is_helper(member);
    if (own || sscanf(mark, "torch.distributed: rank %9u of %9u", &rank, &size) != 2 || rank >= size) return false;
    member->known &= 1u << MP_MEMBER_PARENT;
    mp_member_set(member, MP_MEMBER_RANK, rank);
    mp_member_set(member, MP_MEMBER_WORLD_SIZE, size);
    mp_member_text(member->role, "", 0);
    return true;
}

const char *mp_member_counted(char to[MP_MEMBER_COUNTED], uint64_t count, const char *role)
{
    size_t helper = helper_of(role);
    const char *one = helper < HELPERS ? role : "process";
    const char *name = count == 1 ? one : helper < HELPERS ? helpers[helper].several : "processes";
    bool named = *role && helper == HELPERS;
    snprintf(to, MP_MEMBER_COUNTED, "%llu %s%s%s", (unsigned long long)count, name, named ? " of role " : "",
             named ? role : "");
    return to;
}
