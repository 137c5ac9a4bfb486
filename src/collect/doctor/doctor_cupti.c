/* Checks CUPTI as the recorder would find it: the library, its version, and whether another tool holds it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/doctor/doctor_cupti.h"

/* The results of CUPTI (CUptiResult) that describe the machine. */
enum {
    CUPTI_DONE = 0,
    CUPTI_NOT_INITIALIZED = 15,
    CUPTI_VIRTUALIZED = 33,
    CUPTI_LEGACY = 38,
    CUPTI_BUSY = 39,
    CUPTI_CONFIDENTIAL = 41,
    CUPTI_UNKNOWN = 999
};
#define PATH_ROOM    2000 /* longest path in an answer */
#define CUPTI_OLDEST 15   /* CUDA 11.2: the first version with the needed records */

/* The parameters of cuptiSubscribe_v2 (CUPTI 13.0 and later). */
struct subscriber_parameters {
    size_t bytes;
    const char *name;
    char *holder;
    size_t holder_bytes;
    uint8_t more[96];
};

static void ignore_callback(void *data, int domain, uint32_t number, const void *call)
{
    (void)data, (void)domain, (void)number, (void)call;
}

/* Writes "PATH\nVERSION\nRESULT\nHOLDER". */
static void try_cupti(FILE *out, const void *path)
{
    int (*version_of)(uint32_t *), (*subscribe)(void **, void (*)(void *, int, uint32_t, const void *), void *),
        (*subscribe_named)(void **, void (*)(void *, int, uint32_t, const void *), void *, void *);
    uint32_t version = 0;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *subscriber, *symbol;
    char holder[64] = "", real[PATH_MAX];
    Dl_info info;
    if (!library) return;
#define FIND(function, name)                                                                                           \
    symbol = dlsym(library, name);                                                                                     \
    memcpy(&(function), &symbol, sizeof symbol)
    FIND(version_of, "cuptiGetVersion");
    const char *where = symbol && dladdr(symbol, &info) ? info.dli_fname : path;
    if (!version_of || version_of(&version)) return;
    if (!realpath(where, real)) snprintf(real, sizeof real, "%s", where);
    fprintf(out, "%.*s\n%u\n", PATH_ROOM, real, version); /* written now, since the next calls may crash */
    FIND(subscribe_named, "cuptiSubscribe_v2");
    FIND(subscribe, "cuptiSubscribe");
#undef FIND
    int result = CUPTI_UNKNOWN;
    (void)dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL); /* programs that use CUPTI have loaded it */
    struct subscriber_parameters parameters = {
        offsetof(struct subscriber_parameters, more), "memprof doctor", holder, sizeof holder, {0}};
    if (subscribe_named)
        result = subscribe_named(&subscriber, ignore_callback, NULL, &parameters);
    else if (subscribe)
        result = subscribe(&subscriber, ignore_callback, NULL);
    holder[sizeof holder - 1] = '\0';
    fprintf(out, "%d\n%s", result, holder);
}

/* The candidates in the order of the recorder's own search, without those that come from the program's libraries. */
static bool candidate(unsigned number, const char *site, char path[PATH_MAX])
{
    static const struct {
        const char *variable; /* "": the folder of torch's packages; NULL: an absolute path */
        const char *path;
    } candidates[] = {{"MEMPROF_CUPTI", ""},
                      {"CUDA_HOME", "/extras/CUPTI/lib64/libcupti.so"},
                      {"CUDA_HOME", "/lib64/libcupti.so"},
                      {"CUDA_PATH", "/extras/CUPTI/lib64/libcupti.so"},
                      {"CUDA_PATH", "/lib64/libcupti.so"},
                      {"", "/nvidia/cu13/lib/libcupti.so.13"},
                      {"", "/nvidia/cuda_cupti/lib/libcupti.so.12"},
                      {"", "/nvidia/cuda_cupti/lib/libcupti.so.11.8"},
                      {NULL, "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"},
                      {NULL, "/usr/local/cuda/lib64/libcupti.so"},
                      {NULL, "libcupti.so.13"},
                      {NULL, "libcupti.so.12"},
                      {NULL, "libcupti.so.11.8"},
                      {NULL, "libcupti.so"}};
    *path = '\0';
    if (number >= sizeof candidates / sizeof *candidates) return false;
    const char *variable = candidates[number].variable, *root = "";
    if (variable) root = *variable ? getenv(variable) : site;
    if (variable && (!root || !*root)) return true; /* an empty path: try the next one */
    snprintf(path, PATH_MAX, "%s%s", root, candidates[number].path);
    if (*path == '/' && access(path, R_OK)) *path = '\0';
    return true;
}

/* The meaning of a result of subscribing; NULL: all is well. */
static const char *meaning_of(int result, const char *holder, char room[160])
{
    static const struct {
        int result;
        const char *advice;
    } meanings[] = {
        {CUPTI_NOT_INITIALIZED,
         "it is newer than the driver: memprof records through driver hooks. Update the driver, or "
         "name an older CUPTI in MEMPROF_CUPTI"},
        {CUPTI_VIRTUALIZED, "it does not work on this virtual GPU: memprof records through driver hooks"},
        {CUPTI_LEGACY, "another profiler of an older kind is active: memprof records through driver hooks"},
        {CUPTI_CONFIDENTIAL, "it does not work in confidential computing: memprof records through driver hooks"},
        {CUPTI_UNKNOWN, "it finds no driver: nothing of CUDA's can be recorded here"},
        {CUPTI_DONE, NULL}};
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].result == result) return meanings[i].advice;
    if (result == CUPTI_BUSY)
        snprintf(room, 160, "held by %s: memprof records through driver hooks; end that tool to record with CUPTI",
                 *holder ? holder : "another tool");
    else
        snprintf(room, 160, "it does not start (error %d): memprof records through driver hooks", result);
    return room;
}

static void version_text(unsigned version, char text[32])
{
    if (version >= 100000)
        snprintf(text, 32, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(text, 32, "API %u", version);
}

void mp_doctor_cupti(struct mp_checks *checks, const char *site)
{
    char path[PATH_MAX], answer[MP_ANSWER_ROOM], text[32], room[160];
    for (unsigned i = 0; candidate(i, site, path); i++) {
        if (!*path) continue;
        bool whole = mp_doctor_ask(try_cupti, path, answer);
        char *rest = answer, *where = strsep(&rest, "\n");
        unsigned version = rest ? (unsigned)strtoul(strsep(&rest, "\n"), NULL, 10) : 0;
        int result = whole && rest ? atoi(strsep(&rest, "\n")) : -1;
        if (!*where || version < CUPTI_OLDEST) continue;
        version_text(version, text);
        const char *advice = meaning_of(result, rest ? rest : "", room);
        mp_doctor_add(checks, "CUPTI", advice ? MP_CHECK_LIMITED : MP_CHECK_OK, advice, "%s, %s", text, where);
        return;
    }
    mp_doctor_add(checks, "CUPTI", MP_CHECK_ABSENT,
                  "CUDA's allocations are recorded through driver hooks: without module variables and pool sizes. It "
                  "comes with the CUDA toolkit and with PyTorch's wheels; MEMPROF_CUPTI names one",
                  "not found");
}
