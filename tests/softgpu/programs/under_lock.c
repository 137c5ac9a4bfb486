/*
 * Uses the driver where the loader is busy: `under_lock WAY PLUGIN`, WAY as driver_api.h has it. A plug-in's
 * constructor starts a thread that makes the first calls, and waits for it (tests/faults/plugin.c). The text of
 * dlerror() stays the program's, whatever it calls in between. Says "done".
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/programs/driver_api.h"

static CUcontext context;

static void allocate(void)
{
    CUdeviceptr block;
    CHECK(driver.cuCtxSetCurrent(context));
    CHECK(driver.cuMemAlloc_v2(&block, 1000));
    CHECK(driver.cuMemFree_v2(block));
}

static void look_up(void)
{
    CUdriverProcAddressQueryResult status;
    void *found;
    CHECK(driver.cuGetProcAddress_v2("cuMemAllocAsync", &found, 12000, 0, &status));
    CHECK(driver.cuGetProcAddress_v2("cuMemCreate", &found, 12000, 0, &status));
}

/* The work of the plug-in's thread. */
void hostile_event(void);
void hostile_event(void)
{
    static __thread int calls;
    if (calls++) return;
    allocate();
    look_up();
}

static int errors_lost(void (*call)(void))
{
    if (dlopen("libdoes-not-exist.so", RTLD_NOW)) return 1;
    call();
    const char *text = dlerror();
    return !text || !strstr(text, "libdoes-not-exist");
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    driver_open(argv[1]);
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    if (!dlopen(argv[2], RTLD_NOW)) return 5;
    if (errors_lost(allocate) || errors_lost(look_up)) return 6;
    puts("done");
    return 0;
}
