#include "capture/cuda/cupti_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 1024

struct mp_cupti mp_cupti;

/* ---- where libcupti may be --------------------------------------------------------------------------------------- */

/* Searches for the first mapped file whose path contains `part`. `cut`: return the path only up to `part`. */
struct search {
    const char *part;
    bool cut;
    char *path; /* PATH_ROOM */
};

static int look_at_object(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    struct search *search = context;
    const char *part = info->dlpi_name ? strstr(info->dlpi_name, search->part) : NULL;
    size_t length = part ? search->cut ? (size_t)(part - info->dlpi_name) : strlen(info->dlpi_name) : 0;
    if (!length || length >= PATH_ROOM) return 0;
    memcpy(search->path, info->dlpi_name, length);
    search->path[length] = '\0';
    return 1;
}

static bool find_mapped(const char *part, bool cut, char *path)
{
    struct search search = {.part = part, .cut = cut, .path = path};
    return dl_iterate_phdr(look_at_object, &search);
}

static const char *const names[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8", "libcupti.so.11.7",
                                    "libcupti.so.11.6", "libcupti.so.11.5", "libcupti.so.11.4", "libcupti.so.11.3",
                                    "libcupti.so.11.2", "libcupti.so"};
#define NAMES (sizeof names / sizeof *names)

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* With the stand-in of the driver (src/softgpu), only the stand-in of CUPTI may be called: NVIDIA's CUPTI would recurse
 * until the stack overflows. */
static bool fits_driver(void *library)
{
    return !dlsym(RTLD_DEFAULT, "softgpu_live") || dlsym(library, "softcupti_version");
}

static bool look_up(void *library)
{
    if (!fits_driver(library)) return false;
    struct mp_cupti found = {0};
    void *at;
    bool whole = true;
#define MP_CUPTI_FUNCTION(name, needed, arguments)                                                                     \
    at = dlsym(library, #name);                                                                                        \
    memcpy(&found.name, &at, sizeof at);                                                                               \
    whole &= at || !needed;
    MP_CUPTI_FUNCTIONS(MP_CUPTI_FUNCTION)
#undef MP_CUPTI_FUNCTION
    uint32_t version = 0;
    if (!whole || found.cuptiGetVersion(&version) || version < MP_CUPTI_VERSION_FIRST) return false;
    mp_cupti = found;
    mp_cupti.version = version;
    return true;
}

/* The function that tries the candidates. */
struct trial {
    bool (*use)(void *context);
    void *context;
};

static bool try_path(const char *path, const struct trial *trial)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) return false;
    if (look_up(library) && trial->use(trial->context)) return true;
    mp_cupti.version = 0;
    dlclose(library);
    return false;
}

static bool try_joined(const char *folder, size_t length, const char *rest, const struct trial *trial)
{
    char path[PATH_ROOM];
    int used = snprintf(path, sizeof path, "%.*s%s%s", (int)length, folder, length ? "/" : "", rest);
    return used > 0 && used < PATH_ROOM && try_path(path, trial);
}

static bool try_folders(const char *list, const struct trial *trial)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");
        for (size_t i = 0; length && i < NAMES; i++)
            if (try_joined(list, length, names[i], trial)) return true;
        list += length + (list[length] == ':');
    }
    return false;
}

static bool try_toolkit(const char *folder, const struct trial *trial)
{
    if (!folder || !*folder) return false;
    return try_joined(folder, strlen(folder), "extras/CUPTI/lib64/libcupti.so", trial) ||
           try_joined(folder, strlen(folder), "lib64/libcupti.so", trial);
}

/* NVIDIA's Python packages are installed next to each other. The path of a mapped library shows the folder. */
static bool try_packages(const char *mapped, const struct trial *trial)
{
    static const char *const places[] = {"nvidia/cu13/lib/libcupti.so.13", "nvidia/cuda_cupti/lib/libcupti.so.12",
                                         "nvidia/cuda_cupti/lib/libcupti.so.11.8"};
    char folder[PATH_ROOM];
    if (!find_mapped(mapped, true, folder)) return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (try_joined(folder, strlen(folder), places[i], trial)) return true;
    return false;
}

bool mp_cupti_find(bool (*use)(void *context), void *context)
{
    struct trial trial = {use, context};
    const char *own = secure_getenv("MEMPROF_CUPTI");
    char mapped[PATH_ROOM];
    /* If a libcupti is mapped, use no other: two CUPTIs would be two clients of one driver. */
    if (find_mapped("/libcupti.so", false, mapped)) return try_path(mapped, &trial);
    if (own && *own) return try_path(own, &trial);
    if (try_folders(secure_getenv("LD_LIBRARY_PATH"), &trial) || try_toolkit(secure_getenv("CUDA_HOME"), &trial) ||
        try_toolkit(secure_getenv("CUDA_PATH"), &trial) || try_packages("/nvidia/", &trial) ||
        try_packages("/torch/lib/", &trial) || try_toolkit("/usr/local/cuda", &trial))
        return true;
    for (size_t i = 0; i < NAMES; i++)
        if (try_path(names[i], &trial)) return true;
    return false;
}
