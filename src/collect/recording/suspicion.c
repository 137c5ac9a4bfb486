#include "collect/recording/suspicion.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/leaks/leaks.h"
#include "base/memory.h"
#include "collect/recording/live_file.h"
#include "model/load.h"
#include "model/model.h"

/* ---- in a child, whose data is all a copy ---------------------------------------------------------------------- */

struct mp_suspects {
    uint32_t stacks[MP_SUSPECTS], count;
};

struct judging {
    char path[64];
    struct mp_suspects *suspects;
};

static void judge_blocks(void *context)
{
    struct judging *judging = context;
    struct mp_model *model;
    struct mp_error error;
    struct mp_leaks leaks;
    struct mp_leaks_query query = {.track = MP_TRACK_NONE};
    if (mp_model_load(judging->path, &model, &error)) return;
    query.window = mp_window_all(model);
    if (mp_leaks_find(model, &query, &leaks, &error)) return;
    struct mp_suspects *to = judging->suspects;
    for (uint32_t i = 0; i < leaks.leaks && to->count < MP_SUSPECTS; i++)
        to->stacks[to->count++] = leaks.findings.at[i].stack;
}

static _Noreturn void run_child(struct mp_recording *recording, struct mp_suspects *suspects)
{
    struct mp_error error;
    struct judging judging = {.suspects = suspects};
    int fd = memfd_create("memprof-live", MFD_CLOEXEC), copy = fd < 0 ? -1 : dup(fd);
    recording->symbols = NULL; /* names are not needed */
    snprintf(judging.path, sizeof judging.path, "/proc/self/fd/%d", fd);
    if (copy >= 0 && !mp_live_file_write(recording, copy, &error)) (void)mp_memory_try(judge_blocks, &judging);
    _exit(0);
}

/* ---- in the collector ------------------------------------------------------------------------------------------- */

static void start_judging(struct mp_suspicion *suspicion, struct mp_recording *recording)
{
    if (!suspicion->shared) {
        void *shared = mmap(NULL, sizeof *suspicion->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        suspicion->shared = shared == MAP_FAILED ? NULL : shared;
    }
    if (!suspicion->shared) return;
    suspicion->shared->count = 0;
    pid_t child = fork();
    if (!child) run_child(recording, suspicion->shared);
    suspicion->child = child > 0 ? child : 0;
}

/* A file of live blocks has the recording's own ids of stacks. */
static bool accuses_more(struct mp_suspicion *suspicion)
{
    uint32_t before = suspicion->count;
    for (uint32_t i = 0; i < suspicion->shared->count && suspicion->count < MP_SUSPECTS; i++) {
        uint32_t stack = suspicion->shared->stacks[i];
        uint32_t known = 0;
        while (known < suspicion->count && suspicion->known[known] != stack)
            known++;
        if (known == suspicion->count) suspicion->known[suspicion->count++] = stack;
    }
    return suspicion->count > before;
}

bool mp_suspicion_round(struct mp_suspicion *suspicion, struct mp_recording *recording)
{
    uint32_t steps = recording->lives.steps;
    if (!recording->config.holders || recording->file.failed) return false;
    if (suspicion->child) {
        if (!waitpid(suspicion->child, NULL, WNOHANG)) return false;
        suspicion->child = 0;
        return accuses_more(suspicion);
    }
    if (steps < MP_LEAK_STEPS || steps < suspicion->next_step || !recording->file.writer) return false;
    suspicion->next_step = steps + steps / 2;
    start_judging(suspicion, recording);
    return false;
}

void mp_suspicion_free(struct mp_suspicion *suspicion)
{
    if (suspicion->child) {
        kill(suspicion->child, SIGKILL);
        waitpid(suspicion->child, NULL, 0);
    }
    if (suspicion->shared) munmap(suspicion->shared, sizeof *suspicion->shared);
}
