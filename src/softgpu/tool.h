/*
 * Calls from the stand-in driver to the stand-in of CUPTI, which are their only interface. NVIDIA's own interface is
 * private and is not imitated. All calls come on the thread that called the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"

/* One call of the driver by the program, from entry to exit. */
struct soft_call {
    uint32_t cbid;
    const char *name;
    const void *params; /* the arguments, in the layout of generated_cuda_meta.h's struct for the function */
    CUresult result;    /* valid at the exit */
    CUcontext context;
    uint32_t context_uid, correlation;
    uint64_t correlation_data;    /* the tool's, from entry to exit */
    const struct soft_tool *tool; /* the tool that got the entry; only this one gets the exit */
    struct soft_call *outer;
};

struct soft_pool_facts {
    uint32_t type; /* 0 none, 1 local, 2 imported */
    uint64_t address, threshold, size, used;
    uint64_t process;
};

struct soft_memory_event {
    uint32_t operation; /* 1 allocation, 2 release */
    uint32_t kind;      /* CUpti_ActivityMemoryKind */
    uint64_t address, bytes;
    uint32_t device, context, stream;
    const char *name; /* name of a static variable */
    bool async;
    struct soft_pool_facts pool;
    uint32_t correlation;
};

struct soft_pool_event {
    uint32_t operation; /* 1 created, 2 destroyed, 3 trimmed */
    uint32_t device;
    uint64_t keep;
    struct soft_pool_facts pool;
    uint32_t correlation;
};

struct soft_context_event {
    uint32_t cbid; /* CUpti_CallbackIdResource: 1 created, 2 destruction begins */
    CUcontext context;
    uint32_t uid;
};

struct soft_tool {
    void (*call)(struct soft_call *call, bool exit);
    void (*memory)(const struct soft_memory_event *event);
    void (*pool)(const struct soft_pool_event *event);
    void (*context)(const struct soft_context_event *event);
};

/* Exported by the driver. `tool` NULL: no tool listens any more. */
typedef void softgpu_set_tool_function(const struct soft_tool *tool);
softgpu_set_tool_function softgpu_set_tool;
/* Finds a context's uid and device by its handle. False: there is no such context. */
typedef bool softgpu_context_facts_function(CUcontext context, uint32_t *uid, int *device);
softgpu_context_facts_function softgpu_context_facts;
