/*
 * NVIDIA's driver ABI, as far as memprof needs it. With these declarations every build can record CUDA, even if it was
 * made on a machine without CUDA. There are three headers: this one has the driver's types and numbers, driver_calls.h
 * its calls, and cupti_abi.h CUPTI. Where configure finds NVIDIA's headers, abi_check.c compares all three with them.
 *
 * Source: cuda.h, cudaTypedefs.h and generated_cuda_meta.h of CUDA 13.0. The driver's ABI is stable by name: these
 * declarations are right for every driver that exports the name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long mp_cu_ptr; /* CUdeviceptr, CUmemGenericAllocationHandle */
typedef void *mp_cu_handle;           /* CUcontext, CUstream, CUevent, CUarray, CUgraph, ... */

/* CUresult */
enum {
    MP_CU_SUCCESS = 0,
    MP_CU_INVALID_VALUE = 1,
    MP_CU_OUT_OF_MEMORY = 2,
    MP_CU_NOT_INITIALIZED = 3,
    MP_CU_DEINITIALIZED = 4,
    MP_CU_CAPTURE_INVALIDATED = 901,
    MP_CU_CAPTURE_UNJOINED = 904,
};

/* CUmemLocationType; all other types are host memory */
enum { MP_CU_LOCATION_DEVICE = 1 };
struct mp_cu_location {
    int type, id;
};

/* CUmemAllocationType */
enum { MP_CU_ALLOCATION_PINNED = 1, MP_CU_ALLOCATION_MANAGED = 2 };

/* CUmemAllocationProp */
struct mp_cu_allocation_prop {
    int type, requestedHandleTypes;
    struct mp_cu_location location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
};

/* CUmemPoolProps */
struct mp_cu_pool_props {
    int allocType, handleTypes;
    struct mp_cu_location location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

/* CUmemPool_attribute; the value has 64 bits */
enum { MP_CU_POOL_RESERVED_CURRENT = 5 };

/* CUgraphMem_attribute; the value has 64 bits */
enum { MP_CU_GRAPH_MEM_RESERVED_CURRENT = 2 };

/* CUmulticastObjectProp */
struct mp_cu_multicast_prop {
    unsigned numDevices;
    size_t size;
    unsigned long long handleTypes, flags;
};

/* CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR */
struct mp_cu_array {
    size_t Width, Height;
    int Format;
    unsigned NumChannels;
};
struct mp_cu_array3d {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels, Flags;
};
/* `Flags` of an array */
enum {
    MP_CU_ARRAY_LAYERED = 0x01,          /* Depth counts layers */
    MP_CU_ARRAY_CUBEMAP = 0x04,          /* Depth counts faces */
    MP_CU_ARRAY_SPARSE = 0x40,           /* memory is mapped into the array later */
    MP_CU_ARRAY_DEFERRED_MAPPING = 0x80, /* memory is mapped into the array later */
};

/* CUipcMemHandle (CUipcEventHandle has the same layout), CUuuid: passed by value and by pointer */
struct mp_cu_ipc_handle {
    char reserved[64];
};
struct mp_cu_uuid {
    unsigned char bytes[16];
};

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUDA_EXTERNAL_MEMORY_BUFFER_DESC */
struct mp_cu_external_memory {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
};
struct mp_cu_external_buffer {
    unsigned long long offset, size;
    unsigned flags;
    unsigned reserved[16];
};

struct mp_cu_external_mipmap {
    unsigned long long offset;
    struct mp_cu_array3d arrayDesc;
    unsigned numLevels;
    unsigned reserved[16];
};

/* CUDA_MEM_ALLOC_NODE_PARAMS; CUgraphNodeParams, with only the members of its union that concern memory */
struct mp_cu_alloc_node {
    struct mp_cu_pool_props poolProps;
    const void *accessDescs;
    size_t accessDescCount, bytesize;
    mp_cu_ptr dptr; /* out */
};
enum { MP_CU_NODE_MEM_ALLOC = 10, MP_CU_NODE_MEM_FREE = 11 }; /* CUgraphNodeType */
struct mp_cu_node_params {
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct mp_cu_alloc_node alloc;
        struct {
            mp_cu_ptr dptr;
        } free;
    };
    long long reserved2;
};

/* CUdriverProcAddress_flags */
enum { MP_CU_LOOKUP_PER_THREAD_STREAM = 2 };

/* The two forms of cuGetProcAddress. A caller that asks for a version below 12000 gets the first form. */
typedef int mp_cu_get_proc_address(const char *symbol, void **function, int version, unsigned long long flags);
typedef int mp_cu_get_proc_address_v2(const char *symbol, void **function, int version, unsigned long long flags,
                                      int *status);
