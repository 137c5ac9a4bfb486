/* Follows the memory that the driver's calls begin and end, as probes see them. It books the same as the hooks
 * (capture/cuda/booking.h), as far as arguments and results show it. One thread at a time. */
#pragma once

#include "attach/attach_probes.h"
#include "base/map.h"

/* Zero-initialised is empty. */
struct mp_attach_driver {
    struct mp_map blocks;           /* by class and value: struct held */
    struct mp_map handles, lengths; /* handles and lengths of mappings, by address */
};

/* The cookie for a call's probe (MP_ATTACH_RETURNS and so on); false: the call is not probed. */
bool mp_attach_driver_cookie(enum mp_cuda_action action, unsigned *cookie);

/* Passes the facts of a call to `book`: none, one, or several if one call unmaps several mappings. */
typedef void mp_attach_book(void *context, const struct mp_attach_event *event, struct mp_attach_fact *fact);
void mp_attach_driver_take(struct mp_attach_driver *driver, const struct mp_attach_event *event, mp_attach_book *book,
                           void *context);
void mp_attach_driver_free(struct mp_attach_driver *driver);

/* Memory that no probe sees, as the end of a sentence. */
#define MP_ATTACH_UNSEEN                                                                                               \
    "memory of CUDA graphs, of modules and from other processes, and the driver's handles (contexts, streams, events)"
