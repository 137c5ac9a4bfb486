/*
 * Allocates memory before and after memprof releases CUPTI. Another tool in the process then takes CUPTI:
 *
 *     releases_cupti WAY LIBCUPTI
 *
 * Prints two results of memprof_release_cupti(), and the results of cuptiSubscribe() before and after the first
 * release.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "capture/cuda/cupti_abi.h"
#include "memprof.h"
#include "softgpu/programs/driver_api.h"

static void other_tool(void *user, uint32_t domain, uint32_t id, const void *data)
{
    (void)user, (void)domain, (void)id, (void)data;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    driver_open(argv[1]);
    CUcontext context;
    CUdeviceptr before, freed, after;
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(driver.cuCtxSetCurrent(context));
    CHECK(driver.cuMemAlloc_v2(&before, 1000));
    CHECK(driver.cuMemAlloc_v2(&freed, 2000));
    void *library = dlopen(argv[2], RTLD_LAZY), *symbol = library ? dlsym(library, "cuptiSubscribe") : NULL,
         *subscriber;
    mp_cuptiSubscribe *subscribe;
    if (!symbol) return 3;
    memcpy(&subscribe, &symbol, sizeof subscribe);
    int busy = subscribe(&subscriber, other_tool, NULL);
    int first = memprof_release_cupti(), second = memprof_release_cupti();
    int free_now = subscribe(&subscriber, other_tool, NULL);
    CHECK(driver.cuMemFree_v2(freed));
    CHECK(driver.cuMemAlloc_v2(&after, 3000));
    printf("released %d %d, subscribed %d %d\n", first, second, busy, free_now);
    return 0;
}
