/* Compares memprof's own ABI headers with NVIDIA's at compile time. Built only if configure found NVIDIA's headers, and
 * linked into nothing. */
#include "capture/cuda/cupti_abi.h"
#include "capture/cuda/driver_calls.h"

#include <assert.h>

#include <cuda.h>
#include <cupti.h>

#define MEMBER_SIZE(type, member) sizeof(((type *)0)->member)

#define SAME(ours, theirs)      static_assert((long long)(ours) == (long long)(theirs), #ours)
#define SAME_SIZE(ours, theirs) SAME(sizeof(struct ours), sizeof(theirs))
#define SAME_PLACES(ours, our_member, theirs, their_member)                                                            \
    static_assert(offsetof(struct ours, our_member) == offsetof(theirs, their_member), #ours ": " #our_member);        \
    static_assert(MEMBER_SIZE(struct ours, our_member) == MEMBER_SIZE(theirs, their_member), #ours ": " #our_member)
#define SAME_PLACE(ours, theirs, member) SAME_PLACES(ours, member, theirs, member)

/* ---- the calls --------------------------------------------------------------------------------------------------- */

#define PLACE(type, name)                                                                                              \
    static_assert(offsetof(__typeof__(*ours), name) == offsetof(__typeof__(*theirs), name), "offset of " #name);       \
    static_assert(sizeof ours->name == sizeof theirs->name, "size of " #name);
#define PLACES_1(a)                      PLACE a
#define PLACES_2(a, b)                   PLACES_1(a) PLACE b
#define PLACES_3(a, b, c)                PLACES_2(a, b) PLACE c
#define PLACES_4(a, b, c, d)             PLACES_3(a, b, c) PLACE d
#define PLACES_5(a, b, c, d, e)          PLACES_4(a, b, c, d) PLACE e
#define PLACES_6(a, b, c, d, e, f)       PLACES_5(a, b, c, d, e) PLACE f
#define PLACES_8(a, b, c, d, e, f, g, h) PLACES_6(a, b, c, d, e, f) PLACE g PLACE h

#define MP_CUDA_ROW(symbol, base, version, per_thread, cbid, action, count, ...)                                       \
    static_assert(cbid == CUPTI_DRIVER_TRACE_CBID_##symbol, #symbol);                                                  \
    static_assert(sizeof(struct mp_params_##symbol) == sizeof(symbol##_params), #symbol);                              \
    __attribute__((unused)) static void check_##symbol(const struct mp_params_##symbol *ours,                          \
                                                       const symbol##_params *theirs)                                  \
    {                                                                                                                  \
        PLACES_##count(__VA_ARGS__)                                                                                    \
    }
MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW

#define MP_CUDA_ROW(name, cbid) static_assert(cbid == CUPTI_DRIVER_TRACE_CBID_##name, #name);
MP_CUDA_UNDESCRIBED_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW

/* ---- the driver's types ------------------------------------------------------------------------------------------ */

SAME(MP_CU_SUCCESS, CUDA_SUCCESS);
SAME(MP_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(MP_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(MP_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(MP_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(MP_CU_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(MP_CU_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(MP_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(MP_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(MP_CU_ALLOCATION_MANAGED, CU_MEM_ALLOCATION_TYPE_MANAGED);
SAME(MP_CU_POOL_RESERVED_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME(MP_CU_GRAPH_MEM_RESERVED_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
SAME(MP_CU_ARRAY_LAYERED, CUDA_ARRAY3D_LAYERED);
SAME(MP_CU_ARRAY_CUBEMAP, CUDA_ARRAY3D_CUBEMAP);
SAME(MP_CU_ARRAY_SPARSE, CUDA_ARRAY3D_SPARSE);
SAME(MP_CU_ARRAY_DEFERRED_MAPPING, CUDA_ARRAY3D_DEFERRED_MAPPING);
SAME(MP_CU_NODE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SAME(MP_CU_NODE_MEM_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE);
SAME(MP_CU_LOOKUP_PER_THREAD_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);

SAME(sizeof(mp_cu_ptr), sizeof(CUdeviceptr));
SAME(sizeof(mp_cu_ptr), sizeof(CUmemGenericAllocationHandle));
SAME_SIZE(mp_cu_location, CUmemLocation);
SAME_PLACE(mp_cu_location, CUmemLocation, id);
SAME_SIZE(mp_cu_allocation_prop, CUmemAllocationProp);
SAME_PLACE(mp_cu_allocation_prop, CUmemAllocationProp, location);
SAME_SIZE(mp_cu_pool_props, CUmemPoolProps);
SAME_PLACE(mp_cu_pool_props, CUmemPoolProps, location);
SAME_PLACE(mp_cu_pool_props, CUmemPoolProps, maxSize);
SAME_SIZE(mp_cu_multicast_prop, CUmulticastObjectProp);
SAME_PLACE(mp_cu_multicast_prop, CUmulticastObjectProp, size);
SAME_SIZE(mp_cu_array, CUDA_ARRAY_DESCRIPTOR);
SAME_PLACE(mp_cu_array, CUDA_ARRAY_DESCRIPTOR, Format);
SAME_SIZE(mp_cu_array3d, CUDA_ARRAY3D_DESCRIPTOR);
SAME_PLACE(mp_cu_array3d, CUDA_ARRAY3D_DESCRIPTOR, Flags);
SAME_SIZE(mp_cu_ipc_handle, CUipcMemHandle);
SAME_SIZE(mp_cu_uuid, CUuuid);
SAME_SIZE(mp_cu_external_memory, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
SAME_PLACE(mp_cu_external_memory, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME_SIZE(mp_cu_external_buffer, CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
SAME_PLACE(mp_cu_external_buffer, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size);
SAME_SIZE(mp_cu_external_mipmap, CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC);
SAME_PLACE(mp_cu_external_mipmap, CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, arrayDesc);
SAME_PLACE(mp_cu_external_mipmap, CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, numLevels);
SAME_SIZE(mp_cu_alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_PLACE(mp_cu_alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SAME_PLACE(mp_cu_alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME_SIZE(mp_cu_node_params, CUgraphNodeParams);
SAME_PLACE(mp_cu_node_params, CUgraphNodeParams, alloc.dptr);
SAME_PLACE(mp_cu_node_params, CUgraphNodeParams, free.dptr);

/* ---- CUPTI ------------------------------------------------------------------------------------------------------- */

SAME(MP_CUPTI_SUCCESS, CUPTI_SUCCESS);
SAME(MP_CUPTI_INVALID_PARAMETER, CUPTI_ERROR_INVALID_PARAMETER);
SAME(MP_CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(MP_CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
SAME(MP_CUPTI_BUSY, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(MP_CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);
SAME(MP_CUPTI_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(MP_CUPTI_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(MP_CUPTI_STATE, CUPTI_CB_DOMAIN_STATE);
SAME(MP_CUPTI_ENTER, CUPTI_API_ENTER);
SAME(MP_CUPTI_EXIT, CUPTI_API_EXIT);
SAME(MP_CUPTI_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
SAME(MP_CUPTI_CONTEXT_DESTROY_STARTING, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
SAME(MP_CUPTI_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
SAME(MP_CUPTI_STATE_FATAL_ERROR, CUPTI_CBID_STATE_FATAL_ERROR);
SAME(MP_CUPTI_DRIVER_CALL, CUPTI_ACTIVITY_KIND_DRIVER);
SAME(MP_CUPTI_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME(MP_CUPTI_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME(MP_CUPTI_ALLOCATION, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
SAME(MP_CUPTI_RELEASE, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
SAME(MP_CUPTI_POOL_DESTROYED, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED);
SAME(MP_CUPTI_POOL_TRIMMED, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED);
SAME(MP_CUPTI_POOL_LOCAL, CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL);
SAME(MP_CUPTI_POOL_IMPORTED, CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED);
SAME(MP_CUPTI_MEMORY_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
SAME(MP_CUPTI_MEMORY_ARRAY, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY);
SAME(MP_CUPTI_MEMORY_DEVICE_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC);
SAME(MP_CUPTI_MEMORY_MANAGED_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC);

SAME_SIZE(mp_cupti_call, CUpti_CallbackData);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, callbackSite);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, functionParams);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, functionReturnValue);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, context);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, correlationData);
SAME_PLACE(mp_cupti_call, CUpti_CallbackData, correlationId);
SAME_SIZE(mp_cupti_resource, CUpti_ResourceData);
SAME_PLACES(mp_cupti_resource, stream, CUpti_ResourceData, resourceHandle.stream);
SAME_PLACE(mp_cupti_resource, CUpti_ResourceData, resourceDescriptor);
SAME_SIZE(mp_cupti_graph, CUpti_GraphData);
SAME_PLACE(mp_cupti_graph, CUpti_GraphData, nodeType);
SAME_SIZE(mp_cupti_subscriber_params, CUpti_SubscriberParams);
SAME_PLACE(mp_cupti_subscriber_params, CUpti_SubscriberParams, oldSubscriberName);

SAME_SIZE(mp_cupti_memory, CUpti_ActivityMemory4);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryOperationType);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryKind);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, correlationId);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, address);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, bytes);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, timestamp);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, deviceId);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, contextId);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, name);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, isAsync);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryPoolConfig.memoryPoolType);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryPoolConfig.address);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryPoolConfig.pool.size);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, memoryPoolConfig.utilizedSize);
SAME_PLACE(mp_cupti_memory, CUpti_ActivityMemory4, source);
SAME(MP_CUPTI_MEMORY4_BYTES, sizeof(CUpti_ActivityMemory4));
SAME(MP_CUPTI_MEMORY3_BYTES, sizeof(CUpti_ActivityMemory3));
SAME(MP_CUPTI_MEMORY2_BYTES, sizeof(CUpti_ActivityMemory2));
SAME_SIZE(mp_cupti_pool, CUpti_ActivityMemoryPool3);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, memoryPoolOperationType);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, deviceId);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, address);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, size);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, utilizedSize);
SAME_PLACE(mp_cupti_pool, CUpti_ActivityMemoryPool3, isManagedPool);
SAME(MP_CUPTI_POOL3_BYTES, sizeof(CUpti_ActivityMemoryPool3));
SAME(MP_CUPTI_POOL2_BYTES, sizeof(CUpti_ActivityMemoryPool2));
SAME(MP_CUPTI_POOL_BYTES, sizeof(CUpti_ActivityMemoryPool));
