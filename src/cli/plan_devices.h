/* The GPUs that `memprof plan` knows, by the file `devices` beside the stand-ins, or by one of the user's own. */
#ifndef MP_CLI_PLAN_DEVICES_H
#define MP_CLI_PLAN_DEVICES_H

#include <stdint.h>

#include "base/error.h"

struct mp_plan_device {
    char key[64]; /* "h100-80gb"; of bytes alone: as the user wrote them */
    char name[128], source[256];
    uint64_t total, context; /* bytes of the device; of those, what context and kernels take */
    unsigned cc, sms, l2;
};

/* `wanted`: a name, a file with a '/' in its path, or bytes (an H100 of that size). The message of an unknown name
 * lists those that are known. `folder`: that of the stand-ins. */
enum mp_status mp_plan_device_find(const char *folder, const char *wanted, struct mp_plan_device *device,
                                   struct mp_error *error);

#endif
