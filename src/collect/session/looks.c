#include "collect/session/looks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/session/control.h"

#define BEGINS_WITHIN_NS (3 * MP_NS_PER_SECOND)
/* Time beyond the budget, because the budget counts only the thread's own time. */
#define ENDS_WITHIN_NS  (3 * MP_NS_PER_SECOND)
#define LOOKS_AT_ONCE   16                      /* most requested looks, each with a file and a connection */
#define WALL            25                      /* the same number as in python/libmemprof_torch/holders.py */
#define LOOKS_WITHIN_NS (20 * MP_NS_PER_SECOND) /* with both times above, less than the client's wait in control.c */

static void withdraw(struct mp_recording *recording, uint32_t number)
{
    struct mp_spool_look *look = &recording->spool.header->look;
    if (atomic_load(&look->asked) == number) atomic_store(&look->asked, 0);
}

/* A file's identity in /proc/PID/maps, which on some file systems differs from stat()'s. */
struct mapped_file {
    unsigned major, minor;
    unsigned long long inode;
};

/* Searches a process's mappings. With an address `at`, sets `file` to the file mapped there. Without one, says whether
 * `file` is mapped at all. */
static bool find_mapping(uint32_t pid, const void *at, struct mapped_file *file)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    FILE *list = fopen(path, "re");
    while (list && !found && getline(&line, &room, list) > 0) {
        unsigned long long from, to;
        struct mapped_file here;
        if (sscanf(line, "%llx-%llx %*s %*s %x:%x %llu", &from, &to, &here.major, &here.minor, &here.inode) != 5)
            continue;
        if (at)
            found = (uintptr_t)at >= from && (uintptr_t)at < to;
        else
            found = here.inode == file->inode && here.major == file->major && here.minor == file->minor;
        if (found) *file = here;
    }
    free(line);
    if (list) fclose(list);
    return found;
}

/* Sends the signal only to a process that maps the spool: the pid may have been reused, or exec() may have replaced the
 * program. */
static void wake(const struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    struct mapped_file file;
    if (!atomic_load(&spool->look_wakes)) return;
    int process = (int)syscall(SYS_pidfd_open, recording->pid, 0);
    if (process >= 0 && find_mapping((uint32_t)getpid(), spool, &file) && find_mapping(recording->pid, NULL, &file))
        syscall(SYS_pidfd_send_signal, process, SIGURG, NULL, 0);
    if (process >= 0) close(process);
}

static size_t count_asked(const struct mp_looks *looks)
{
    size_t asked = 0;
    for (size_t i = 0; i < looks->wished.count; i++)
        asked += looks->wished.at[i].connection >= 0;
    return asked;
}

enum mp_status mp_looks_ask(struct mp_looks *looks, struct mp_recording *recording, struct mp_wished_look wish,
                            struct mp_error *error)
{
    struct mp_spool_header *spool = recording->spool.header;
    enum mp_status status = MP_OK;
    if (!(atomic_load(&spool->sources) & MP_SOURCE_SHIM))
        status = mp_fail(error, MP_NOT_FOUND,
                         "process %u cannot look for what holds its tensors: it has none of PyTorch's yet, or was "
                         "recorded with --no-shim",
                         recording->pid);
    else if (wish.connection >= 0 && count_asked(looks) >= LOOKS_AT_ONCE)
        status = mp_fail(error, MP_BUSY, "memprof has %d programs look already; ask again in a while", LOOKS_AT_ONCE);
    wish.recording = recording->id;
    wish.number = ++looks->last_number ? looks->last_number : ++looks->last_number;
    wish.asked_ns = mp_clock_monotonic_ns();
    wish.began_ns = 0;
    if (!status && !mp_vec_push(&looks->wished, wish))
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for a look");
    if (status) {
        if (wish.file >= 0) close(wish.file);
        if (wish.connection >= 0) close(wish.connection);
        return status;
    }
    atomic_store(&spool->look.budget_ms, wish.budget_ms | (wish.may_be_short ? MP_HOLDERS_SHORT : 0));
    atomic_store(&spool->look.asked, wish.number);
    if (recording->config.holders) wake(recording);
    return MP_OK;
}

/* True if a later request of the same program has replaced this one: one look answers both. */
static bool has(uint32_t word, const struct mp_wished_look *wish)
{
    return word && (int32_t)(word - wish->number) >= 0;
}

/* Says why the look will not come; false: it still may. */
static bool is_given_up(const struct mp_wished_look *wish, uint32_t pid, bool ended, struct mp_error *why)
{
    uint64_t now = mp_clock_monotonic_ns();
    uint64_t wall = wish->budget_ms * MP_NS_PER_MS * WALL;
    uint64_t most = (wall < LOOKS_WITHIN_NS ? wall : LOOKS_WITHIN_NS) + ENDS_WITHIN_NS;
    if (ended) {
        mp_fail(why, MP_NOT_FOUND, "process %u ended before it looked; its recording says what held what at the end",
                pid);
        return true;
    }
    if (!wish->began_ns && now - wish->asked_ns >= BEGINS_WITHIN_NS)
        mp_fail(why, MP_NOT_FOUND,
                "process %u did not answer within %u s: its main thread is in native code, or allocates no tensors "
                "(snapshot --holders wakes it then)",
                pid, (unsigned)(BEGINS_WITHIN_NS / MP_NS_PER_SECOND));
    else if (wish->began_ns && now - wish->began_ns >= most)
        mp_fail(why, MP_NOT_FOUND, "process %u began to look and did not come to an end within %u s", pid,
                (unsigned)(most / MP_NS_PER_SECOND));
    else
        return false;
    return true;
}

static void come_to_an_end(struct mp_snapshots *snapshots, struct mp_recording *recording,
                           const struct mp_wished_look *wish, const struct mp_error *why)
{
    struct mp_error error;
    enum mp_status status = why->status;
    error = *why;
    if (wish->then_snapshot) {
        struct mp_snapshot_request request = {0};
        /* The look's rows may have come after the previous round. */
        if (!recording->ended) mp_recording_round(recording, false);
        (void)mp_vec_push(&recording->ooms.requests, request);
    }
    if (wish->connection < 0) return;
    if (!status) {
        int copy = dup(wish->connection);
        status = mp_snapshots_start_for(snapshots, recording, MP_SNAPSHOT_OF_ALL, wish->file, wish->connection, &error);
        if (status && copy >= 0) mp_control_answer(copy, status, recording->pid, &error);
        if (copy >= 0) close(copy);
        return;
    }
    mp_control_answer(wish->connection, status, recording->pid, &error);
    close(wish->file);
    close(wish->connection);
}

void mp_looks_serve(struct mp_looks *looks, struct mp_snapshots *snapshots, struct mp_recording *recording, bool ended)
{
    const struct mp_spool_header *spool = recording->spool.header;
    uint32_t begun = atomic_load(&spool->look_begun), done = atomic_load(&spool->look_ended);
    for (size_t i = looks->wished.count; i-- > 0;) {
        struct mp_wished_look *wish = &looks->wished.at[i];
        struct mp_error why = {.status = MP_OK};
        if (wish->recording != recording->id) continue;
        if (!wish->began_ns && has(begun, wish)) wish->began_ns = mp_clock_monotonic_ns();
        if (!has(done, wish) && !is_given_up(wish, recording->pid, ended, &why)) continue;
        struct mp_wished_look over = *wish;
        looks->wished.at[i] = looks->wished.at[--looks->wished.count];
        withdraw(recording, over.number);
        come_to_an_end(snapshots, recording, &over, &why);
    }
}

void mp_looks_free(struct mp_looks *looks)
{
    for (size_t i = 0; i < looks->wished.count; i++) {
        if (looks->wished.at[i].file >= 0) close(looks->wished.at[i].file);
        if (looks->wished.at[i].connection >= 0) close(looks->wished.at[i].connection);
    }
    mp_vec_free(&looks->wished);
}
