/* A recorder that only writes down its calls, one line each, for test_libmemprof.py to read with fake_log(). */
#include <stdio.h>
#include <string.h>

#include "memprof.h"

static char log_text[1 << 16];
static int recording = 1;

static void note(const char *what, const char *name)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s%s%s\n", what, name ? " " : "", name ? name : "");
}

static int fake_active(void)
{
    return recording;
}

static void fake_start(void)
{
    recording = 1;
    note("start", NULL);
}

static void fake_stop(void)
{
    recording = 0;
    note("stop", NULL);
}

static void fake_step(void)
{
    note("step", NULL);
}

static void fake_push(const char *name)
{
    note("push", name);
}

static void fake_pop(void)
{
    note("pop", NULL);
}

static void fake_mark(const char *name)
{
    note("mark", name);
}

static uint32_t fake_pool(const char *name, int device)
{
    note("pool", name);
    return 1;
}

static void fake_alloc(uint32_t pool, const void *ptr, size_t bytes)
{
    note("alloc", NULL);
}

static void fake_free(uint32_t pool, const void *ptr)
{
    note("free", NULL);
}

static int fake_snapshot(const char *path)
{
    note("snapshot", path ? path : "(default)");
    return path && strstr(path, "refused") ? -1 : 0;
}

static int fake_stats(const char *track, struct memprof_stats *stats)
{
    note("stats", track ? track : "(default)");
    if (track && !strcmp(track, "unknown")) return -1;
    *stats = (struct memprof_stats){UINT64_C(1) << 40, UINT64_C(3) << 40, 7};
    return 0;
}

static void fake_reset_peak(const char *track)
{
    note("reset_peak", track ? track : "(default)");
}

static int fake_release_cupti(void)
{
    static int held = 1;
    note("release_cupti", NULL);
    return held-- == 1 ? 0 : -1;
}

static const struct memprof_api_v1 api = {
    .size = sizeof api,
    .active = fake_active,
    .start = fake_start,
    .stop = fake_stop,
    .step = fake_step,
    .region_push = fake_push,
    .region_pop = fake_pop,
    .mark = fake_mark,
    .pool = fake_pool,
    .alloc = fake_alloc,
    .free = fake_free,
    .snapshot = fake_snapshot,
    .stats = fake_stats,
    .reset_peak = fake_reset_peak,
    .release_cupti = fake_release_cupti,
};

const struct memprof_api_v1 *memprof_api_v1(void);
const struct memprof_api_v1 *memprof_api_v1(void)
{
    return &api;
}

const char *fake_log(void);
const char *fake_log(void)
{
    return log_text;
}

void fake_clear(void);
void fake_clear(void)
{
    *log_text = 0;
}
