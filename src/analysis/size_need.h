/*
 * What a point needs: the allocated bytes of a fit, what the caching allocator holds for them, what the device has to
 * have beside; each with what the method missed at the probes themselves. And the largest that is sure to fit. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_NEED_H
#define MP_ANALYSIS_SIZE_NEED_H

#include "analysis/size.h"
#include "analysis/size_fit.h"
#include "analysis/size_reserved.h"

struct mp_size_needing {
    const struct mp_size_fit *fit;
    uint64_t limit;
    double error; /* the most by which allocated bytes were missed, as a part */
    /* The caching allocator, where the track is one and the probes say what it held. */
    bool reserves, blocks; /* blocks: what was recorded as allocated is what was handed out */
    struct mp_size_reserving reserving;
    struct mp_torch_settings settings; /* with which the model misses the probes the least */
    double reserved_error;
    /* Of the device beside what the allocator holds, at the probes; MP_BYTES_UNKNOWN. */
    uint64_t outside_least, outside_most;
    bool failed; /* memory was short: answers mean nothing */
};

/* `probed` are all probes, with what was recorded. The fit must stay. False where memory is short. */
bool mp_size_needing_make(const struct mp_size_fit *fit, const struct mp_size_probed *probed, size_t count,
                          uint64_t limit, struct mp_size_needing *needing);
void mp_size_needing_free(struct mp_size_needing *needing);

struct mp_size_need mp_size_need_at(struct mp_size_needing *needing, struct mp_size_point at);
struct mp_size_largest mp_size_find_largest(struct mp_size_needing *needing, uint64_t second);
/* The same if the allocator had expandable segments; 0 where it has them, or where it is no such allocator. */
uint64_t mp_size_find_expandable(struct mp_size_needing *needing, uint64_t second);
/* "allocated", "reserved" or "device" */
const char *mp_size_binds(const struct mp_size_needing *needing);

#endif
