/* The functions with probes, and what their calls say about blocks. The driver's calls book the same as the hooks
 * (capture/cuda/booking.h), as far as arguments and results show it. One thread at a time. */
#pragma once

#include <stdbool.h>

#include "attach/attach_event.h"
#include "base/map.h"
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

/* Zero-initialised is empty. */
struct mp_attach_driver {
    struct mp_map blocks;           /* by class and value: struct held */
    struct mp_map handles, lengths; /* handles and lengths of mappings, by address */
};

/* Passes the facts of a call to `book`: none, one, or several if one call unmaps several mappings. */
typedef void mp_attach_book(void *context, const struct mp_attach_event *event, struct mp_attach_fact *fact);
void mp_attach_driver_take(struct mp_attach_driver *driver, const struct mp_attach_event *event, mp_attach_book *book,
                           void *context);
void mp_attach_driver_free(struct mp_attach_driver *driver);

/* Memory that no probe sees, as the end of a sentence. */
#define MP_ATTACH_UNSEEN                                                                                               \
    "memory of CUDA graphs, of modules and from other processes, and the driver's handles (contexts, streams, events)"
