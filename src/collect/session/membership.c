#include "collect/session/membership.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARENTS_MAX     8                   /* most ancestors to read: a launcher is nearer */
#define ENVIRONMENT_MAX (UINT64_C(4) << 20) /* bytes of an environment that are read */
#define NUMBER_MOST     999999999u
#define NAMES           3

/* The variables of a launcher. If a row names several, the first one with a number counts. Open MPI's NODE_RANK is not
 * a node's number: it counts the ranks of a node over all jobs. */
struct launcher {
    const char *rank, *local_rank[NAMES], *world_size[NAMES], *node[NAMES], *role, *job[NAMES];
};

/* If two launchers give ranks, and neither is known to be nearer, the first in this list counts. */
static const struct launcher launchers[] = {
    {.rank = "RANK",
     .local_rank = {"LOCAL_RANK"},
     .world_size = {"WORLD_SIZE"},
     .node = {"GROUP_RANK", "NODE_RANK", "CROSS_RANK"}, /* torchrun; Lightning, accelerate; DeepSpeed */
     .role = "ROLE_NAME",
     .job = {"TORCHELASTIC_RUN_ID"}},
    {.rank = "OMPI_COMM_WORLD_RANK",
     .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
     .world_size = {"OMPI_COMM_WORLD_SIZE"}},
    {.rank = "PMI_RANK", .local_rank = {"PMI_LOCAL_RANK", "MPI_LOCALRANKID"}, .world_size = {"PMI_SIZE"}},
    {.rank = "SLURM_PROCID",
     .local_rank = {"SLURM_LOCALID"},
     .world_size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     .node = {"SLURM_NODEID"},
     .job = {"SLURM_JOB_ID"}},
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

/* The value of a variable and its length; NULL. */
static const char *value_of(const struct mp_environment *environment, const char *name, size_t *length)
{
    size_t wanted = strlen(name);
    const char *at = environment->data, *end = at + environment->size;
    while (at < end) {
        size_t size = strnlen(at, (size_t)(end - at));
        if (size > wanted && at[wanted] == '=' && !memcmp(at, name, wanted)) {
            *length = size - wanted - 1;
            return at + wanted + 1;
        }
        at += size + 1;
    }
    return NULL;
}

/* Accepts only digits, and no number higher than a job can have. */
static bool number_of(const struct mp_environment *environment, const char *name, uint32_t *number)
{
    size_t length;
    const char *text = value_of(environment, name, &length);
    if (!text || !length) return false;
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > NUMBER_MOST) return false;
    }
    *number = (uint32_t)value;
    return true;
}

static void take_number(struct mp_member *member, enum mp_member_number which, const struct mp_environment *environment,
                        const char *const names[NAMES])
{
    uint32_t number;
    for (size_t i = 0; i < NAMES && names[i]; i++)
        if (number_of(environment, names[i], &number)) {
            mp_member_set(member, which, number);
            return;
        }
}

/* The number of outer environments in which the launcher gives the same rank. The fewer, the nearer is the launcher. */
static size_t distance(const struct launcher *launcher, uint32_t rank, const struct mp_environment *outer, size_t count)
{
    uint32_t other;
    size_t same = 0;
    while (same < count && number_of(&outer[same], launcher->rank, &other) && other == rank)
        same++;
    return same;
}

static const struct launcher *nearest(const struct mp_environment *own, const struct mp_environment *outer,
                                      size_t count, uint32_t *rank)
{
    const struct launcher *found = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        uint32_t number;
        if (!number_of(own, launchers[i].rank, &number)) continue;
        size_t apart = distance(&launchers[i], number, outer, count);
        if (apart >= least) continue;
        least = apart;
        found = &launchers[i];
        *rank = number;
    }
    return found;
}

/* True for words without a meaning. */
static bool is_empty_word(const char *text, size_t length)
{
    static const char *const words[] = {"", "default", "none", "None"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (length == strlen(words[i]) && !strncmp(text, words[i], length)) return true;
    return false;
}

static void take_text(char to[MP_MEMBER_TEXT], const struct mp_environment *environment, const char *name)
{
    size_t length;
    const char *text = *to ? NULL : value_of(environment, name, &length);
    if (text && !is_empty_word(text, length)) mp_member_text(to, text, length);
}

/* Drops numbers that contradict the rank. The rank stays, because names are made from it. */
static void drop_contradictions(struct mp_member *member)
{
    uint32_t size = member->number[MP_MEMBER_WORLD_SIZE], known = member->known;
    bool has_size = mp_member_knows(member, MP_MEMBER_WORLD_SIZE);
    if (has_size && (!size || member->number[MP_MEMBER_RANK] >= size)) {
        known &= ~(1u << MP_MEMBER_WORLD_SIZE);
        has_size = false;
    }
    for (enum mp_member_number i = 0; has_size && i < MP_MEMBER_PARENT; i++)
        if ((i == MP_MEMBER_LOCAL_RANK || i == MP_MEMBER_NODE) && member->number[i] >= size) known &= ~(1u << i);
    member->known = known;
}

/* Lightning does not give its processes a rank. It follows from two other numbers: the first node has the first
 * ranks. */
static bool rank_of_first_node(const struct mp_environment *own, uint32_t *rank)
{
    uint32_t node;
    return number_of(own, "NODE_RANK", &node) && !node && number_of(own, "LOCAL_RANK", rank);
}

void mp_membership_of_environment(const struct mp_environment *own, const struct mp_environment *outer, size_t count,
                                  struct mp_member *member)
{
    uint32_t rank;
    *member = (struct mp_member){0};
    const struct launcher *launcher = nearest(own, outer, count, &rank);
    if (!launcher && rank_of_first_node(own, &rank)) launcher = &launchers[0];
    if (launcher) {
        mp_member_set(member, MP_MEMBER_RANK, rank);
        take_number(member, MP_MEMBER_LOCAL_RANK, own, launcher->local_rank);
        take_number(member, MP_MEMBER_WORLD_SIZE, own, launcher->world_size);
        take_number(member, MP_MEMBER_NODE, own, launcher->node);
        if (launcher->role) take_text(member->role, own, launcher->role);
        drop_contradictions(member);
    }
    /* A scheduler's job name counts before a launcher's, which only the launcher knows. */
    for (size_t i = LAUNCHERS; i-- > 0;)
        for (size_t j = 0; j < NAMES && launchers[i].job[j]; j++)
            take_text(member->job, own, launchers[i].job[j]);
}

/* ---- the process --------------------------------------------------------------------------------------------- */

struct mp_environment mp_process_file(uint32_t pid, const char *name, uint64_t most)
{
    char path[64];
    struct mp_environment result = {0};
    size_t room = 0;
    char *data = NULL;
    snprintf(path, sizeof path, "/proc/%u/%s", (unsigned)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && result.size < most) {
        if (result.size == room) {
            char *larger = realloc(data, room ? room * 2 : 4096);
            if (!larger) break;
            data = larger;
            room = room ? room * 2 : 4096;
        }
        ssize_t got = read(fd, data + result.size, room - result.size);
        if (got <= 0) break;
        result.size += (size_t)got;
    }
    if (fd >= 0) close(fd);
    result.data = data;
    return result;
}

void mp_process_file_free(struct mp_environment *file)
{
    free((void *)(uintptr_t)file->data); /* made by mp_process_file() */
    *file = (struct mp_environment){0};
}

/* 0: unknown. The second field, a name, may contain any character. */
uint32_t mp_membership_parent(uint32_t pid)
{
    struct mp_environment stat = mp_process_file(pid, "stat", 4096);
    const char *behind = stat.size ? memrchr(stat.data, ')', stat.size) : NULL;
    char text[64] = "";
    unsigned parent = 0;
    if (behind) snprintf(text, sizeof text, "%.*s", (int)(stat.data + stat.size - behind), behind);
    if (sscanf(text, ") %*c %u", &parent) != 1) parent = 0;
    mp_process_file_free(&stat);
    return parent > 1 ? parent : 0;
}

static bool has(const struct mp_environment *command, const char *text)
{
    return command->size && memmem(command->data, command->size, text, strlen(text));
}

static bool same(const struct mp_environment *a, const struct mp_environment *b)
{
    return a->size && a->size == b->size && !memcmp(a->data, b->data, a->size);
}

/* The role, from the command line with which multiprocessing starts its programs. */
static const char *role_of_command(const struct mp_environment *own, const struct mp_environment *parents)
{
    static const char fork_server[] = "from multiprocessing.forkserver import main";
    if (own->size > 5 && !strncmp(own->data, "ray::", 5)) return MP_ROLE_RAY; /* Ray's own name for the process */
    if (has(own, "from multiprocessing.resource_tracker import main")) return MP_ROLE_TRACKER;
    if (has(own, fork_server)) return has(parents, fork_server) ? MP_ROLE_WORKER : MP_ROLE_FORK_SERVER;
    if (has(own, "from multiprocessing.spawn import spawn_main")) return MP_ROLE_WORKER;
    return NULL;
}

/* True if the thread has the name that newer versions of PyTorch give to a loader's worker. */
static bool is_named_loader(uint32_t pid)
{
    struct mp_environment name = mp_process_file(pid, "comm", 64);
    bool is = has(&name, "pt_data_worker");
    mp_process_file_free(&name);
    return is;
}

/* A launcher may run its own command line again as a rank; only the environment then differs. */
static void read_role(uint32_t pid, uint32_t parent, bool same_environment, struct mp_member *member)
{
    struct mp_environment own = mp_process_file(pid, "cmdline", ENVIRONMENT_MAX), parents = {0};
    if (parent) parents = mp_process_file(parent, "cmdline", ENVIRONMENT_MAX);
    const char *role = is_named_loader(pid) ? MP_ROLE_LOADER_WORKER : role_of_command(&own, &parents);
    if (!role && same_environment && same(&own, &parents)) role = MP_ROLE_FORKED;
    if (role) mp_member_text(member->role, role, strlen(role));
    mp_process_file_free(&own);
    mp_process_file_free(&parents);
}

void mp_membership_read(uint32_t pid, struct mp_member *member)
{
    struct mp_environment own = mp_process_file(pid, "environ", ENVIRONMENT_MAX), outer[PARENTS_MAX] = {{NULL, 0}};
    size_t count = 0;
    uint32_t parent = mp_membership_parent(pid);
    for (uint32_t at = parent; at && count < PARENTS_MAX; at = mp_membership_parent(at)) {
        outer[count] = mp_process_file(at, "environ", ENVIRONMENT_MAX);
        if (!outer[count].size) {
            mp_process_file_free(&outer[count]);
            break;
        }
        count++;
    }
    mp_membership_of_environment(&own, outer, count, member);
    bool same_environment = count && same(&own, &outer[0]);
    while (count)
        mp_process_file_free(&outer[--count]);
    mp_process_file_free(&own);
    if (parent) mp_member_set(member, MP_MEMBER_PARENT, parent);
    read_role(pid, parent, same_environment, member);
}
