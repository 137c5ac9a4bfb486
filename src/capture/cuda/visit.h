/* A driver's call between its enter and its exit, and a thread's record of such calls. */
#ifndef MP_CAPTURE_CUDA_VISIT_H
#define MP_CAPTURE_CUDA_VISIT_H

#include "capture/core/front.h"
#include "capture/cuda/live.h"

/* Zeroed by its owner. */
#define MP_CUDA_VISIT_TAKEN 4
struct mp_cuda_visit {
    unsigned taken_count;
    bool entered, unknown; /* unknown: nobody saw the beginning of what the call frees */
    uint8_t began;         /* enum mp_book on which memory with an address began */
    struct mp_live taken[MP_CUDA_VISIT_TAKEN];
};

/* Data that CUPTI's callbacks leave in a thread. */
#define MP_CUPTI_VISITS 4
struct mp_cupti_thread {
    uint32_t enters, exits; /* of calls that callbacks reported */
    bool captured;          /* an alloc node was made since the call's enter */
    struct mp_cuda_visit visits[MP_CUPTI_VISITS];
};
struct mp_cupti_thread *mp_cupti_thread(struct mp_thread *thread); /* NULL of NULL */

#endif
