/* The messages that `memprof plan` prints at its end, on stderr. */
#pragma once

#include "base/json.h"
#include "collect/session/collector.h"
#include "plan/devices.h"

/* Says whether a recorded program fits. */
struct mp_plan_outcome {
    bool has_device; /* the program allocated on a device */
    bool has_torch;  /* the program ran PyTorch */
    bool begun;      /* the program made a context, at least */
    bool fits;       /* memory never ran out, no rank waited in vain, and context and libraries fit next to the reserved
                        memory */
    bool waited;     /* a rank waited for one that never came, so nothing is known of what would come next */
    bool unknown;    /* another library takes an unknown amount of memory */
    size_t sizes;    /* sites where a value read from the device decided a size */
    size_t values;   /* other sites that read a value from the device */
    unsigned long ooms;
    uint64_t allocated, reserved, estimated; /* peaks of the device that held most; reserved: at least allocated */
    uint64_t over;                           /* bytes that `reserved` and `estimated` exceed the device by; 0 */
};
enum mp_status mp_plan_judge(const char *path, const struct mp_plan_device *device, struct mp_plan_outcome *outcome,
                             struct mp_error *error);

/* Print outcomes as rows of a table, whose first column has the heading `name` ("batch", "rank"), and as elements of a
 * JSON array. */
void mp_plan_outcome_heading(const char *name);
void mp_plan_outcome_row(uint64_t value, const struct mp_plan_outcome *outcome);
void mp_plan_outcome_json(struct mp_json *json, const char *name, uint64_t value,
                          const struct mp_plan_outcome *outcome);
/* Prints the object, and frees its buffer. */
void mp_plan_print_json(struct mp_json *json);

/* Prints the outcome. False: the recording is incomplete, or nothing was planned. */
bool mp_plan_report(struct mp_collector_result *result, const struct mp_plan_device *device, bool quiet);
