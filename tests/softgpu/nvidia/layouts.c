/*
 * Prints sizes and offsets of the driver's structs, by cuda_types.h or, with -DNVIDIA, by NVIDIA's cuda.h: the test
 * compiles it both ways and compares.
 */
#include <stddef.h>
#include <stdio.h>

#ifdef NVIDIA
#    include <cuda.h>
#else
#    include "softgpu/cuda_types.h"
#endif

#define SIZE(type)           printf(#type " %zu\n", sizeof(type));
#define OFFSET(type, member) printf(#type "." #member " %zu\n", offsetof(type, member));

int main(void)
{
    SIZE(CUdeviceptr)
    SIZE(CUmemGenericAllocationHandle)
    SIZE(CUuuid)
    SIZE(CUmemLocation)
    SIZE(CUmemAllocationProp)
    OFFSET(CUmemAllocationProp, requestedHandleTypes)
    OFFSET(CUmemAllocationProp, location)
    OFFSET(CUmemAllocationProp, win32HandleMetaData)
    OFFSET(CUmemAllocationProp, allocFlags)
    SIZE(CUmemPoolProps)
    OFFSET(CUmemPoolProps, location)
    OFFSET(CUmemPoolProps, maxSize)
    OFFSET(CUmemPoolProps, usage)
    SIZE(CUmemAccessDesc)
    SIZE(CUmemPoolPtrExportData)
    SIZE(CUDA_MEM_ALLOC_NODE_PARAMS)
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs)
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize)
    OFFSET(CUDA_MEM_ALLOC_NODE_PARAMS, dptr)
    SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS)
    SIZE(CUgraphNodeParams)
    OFFSET(CUgraphNodeParams, alloc)
    OFFSET(CUgraphNodeParams, free)
    OFFSET(CUgraphNodeParams, reserved2)
    SIZE(CUipcMemHandle)
    SIZE(CUDA_EXTERNAL_MEMORY_HANDLE_DESC)
    OFFSET(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size)
    SIZE(CUDA_EXTERNAL_MEMORY_BUFFER_DESC)
    OFFSET(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size)
    SIZE(CUDA_ARRAY_DESCRIPTOR)
    OFFSET(CUDA_ARRAY_DESCRIPTOR, NumChannels)
    SIZE(CUDA_ARRAY3D_DESCRIPTOR)
    OFFSET(CUDA_ARRAY3D_DESCRIPTOR, Flags)
    SIZE(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC)
    OFFSET(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, arrayDesc)
    OFFSET(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, numLevels)
    SIZE(CUmulticastObjectProp)
    OFFSET(CUmulticastObjectProp, size)
    SIZE(CUexecAffinityParam)
    SIZE(CUctxCreateParams)
    return 0;
}
