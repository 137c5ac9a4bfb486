/* A library that uses the driver in its constructor, as those with global objects in device memory do. */
#include "softgpu/programs/driver_api.h"

int early_allocate(size_t bytes);

__attribute__((constructor)) static void start(void)
{
    CUcontext context;
    driver_open("dlopen");
    CHECK(driver.cuInit(0));
    CHECK(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(driver.cuCtxSetCurrent(context));
    CHECK(early_allocate(100));
}

int early_allocate(size_t bytes)
{
    CUdeviceptr block;
    return driver.cuMemAlloc_v2(&block, bytes);
}
