/*
 * The place of a process in a distributed job, from its launcher (torchrun, Slurm, MPI) or its parent
 * (multiprocessing). In a zeroed struct, nothing is known. Never allocates; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of a member; the order is that of reports, the names are those of files and of JSON. */
enum mp_member_number {
    MP_MEMBER_RANK,       /* its number among all ranks of the job; a process that a rank started has the rank's number,
                           * too */
    MP_MEMBER_LOCAL_RANK, /* its number among the ranks of its node */
    MP_MEMBER_WORLD_SIZE, /* number of ranks in the job */
    MP_MEMBER_NODE,       /* the number of its node */
    MP_MEMBER_PARENT,     /* the pid of the process that started it */
    MP_MEMBER_NUMBERS
};

#define MP_MEMBER_TEXT 64 /* bytes of a text with its NUL: UTF-8 without control characters */

struct mp_member {
    uint32_t known; /* bits: 1 << enum mp_member_number */
    uint32_t number[MP_MEMBER_NUMBERS];
    char role[MP_MEMBER_TEXT]; /* "": a rank itself or a program of its own, without a name for its part */
    char job[MP_MEMBER_TEXT];  /* the scheduler's or the launcher's name of the job; "": unknown */
};

/* Roles that memprof gives: processes that work for the one that started them. */
#define MP_ROLE_LOADER_WORKER "loader worker" /* a worker of PyTorch's DataLoader */
#define MP_ROLE_POOL_WORKER   "pool worker"   /* a worker of multiprocessing.Pool or concurrent.futures */
#define MP_ROLE_WORKER        "worker"        /* any other process of multiprocessing */
#define MP_ROLE_RAY           "Ray worker"    /* runs Ray's tasks or an actor; its program has the name of these */
#define MP_ROLE_FORK_SERVER   "fork server"   /* of multiprocessing */
#define MP_ROLE_TRACKER       "resource tracker"
#define MP_ROLE_FORKED        "forked child" /* continues to run its parent's program */

const char *mp_member_number_name(enum mp_member_number which);

static inline bool mp_member_knows(const struct mp_member *member, enum mp_member_number which)
{
    return member->known >> which & 1;
}

void mp_member_set(struct mp_member *member, enum mp_member_number which, uint32_t number);
/* UINT64_MAX if the number is not known. */
uint64_t mp_member_number(const struct mp_member *member, enum mp_member_number which);

/* Copies a text of unknown origin to `to`: unprintable characters become "?", and the end of a long text is cut off. */
void mp_member_text(char to[MP_MEMBER_TEXT], const char *text, size_t length);

/* Counts processes of a role in words: "1 loader worker", "2 forked children", "3 processes of role trainer"; with
 * `role` "": "2 processes". */
#define MP_MEMBER_COUNTED (MP_MEMBER_TEXT + 48)
const char *mp_member_counted(char to[MP_MEMBER_COUNTED], uint64_t count, const char *role);

/* A cleaned copy of a member in shared memory, since its program may have overwritten it. */
struct mp_member mp_member_copy(const struct mp_member *from);

/* True if the two have the same rank of the same job: one of them may have inherited the other's environment. */
bool mp_member_same_rank(const struct mp_member *a, const struct mp_member *b);

/* Takes the rank from a mark of the shim, made when a process joins its default process group:
 * "torch.distributed: rank 1 of 4". It replaces the rank of a helper, which is that of its parent's launcher; the
 * process is no helper then. False, and nothing happens, if it is no such mark, or a launcher gave the process itself a
 * rank. */
bool mp_member_take_mark(struct mp_member *member, const char *mark);

/* True if the process works for another one, by one of the roles above, so it is not the rank itself. */
bool mp_member_is_helper(const struct mp_member *member);
