/*
 * Inside the stand-in of CUPTI. One library a version ($SOFTCUPTI_VERSION is fixed when it is compiled): what an old
 * CUPTI does not have is not exported. Variables by which a test controls it:
 *
 *     SOFTCUPTI_ERROR=N          cuptiSubscribe answers N (999: no driver)
 *     SOFTCUPTI_HELD_BY=NAME     another tool holds CUPTI: error 39 (12 before CUDA 11.6), the name from 13.0 on
 *     SOFTCUPTI_DROP=N           every Nth record is dropped, and counted
 *     SOFTCUPTI_DISORDER=1       a buffer's records come back last first
 *     SOFTCUPTI_CUT=1            a buffer's last record is cut in the middle
 *     SOFTCUPTI_STRANGE=1        a record of a kind that was not asked for comes before each; 2: of a kind that the
 * walker does not know either SOFTCUPTI_WRONG=1          every third record has a size that the callback did not see
 *     SOFTCUPTI_SILENT=1         no records at all, as one build of a known profiler gave
 *     SOFTCUPTI_GONE_AFTER=N     after N callbacks somebody else finalizes CUPTI; with SOFTCUPTI_FATAL=1 as after an
 * error of CUPTI's own, which the STATE domain tells
 *     SOFTCUPTI_WALKER=PATH      records are walked by the libcupti there, NVIDIA's
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/cuda/cupti_abi.h"
#include "softgpu/tool.h"

#define EXPORTED __attribute__((visibility("default")))

enum { SOFT_INVALID_KIND = 21 };

/* The variables above, read when the library is loaded. */
struct soft_settings {
    unsigned long error, drop, disorder, cut, strange, wrong, silent, gone_after, fatal;
    const char *held_by, *walker; /* NULL: nobody */
};
extern struct soft_settings soft_settings;

/* records.c: makes a record of an event. */
void soft_record_memory(const struct soft_memory_event *event);
void soft_record_pool(const struct soft_pool_event *event);
void soft_stop_records(void);
bool soft_wants_records(void);
/* subscriber.c: listens to the driver while there is a subscriber. False: there is no driver. */
bool soft_listen(void);
