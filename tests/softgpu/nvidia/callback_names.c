/*
 * Asks NVIDIA's own libcupti for the name of every callback id that the recorder and the stand-in driver write down:
 *
 *     callback_names LIBCUPTI
 *
 * Prints each that is wrong, and how many it asked for. It works without a driver.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "capture/cuda/driver_calls.h"
#include "softgpu/driver_calls.h"

static const struct {
    const char *symbol;
    uint32_t cbid;
} rows[] = {
#define RECORDER_ROW(symbol, base, version, per_thread, cbid, ...) {#symbol, cbid},
    MP_CUDA_CALLS(RECORDER_ROW)
#define STAND_IN_ROW(name, version, mode, symbol, cbid, signature) {#symbol, cbid},
        DRIVER_CALLS(STAND_IN_ROW)};

int main(int argc, char **argv)
{
    void *cupti = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *found = cupti ? dlsym(cupti, "cuptiGetCallbackName") : NULL;
    int (*name_of)(uint32_t domain, uint32_t id, const char **name);
    int asked = 0, wrong = 0;
    if (!found) return 2;
    memcpy(&name_of, &found, sizeof found);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *name = NULL;
        if (!rows[i].cbid) continue;
        asked++;
        if (name_of(1, rows[i].cbid, &name) == 0 && name && !strcmp(name, rows[i].symbol)) continue;
        printf("%s %u is %s\n", rows[i].symbol, rows[i].cbid, name ? name : "unknown");
        wrong++;
    }
    printf("%d asked, %d wrong\n", asked, wrong);
    return wrong != 0;
}
