/*
 * Repeats questions to cuGetProcAddress, as recorded by the stand-in driver ($SOFTGPU_LOOKUPS), on stdin: NAME VERSION
 * FLAGS LIBRARY. Prints NAME VERSION FLAGS and the library in which the answer lies, "-" where there is none.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char name[128];
    int version;
    uint64_t flags;
    int (*look_up)(const char *, void **, int, uint64_t, int *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
    if (!found) return 2;
    memcpy(&look_up, &found, sizeof found);
    if (look_up("cuGetProcAddress", &found, 12000, 0, NULL)) return 2;
    memcpy(&look_up, &found, sizeof found);
    while (scanf("%127s %d %" SCNu64 " %*s", name, &version, &flags) == 3) {
        int status;
        Dl_info where;
        found = NULL;
        look_up(name, &found, version, flags, &status);
        printf("%s %d %" PRIu64 " %s\n", name, version, flags, found && dladdr(found, &where) ? where.dli_fname : "-");
    }
    return 0;
}
