/*
 * CUPTI's ABI, as far as memprof needs it (see driver_abi.h). libcupti is found at run time and never linked. Its
 * version gives the records' layout: cuptiGetVersion() is 15 for CUDA 11.2-11.4, 24 for 12.6, 130000 for 13.0.
 *
 * Source: cupti_callbacks.h, cupti_activity.h and cupti_version.h of CUDA 13.0; cupti_activity_deprecated.h for the
 * earlier layouts.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "capture/cuda/driver_abi.h"

/* CUptiResult */
enum {
    MP_CUPTI_SUCCESS = 0,
    MP_CUPTI_INVALID_PARAMETER = 1,
    MP_CUPTI_MAX_LIMIT_REACHED = 12, /* no more records; in old versions also: CUPTI has another subscriber */
    MP_CUPTI_NOT_INITIALIZED = 15,   /* the driver is too old for this CUPTI */
    MP_CUPTI_BUSY = 39,              /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
    MP_CUPTI_UNKNOWN = 999,          /* no driver */
};

/* CUpti_CallbackDomain, CUpti_ApiCallbackSite, CUpti_CallbackIdResource, CUpti_CallbackIdState */
enum { MP_CUPTI_DRIVER = 1, MP_CUPTI_RESOURCE = 3, MP_CUPTI_STATE = 6 };
enum { MP_CUPTI_ENTER = 0, MP_CUPTI_EXIT = 1 };
enum {
    MP_CUPTI_CONTEXT_CREATED = 1,
    MP_CUPTI_CONTEXT_DESTROY_STARTING = 2,
    MP_CUPTI_GRAPHNODE_CREATED = 13,
};
enum { MP_CUPTI_STATE_FATAL_ERROR = 1 };

/* CUpti_CallbackData: the argument of a driver-domain callback */
struct mp_cupti_call {
    uint32_t callbackSite;
    const char *functionName;
    const void *functionParams; /* the call's params struct of driver_calls.h */
    void *functionReturnValue;  /* at EXIT: int * */
    const char *symbolName;
    mp_cu_handle context;
    uint32_t contextUid;
    uint64_t *correlationData; /* one word of ours, the same at ENTER and EXIT */
    uint32_t correlationId;
};

/* CUpti_ResourceData: the argument of a resource-domain callback. The descriptor of graph callbacks is
 * CUpti_GraphData */
struct mp_cupti_resource {
    mp_cu_handle context;
    mp_cu_handle stream;
    void *resourceDescriptor;
};
struct mp_cupti_graph {
    mp_cu_handle graph, originalGraph, node, originalNode;
    int nodeType;
    mp_cu_handle dependency, graphExec;
};

/* CUpti_SubscriberParams as of 13.0; later versions append members */
struct mp_cupti_subscriber_params {
    size_t structSize;
    const char *subscriberName; /* in, 53 characters at most */
    char *oldSubscriberName;    /* out, at MP_CUPTI_BUSY: name of the current subscriber; at least 64 bytes of room */
    size_t oldSubscriberSize;
};

/* Activity kinds: the numbers at the beginning of records */
enum { MP_CUPTI_DRIVER_CALL = 4, MP_CUPTI_MEMORY2 = 49, MP_CUPTI_MEMORY_POOL = 50 };
enum { MP_CUPTI_ALLOCATION = 1, MP_CUPTI_RELEASE = 2 };
enum { MP_CUPTI_POOL_DESTROYED = 2, MP_CUPTI_POOL_TRIMMED = 3 };
enum { MP_CUPTI_POOL_LOCAL = 1, MP_CUPTI_POOL_IMPORTED = 2 };
enum {
    MP_CUPTI_MEMORY_DEVICE = 3,
    MP_CUPTI_MEMORY_ARRAY = 4,
    MP_CUPTI_MEMORY_DEVICE_STATIC = 6,
    MP_CUPTI_MEMORY_MANAGED_STATIC = 7,
};

/* CUpti_ActivityMemory2, 3 and 4: each adds members at the end of the one before. Read only the members that the
 * record's version has, and let the loaded library step from one record to the next. */
struct mp_cupti_memory {
    uint32_t kind, memoryOperationType, memoryKind, correlationId;
    uint64_t address, bytes, timestamp, PC;
    uint32_t processId, deviceId, contextId, streamId;
    const char *name;
    uint32_t isAsync;
    struct {
        uint32_t memoryPoolType;
        uint64_t address, releaseThreshold;
        union {
            uint64_t size, processId; /* LOCAL, IMPORTED */
        } pool;
        uint64_t utilizedSize; /* version 17 (CUDA 11.6) */
    } memoryPoolConfig;
    const char *source; /* version 24 (CUDA 12.6) */
};
#define MP_CUPTI_MEMORY2_BYTES 112 /* version 15 */
#define MP_CUPTI_MEMORY3_BYTES 120 /* version 17 */
#define MP_CUPTI_MEMORY4_BYTES 128 /* version 24 */

/* CUpti_ActivityMemoryPool, 2 and 3: each adds members at its end */
struct mp_cupti_pool {
    uint32_t kind, memoryPoolOperationType, memoryPoolType, correlationId, processId, deviceId;
    uint64_t minBytesToKeep, address, size, releaseThreshold, timestamp;
    uint64_t utilizedSize; /* version 17 */
    uint8_t isManagedPool; /* version 130000 */
};
#define MP_CUPTI_POOL_BYTES  64 /* version 15 */
#define MP_CUPTI_POOL2_BYTES 72 /* version 17 */
#define MP_CUPTI_POOL3_BYTES 80 /* version 130000 */

#define MP_CUPTI_VERSION_FIRST 15 /* versions before have no MEMORY2 */

typedef void mp_cupti_callback(void *user, uint32_t domain, uint32_t id, const void *data);
typedef void mp_cupti_buffer_request(uint8_t **buffer, size_t *bytes, size_t *records_max);
typedef void mp_cupti_buffer_complete(mp_cu_handle context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                      size_t valid_bytes);
typedef uint64_t mp_cupti_timestamp(void);

/* The functions that are looked up: X(name, needed, arguments). All return a CUptiResult. A library without a needed
 * function is not used. If another function is missing, only its feature is missing. */
#define MP_CUPTI_FUNCTIONS(X)                                                                                          \
    X(cuptiGetVersion, 1, (uint32_t * version))                                                                        \
    X(cuptiSubscribe, 1, (void **subscriber, mp_cupti_callback *callback, void *user))                                 \
    X(cuptiUnsubscribe, 1, (void *subscriber))                                                                         \
    X(cuptiEnableCallback, 1, (uint32_t enable, void *subscriber, uint32_t domain, uint32_t id))                       \
    X(cuptiActivityRegisterCallbacks, 1, (mp_cupti_buffer_request * request, mp_cupti_buffer_complete * complete))     \
    X(cuptiActivityEnable, 1, (uint32_t kind))                                                                         \
    X(cuptiActivityDisable, 1, (uint32_t kind))                                                                        \
    X(cuptiActivityFlushAll, 1, (uint32_t forced))                                                                     \
    X(cuptiActivityGetNextRecord, 1, (uint8_t * buffer, size_t valid_bytes, void **record))                            \
    X(cuptiActivityGetNumDroppedRecords, 1, (mp_cu_handle context, uint32_t stream, size_t * dropped))                 \
    X(cuptiGetDeviceId, 1, (mp_cu_handle context, uint32_t * device))                                                  \
    X(cuptiFinalize, 0, (void))                                                                                        \
    X(cuptiSubscribe_v2, 0,                                                                                            \
      (void **subscriber, mp_cupti_callback *callback, void *user, struct mp_cupti_subscriber_params *params))         \
    X(cuptiGetResultString, 0, (int result, const char **text))                                                        \
    X(cuptiActivityFlushPeriod, 0, (uint32_t ms))                                                                      \
    X(cuptiActivityRegisterTimestampCallback, 0, (mp_cupti_timestamp * timestamp))                                     \
    X(cuptiActivityEnableDriverApi, 0, (uint32_t id, uint8_t enable))

#define MP_CUPTI_DECLARE_FUNCTION(name, needed, arguments) typedef int mp_##name arguments;
MP_CUPTI_FUNCTIONS(MP_CUPTI_DECLARE_FUNCTION)
#undef MP_CUPTI_DECLARE_FUNCTION
