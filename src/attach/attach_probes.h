/* The functions with probes, and what their calls say about blocks. */
#pragma once

#include <stdbool.h>

#include "attach/attach_event.h"
#include "base/words.h"
#include "capture/cuda/driver_calls.h"
#include "wire/c10.h"
#include "wire/record.h"

enum mp_attach_action {
    MP_ATTACH_REPORT,     /* report of PyTorch's allocators: address, signed bytes, totals, device */
    MP_ATTACH_REPORT_OLD, /* a report without totals */
    MP_ATTACH_OOM,
    MP_ATTACH_CPU_ALLOC, /* the CPU allocator's call for the profiler, which it makes whether a profiler runs or not */
    MP_ATTACH_CPU_FREE,
    MP_ATTACH_DRIVER, /* a call of attach_driver.h */
};

struct mp_attach_probe {
    const char *library, *symbol; /* `library`: begin of the file's name */
    const char *name;             /* name for people; one probe of each name suffices */
    enum mp_attach_action action;
    unsigned cookie; /* MP_ATTACH_STACK and so on; not for the driver's */
    enum mp_cuda_action call;
};

extern const struct mp_attach_probe mp_attach_probes[];
extern const unsigned mp_attach_probe_count;
/* The probe's whole cookie; false: the table has the driver's call, but it is not probed. */
bool mp_attach_probe_cookie(unsigned number, unsigned *cookie);

/* The meaning of an event of PyTorch. `type` MP_EVENT_NONE: nothing. */
struct mp_attach_fact {
    enum mp_event_type type;
    enum mp_kind kind;
    struct mp_c10_device device;
    bool of_driver;
    const char *pool;
    uint64_t address, bytes, allocated, reserved;
};
struct mp_attach_fact mp_attach_fact_of(const struct mp_attach_event *event);
