/* A kernel is known by the function that a runtime registered, or by the handle of its module. */
#include "softgpu/driver/kernel_code.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/profile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNTIMES 4 /* number of runtimes that register kernels: one of each major version */

static softgpu_find_image *runtimes[RUNTIMES];
static struct {
    struct soft_kernel *at;
    size_t count, room;
} kernels;

EXPORTED void softgpu_offer_images(softgpu_find_image *find)
{
    pthread_mutex_lock(&soft_lock);
    for (size_t i = 0; i < RUNTIMES; i++) {
        if (runtimes[i]) continue;
        runtimes[i] = find;
        break;
    }
    pthread_mutex_unlock(&soft_lock);
}

static struct soft_kernel *slot_of(struct soft_kernel *at, size_t room, const void *function)
{
    size_t i = (size_t)(((uintptr_t)function * 0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (at[i].function && at[i].function != function)
        i = (i + 1) & (room - 1);
    return &at[i];
}

static struct soft_kernel *find_kernel(const void *function)
{
    if (2 * kernels.count >= kernels.room) {
        size_t room = kernels.room ? 2 * kernels.room : 1024;
        struct soft_kernel *larger = calloc(room, sizeof *larger);
        if (!larger) abort();
        for (size_t i = 0; i < kernels.room; i++)
            if (kernels.at[i].function) *slot_of(larger, room, kernels.at[i].function) = kernels.at[i];
        free(kernels.at);
        kernels.at = larger;
        kernels.room = room;
    }
    struct soft_kernel *found = slot_of(kernels.at, kernels.room, function);
    kernels.count += !found->function;
    found->function = function;
    return found;
}

/* The devices for which PyTorch's wheels on PyPI have code, by major version (pytorch/pytorch#182250, #157517). */
static const struct {
    int major;
    const char *which, *version;
} builds[] = {
    {5, "last", "2.7.1"}, {6, "last", "2.7.1"}, {7, "last", "2.10.0"}, {10, "first", "2.8.0"}, {12, "first", "2.8.0"}};

/* Says once for each library that it has no code for the device. */
static void say_no_code(const void *function, const void *image)
{
    static const void *said[16];
    static unsigned count;
    Dl_info library = {0};
    if (!dladdr(function, &library) || !library.dli_fname) return;
    for (unsigned i = 0; i < count; i++)
        if (said[i] == library.dli_fbase) return;
    if (count == sizeof said / sizeof *said) return;
    said[count++] = library.dli_fbase;
    const char *name = strrchr(library.dli_fname, '/');
    int capability = soft_capability(), least, most;
    soft_code_versions(image, &least, &most);
    name = name ? name + 1 : library.dli_fname;
    fprintf(stderr, "memprof: %s has no code for %s of compute capability %d.%d; its code is for %d.%d to %d.%d", name,
            soft_profile_name(), capability / 10, capability % 10, least / 10, least % 10, most / 10, most % 10);
    for (size_t i = 0; strstr(name, "torch") && i < sizeof builds / sizeof *builds; i++)
        if (builds[i].major == capability / 10)
            fprintf(stderr, ". PyTorch %s is the %s on PyPI that has it: pip install torch==%s", builds[i].version,
                    builds[i].which, builds[i].version);
    fputc('\n', stderr);
}

struct soft_kernel *soft_kernel_of(const void *function, bool whole)
{
    struct soft_kernel *kernel = find_kernel(function);
    if (kernel->known && (kernel->whole || !whole)) return kernel;
    const char *name = NULL;
    const void *image = NULL;
    for (size_t i = 0; !image && i < RUNTIMES && runtimes[i]; i++)
        image = runtimes[i](function, &name);
    kernel->code = soft_code_of_image(image, name, soft_capability(), whole);
    if (!kernel->code.binary && !kernel->known) say_no_code(function, image);
    kernel->known = true;
    kernel->whole = whole;
    return kernel;
}

void soft_kernel_is(const void *handle, const struct soft_code *code)
{
    struct soft_kernel *kernel = find_kernel(handle);
    *kernel = (struct soft_kernel){.function = handle, .code = *code, .known = true, .whole = true};
}

void soft_code_forget(const void *function)
{
    struct soft_kernel *found = kernels.room ? slot_of(kernels.at, kernels.room, function) : NULL;
    if (found) found->known = found->whole = false, found->loaded = 0;
}

void soft_code_unload(int device)
{
    for (size_t i = 0; i < kernels.room; i++)
        kernels.at[i].loaded &= ~(1u << device);
}
