#include "collect/session/membership.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

/* An environment of literals: the entries end with "\0" each, but for the last, whose NUL is the literal's own. */
#define ENVIRONMENT(text) ((struct mp_environment){text, sizeof text})
#define NO                -1

struct wanted {
    int64_t number[MP_MEMBER_PARENT]; /* rank, local rank, world size, node */
    const char *role, *job;
};

static void check(const struct mp_member *member, const struct wanted *wanted)
{
    for (enum mp_member_number i = 0; i < MP_MEMBER_PARENT; i++)
        ck_assert_msg((int64_t)mp_member_number(member, i) == wanted->number[i], "%s is %lld and not %lld",
                      mp_member_number_name(i), (long long)mp_member_number(member, i), (long long)wanted->number[i]);
    ck_assert_str_eq(member->role, wanted->role);
    ck_assert_str_eq(member->job, wanted->job);
}

/* The variables are those in each launcher's manual. */
START_TEST(each_launcher_is_understood)
{
    const struct {
        struct mp_environment own;
        struct wanted wanted;
    } cases[] = {
        {ENVIRONMENT("RANK=5\0LOCAL_RANK=1\0WORLD_SIZE=8\0GROUP_RANK=1\0GROUP_WORLD_SIZE=2\0LOCAL_WORLD_SIZE=4\0"
                     "ROLE_NAME=default\0ROLE_RANK=5\0TORCHELASTIC_RUN_ID=none"),
         {{5, 1, 8, 1}, "", ""}}, /* torchrun */
        {ENVIRONMENT("ROLE_NAME=trainer\0RANK=0\0WORLD_SIZE=1\0TORCHELASTIC_RUN_ID=nightly"),
         {{0, NO, 1, NO}, "trainer", "nightly"}},
        {ENVIRONMENT("RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=4\0CROSS_RANK=1\0CROSS_SIZE=2\0LOCAL_SIZE=2"),
         {{3, 1, 4, 1}, "", ""}},                                                         /* DeepSpeed */
        {ENVIRONMENT("LOCAL_RANK=1\0NODE_RANK=0\0WORLD_SIZE=2"), {{1, 1, 2, 0}, "", ""}}, /* Lightning */
        {ENVIRONMENT("LOCAL_RANK=1\0NODE_RANK=1\0WORLD_SIZE=4"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("OMPI_COMM_WORLD_RANK=7\0OMPI_COMM_WORLD_LOCAL_RANK=3\0OMPI_COMM_WORLD_SIZE=8\0"
                     "OMPI_COMM_WORLD_NODE_RANK=3\0PMIX_RANK=7\0PMIX_NAMESPACE=prte@1"),
         {{7, 3, 8, NO}, "", ""}},
        {ENVIRONMENT("PMIX_RANK=2"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("PMI_RANK=2\0PMI_SIZE=3\0MPI_LOCALRANKID=1\0MPI_LOCALNRANKS=2"), {{2, 1, 3, NO}, "", ""}},
        {ENVIRONMENT("SLURM_PROCID=9\0SLURM_LOCALID=1\0SLURM_NTASKS=64\0SLURM_STEP_NUM_TASKS=16\0SLURM_NODEID=4\0"
                     "SLURM_JOB_ID=812\0SLURM_JOB_NAME=train"),
         {{9, 1, 16, 4}, "", "812"}},
        {ENVIRONMENT("SLURM_PROCID=9\0SLURM_NTASKS=64"), {{9, NO, 64, NO}, "", ""}},
        {ENVIRONMENT("XRANK=3\0RANKS=4\0HOME=/root"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT(""), {{NO, NO, NO, NO}, "", ""}},
        {{NULL, 0}, {{NO, NO, NO, NO}, "", ""}},
    };
    struct mp_member member;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_membership_of_environment(&cases[i].own, NULL, 0, &member);
        check(&member, &cases[i].wanted);
    }
}

START_TEST(variables_that_lie)
{
    const struct {
        struct mp_environment own;
        struct wanted wanted;
    } cases[] = {
        {ENVIRONMENT("RANK=-1\0WORLD_SIZE=4"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK="), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=../../etc/x"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=3 "), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=0x3"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=99999999999999999999999999"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=4294967295"), {{NO, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=999999999\0WORLD_SIZE=1000000000"), {{999999999, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=007"), {{7, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=many\0PMI_RANK=2"), {{2, NO, NO, NO}, "", ""}},
        /* Values that contradict each other: a world that is not larger than the rank, and local ranks and nodes beyond
         * the world. */
        {ENVIRONMENT("RANK=4\0WORLD_SIZE=4\0LOCAL_RANK=1"), {{4, 1, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=0\0WORLD_SIZE=0"), {{0, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=1\0WORLD_SIZE=2\0LOCAL_RANK=2\0GROUP_RANK=7"), {{1, NO, 2, NO}, "", ""}},
        {ENVIRONMENT("RANK=1\0WORLD_SIZE=two\0LOCAL_RANK=-1\0GROUP_RANK=0"), {{1, NO, NO, 0}, "", ""}},
        /* Names are stored without control characters, cut to the room, and never within a character. */
        {ENVIRONMENT("RANK=1\0ROLE_NAME=a\033[2Jb\nc\302\200\377\342\200\256d"), {{1, NO, NO, NO}, "a?[2Jb?c???d", ""}},
        {ENVIRONMENT("RANK=1\0ROLE_NAME=\0TORCHELASTIC_RUN_ID="), {{1, NO, NO, NO}, "", ""}},
        {ENVIRONMENT("RANK=1\0ROLE_NAME="
                     "0123456789012345678901234567890123456789012345678901234567890\303\251\303\251"),
         {{1, NO, NO, NO}, "0123456789012345678901234567890123456789012345678901234567890\303\251", ""}},
        /* If a variable is there twice, the first one is used, as by getenv(). */
        {ENVIRONMENT("RANK=1\0RANK=2"), {{1, NO, NO, NO}, "", ""}},
    };
    struct mp_member member;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_membership_of_environment(&cases[i].own, NULL, 0, &member);
        check(&member, &cases[i].wanted);
    }
    /* Cut off in the middle, as a large one is. */
    const struct mp_environment cut = {"RANK=1\0WORLD_SIZE=2", strlen("RANK=1") + 1 + strlen("WORLD_S")};
    mp_membership_of_environment(&cut, NULL, 0, &member);
    check(&member, &(struct wanted){{1, NO, NO, NO}, "", ""});
}

/* Nested launchers: the launcher counts whose rank the parent processes do not have. */
START_TEST(the_nearest_launcher_counts)
{
    const struct mp_environment outermost = ENVIRONMENT("SLURM_JOB_ID=5"), script = ENVIRONMENT("SLURM_PROCID=0"),
                                torchrun = ENVIRONMENT("SLURM_PROCID=0\0RANK=1\0WORLD_SIZE=2"),
                                mpi = ENVIRONMENT("SLURM_PROCID=0\0RANK=1\0WORLD_SIZE=2\0OMPI_COMM_WORLD_RANK=3\0"
                                                  "OMPI_COMM_WORLD_SIZE=4\0SLURM_JOB_ID=5");
    struct mp_member member;
    mp_membership_of_environment(&mpi, (struct mp_environment[]){torchrun, script, outermost}, 3, &member);
    check(&member, &(struct wanted){{3, NO, 4, NO}, "", "5"});
    /* A child has all variables of its parent: one process more. */
    mp_membership_of_environment(&mpi, (struct mp_environment[]){mpi, torchrun, script, outermost}, 4, &member);
    check(&member, &(struct wanted){{3, NO, 4, NO}, "", "5"});
    /* The other way around. */
    const struct mp_environment outer = ENVIRONMENT("OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=4");
    mp_membership_of_environment(&mpi, (struct mp_environment[]){outer}, 1, &member);
    check(&member, &(struct wanted){{1, NO, 2, NO}, "", "5"});
    /* The child's rank differs from the parent's, so its launcher set the rank again. */
    const struct mp_environment other = ENVIRONMENT("RANK=1\0PMI_RANK=6");
    mp_membership_of_environment(&(struct mp_environment)ENVIRONMENT("RANK=1\0PMI_RANK=0"),
                                 (struct mp_environment[]){other}, 1, &member);
    check(&member, &(struct wanted){{0, NO, NO, NO}, "", ""});
}

/* A process that waits, with an environment and arguments. */
struct process {
    pid_t pid;
    int hold;
};

static struct process begin(char *const *environment, char *const *arguments)
{
    int ready[2], hold[2];
    ck_assert(!pipe(ready) && !pipe(hold));
    pid_t pid = fork();
    if (!pid) {
        dup2(ready[1], STDOUT_FILENO);
        dup2(hold[0], STDIN_FILENO);
        close(hold[1]);
        if (arguments) {
            execve("/bin/sh", arguments, environment);
            _exit(1);
        }
        prctl(PR_SET_NAME, "pt_data_worker");
        char byte = '\n';
        byte = (char)(write(STDOUT_FILENO, &byte, 1) + read(STDIN_FILENO, &byte, 1));
        _exit(byte == 2);
    }
    char byte;
    close(ready[1]);
    close(hold[0]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return (struct process){pid, hold[1]};
}

static void end(const struct process *process)
{
    close(process->hold);
    waitpid(process->pid, NULL, 0);
}

#define WAITS "echo; read line"

START_TEST(processes_are_read)
{
    static char rank[] = "RANK=3", size[] = "WORLD_SIZE=4", shell[] = "sh", option[] = "-c", waits[] = WAITS,
                spawned[] = "from multiprocessing.spawn import spawn_main; spawn_main()",
                tracker[] = "from multiprocessing.resource_tracker import main;main(5)",
                server[] = "from multiprocessing.forkserver import main; main(3, 4)";
    char *const environment[] = {rank, size, NULL};
    const struct {
        char *own;
        const char *role;
    } cases[] = {{NULL, ""}, {spawned, "worker"}, {tracker, "resource tracker"}, {server, "fork server"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *const arguments[] = {shell, option, waits, cases[i].own, NULL};
        struct process process = begin(environment, arguments);
        struct mp_member member;
        mp_membership_read((uint32_t)process.pid, &member);
        check(&member, &(struct wanted){{3, NO, 4, NO}, cases[i].role, ""});
        ck_assert_uint_eq(mp_member_number(&member, MP_MEMBER_PARENT), (uint64_t)getpid());
        ck_assert_int_eq(mp_member_is_helper(&member), *cases[i].role != '\0');
        end(&process);
    }
    struct process child = begin(NULL, NULL);
    struct mp_member member;
    mp_membership_read((uint32_t)child.pid, &member);
    ck_assert_str_eq(member.role, "loader worker");
    end(&child);
    /* Nobody. */
    mp_membership_read((uint32_t)child.pid, &member);
    check(&member, &(struct wanted){{NO, NO, NO, NO}, "", ""});
    ck_assert_uint_eq(member.known, 0);
}

/* The shim marks the rank in the default process group. It counts for a helper, and where no launcher gave a rank. */
START_TEST(a_process_group_gives_a_rank)
{
    static const char mark[] = "torch.distributed: rank 2 of 4";
    static const struct {
        struct mp_environment own;
        const char *role, *mark;
        struct wanted wanted;
    } cases[] = {
        {ENVIRONMENT(""), MP_ROLE_WORKER, mark, {{2, NO, 4, NO}, "", ""}},
        {ENVIRONMENT("SLURM_PROCID=0\0SLURM_NTASKS=1\0SLURM_JOB_ID=812"),
         MP_ROLE_WORKER,
         mark,
         {{2, NO, 4, NO}, "", "812"}},
        {ENVIRONMENT(""), "", mark, {{2, NO, 4, NO}, "", ""}},
        {ENVIRONMENT("RANK=5\0WORLD_SIZE=8"), "", mark, {{5, NO, 8, NO}, "", ""}},
        {ENVIRONMENT(""), MP_ROLE_WORKER, "torch.distributed: rank 4 of 4", {{NO, NO, NO, NO}, MP_ROLE_WORKER, ""}},
        {ENVIRONMENT(""), MP_ROLE_WORKER, "rank 2 of 4", {{NO, NO, NO, NO}, MP_ROLE_WORKER, ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mp_member member;
        mp_membership_of_environment(&cases[i].own, NULL, 0, &member);
        mp_member_text(member.role, cases[i].role, strlen(cases[i].role));
        mp_member_set(&member, MP_MEMBER_PARENT, 7);
        bool before = mp_member_is_helper(&member) || !mp_member_knows(&member, MP_MEMBER_RANK);
        ck_assert_int_eq(mp_member_take_mark(&member, cases[i].mark), before && cases[i].mark == mark);
        check(&member, &cases[i].wanted);
        ck_assert_uint_eq(mp_member_number(&member, MP_MEMBER_PARENT), 7);
        ck_assert(!mp_member_take_mark(&member, "torch.distributed: rank 0 of 1") || cases[i].mark != mark);
    }
}

MP_SUITE("membership", a_process_group_gives_a_rank, each_launcher_is_understood, variables_that_lie,
         the_nearest_launcher_counts, processes_are_read)
