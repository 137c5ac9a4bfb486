/*
 * Virtual memory management: address ranges, physical memory behind handles with reference counts, and mappings.
 * Physical memory of other processes and multicast objects have handles of the same kind.
 */
#include "softgpu/driver/vmm.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct physical {
    uint64_t references; /* handles that the program has, from creation and retention; 0: the handle is invalid, but
                          * mappings may still hold the memory */
    uint64_t mappings;
    CUmemAllocationProp asked; /* the properties at its creation; zero for memory of another process and multicast
                                * objects */
};

struct mapping {
    uint64_t handle;
};

static uint64_t handles = 0x0ffffff000000000; /* unlike any address */

static CUresult reserve(CUdeviceptr *to, size_t bytes)
{
    if (!to || !bytes || bytes % SOFT_GRANULE) return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = soft_new_address(bytes);
    if (!address) {
        soft_refused(SOFT_reservation, 0, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUcontext context = soft_current();
    soft_add(SOFT_reservation, context ? context->device : 0, address, bytes, NULL);
    *to = address;
    return CUDA_SUCCESS;
}

struct range {
    uint64_t from, to;
    enum soft_class class;
    uint64_t inside, across; /* bytes of mappings inside the range; number of mappings that only begin or end in it */
};

static void look_at(struct soft_block *block, void *context)
{
    struct range *range = context;
    if (block->class != range->class || block->address >= range->to || block->address + block->bytes <= range->from)
        return;
    if (block->address >= range->from && block->address + block->bytes <= range->to)
        range->inside += block->bytes;
    else
        range->across++;
}

static CUresult free_range(CUdeviceptr address, size_t bytes)
{
    struct soft_block *block = soft_find(SOFT_reservation, address);
    if (!block || block->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    struct range range = {address, address + bytes, SOFT_mapping, 0, 0};
    soft_each(look_at, &range);
    if (range.inside || range.across) return CUDA_ERROR_INVALID_VALUE; /* still mapped */
    soft_free_address(address, bytes);
    soft_remove(block);
    return CUDA_SUCCESS;
}

static struct soft_block *new_handle(enum soft_class class, int device, uint64_t bytes)
{
    struct soft_block *block = soft_add(class, device, ++handles, bytes, NULL);
    struct physical *physical = block->more = calloc(1, sizeof *physical);
    if (!physical) abort();
    physical->references = 1;
    return block;
}

static CUresult create(CUmemGenericAllocationHandle *to, size_t bytes, const CUmemAllocationProp *prop)
{
    if (!to || !prop || !bytes || bytes % SOFT_GRANULE) return CUDA_ERROR_INVALID_VALUE;
    bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_device && !soft_has_device(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (on_device && !soft_take(SOFT_physical, prop->location.id, bytes, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    struct soft_block *block = new_handle(SOFT_physical, on_device ? prop->location.id : SOFT_HOST, bytes);
    ((struct physical *)block->more)->asked = *prop;
    *to = block->address;
    return CUDA_SUCCESS;
}

static struct soft_block *find_handle(CUmemGenericAllocationHandle handle)
{
    struct soft_block *block = soft_find_like(SOFT_physical, handle);
    return block && ((struct physical *)block->more)->references ? block : NULL;
}

static void drop(struct soft_block *block)
{
    struct physical *physical = block->more;
    if (physical->references || physical->mappings) return;
    if (block->class == SOFT_physical && block->device >= 0) soft_give(block->device, block->bytes);
    soft_remove(block);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    struct soft_block *block = find_handle(handle);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    ((struct physical *)block->more)->references--;
    drop(block);
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle)
{
    struct soft_block *block = find_handle(handle);
    if (!block || !bytes || bytes % SOFT_GRANULE || offset + bytes > block->bytes) return CUDA_ERROR_INVALID_VALUE;
    struct range reserved = {address, address + bytes, SOFT_reservation, 0, 0};
    struct range mapped = {address, address + bytes, SOFT_mapping, 0, 0};
    soft_each(look_at, &reserved);
    soft_each(look_at, &mapped);
    if (!(reserved.inside || reserved.across) || mapped.inside || mapped.across) return CUDA_ERROR_INVALID_VALUE;
    struct soft_block *mapping = soft_add(SOFT_mapping, block->device, address, bytes, NULL);
    struct mapping *of = mapping->more = calloc(1, sizeof *of);
    if (!of) abort();
    of->handle = handle;
    ((struct physical *)block->more)->mappings++;
    return CUDA_SUCCESS;
}

static void unmap_inside(struct soft_block *block, void *context)
{
    const struct range *range = context;
    if (block->class != SOFT_mapping || block->address < range->from || block->address >= range->to) return;
    struct soft_block *handle = soft_find_like(SOFT_physical, ((struct mapping *)block->more)->handle);
    ((struct physical *)handle->more)->mappings--;
    soft_remove(block);
}

static void drop_unused(struct soft_block *block, void *context)
{
    (void)context;
    if (block->class == SOFT_physical || block->class == SOFT_import || block->class == SOFT_multicast) drop(block);
}

/* Unmaps the mappings in a range, which they must fill exactly. */
static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    struct range range = {address, address + bytes, SOFT_mapping, 0, 0};
    soft_each(look_at, &range);
    if (range.across || range.inside != bytes) return CUDA_ERROR_INVALID_VALUE;
    soft_each(unmap_inside, &range);
    soft_each(drop_unused, NULL);
    return CUDA_SUCCESS;
}

static void find_mapping(struct soft_block *block, void *context)
{
    struct range *range = context;
    if (block->class == SOFT_mapping && block->address <= range->from && block->address + block->bytes > range->from)
        range->inside = ((struct mapping *)block->more)->handle;
}

struct soft_block *soft_mapping_at(uint64_t address)
{
    struct range range = {.from = address};
    soft_each(find_mapping, &range);
    return range.inside ? soft_find_like(SOFT_physical, range.inside) : NULL;
}

static CUresult retain(CUmemGenericAllocationHandle *to, void *address)
{
    struct range range = {.from = (uint64_t)(uintptr_t)address};
    soft_each(find_mapping, &range);
    if (!range.inside) return CUDA_ERROR_INVALID_VALUE;
    struct soft_block *block = soft_find_like(SOFT_physical, range.inside);
    ((struct physical *)block->more)->references++;
    *to = range.inside;
    return CUDA_SUCCESS;
}

/* The contents of the file behind a shareable handle. It is a file because processes send each other descriptors. */
struct shared {
    uint64_t bytes;
    int32_t device, multicast;
};

static CUresult export(int *to, CUmemGenericAllocationHandle handle)
{
    struct soft_block *block = find_handle(handle);
    if (!to || !block) return CUDA_ERROR_INVALID_VALUE;
    struct shared shared = {block->bytes, block->device, block->class == SOFT_multicast};
    int file = memfd_create("softgpu", MFD_CLOEXEC);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    if (write(file, &shared, sizeof shared) != sizeof shared) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *to = file;
    return CUDA_SUCCESS;
}

static CUresult import(CUmemGenericAllocationHandle *to, void *handle)
{
    struct shared shared;
    if (!to || pread((int)(intptr_t)handle, &shared, sizeof shared, 0) != sizeof shared || !shared.bytes ||
        !soft_has_device(shared.device))
        return CUDA_ERROR_INVALID_VALUE;
    *to = new_handle(shared.multicast ? SOFT_multicast : SOFT_import, shared.device, shared.bytes)->address;
    return CUDA_SUCCESS;
}

static CUresult put_properties(CUmemAllocationProp *to, CUmemGenericAllocationHandle handle)
{
    struct soft_block *block = find_handle(handle);
    if (!to || !block) return CUDA_ERROR_INVALID_VALUE;
    *to = ((struct physical *)block->more)->asked;
    return CUDA_SUCCESS;
}

static CUresult put_granularity(size_t *to)
{
    *to = SOFT_GRANULE;
    return CUDA_SUCCESS;
}

static CUresult put_multicast_granularity(size_t *to, bool recommended)
{
    uint64_t granularity = soft_profile_share(SOFT_PROFILE_MULTICAST);
    *to = recommended && granularity ? granularity : SOFT_GRANULE;
    return CUDA_SUCCESS;
}

static CUresult multicast_create(CUmemGenericAllocationHandle *to, const CUmulticastObjectProp *prop)
{
    if (!to || !prop || !prop->size) return CUDA_ERROR_INVALID_VALUE;
    *to = new_handle(SOFT_multicast, 0, prop->size)->address;
    return CUDA_SUCCESS;
}

static CUresult multicast_add(CUmemGenericAllocationHandle handle, CUdevice device)
{
    struct soft_block *block = find_handle(handle);
    return block && block->class == SOFT_multicast && soft_has_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Binds memory to a multicast object. A binding takes no memory, and the program keeps the bound memory, so bindings
 * are not counted. */
static CUresult multicast_bind(CUmemGenericAllocationHandle handle, CUmemGenericAllocationHandle memory, size_t offset,
                               size_t bytes)
{
    struct soft_block *object = find_handle(handle), *block = find_handle(memory);
    if (!object || !block || object->class != SOFT_multicast || offset + bytes > block->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAddressReserve, reserve(ptr, size), (CUdeviceptr *, ptr), (size_t, size), (size_t, alignment),
      (CUdeviceptr, addr), (unsigned long long, flags))
ENTRY(cuMemAddressFree, free_range(ptr, size), (CUdeviceptr, ptr), (size_t, size))
ENTRY(cuMemCreate, create(handle, size, prop), (CUmemGenericAllocationHandle *, handle), (size_t, size),
      (const CUmemAllocationProp *, prop), (unsigned long long, flags))
ENTRY(cuMemRelease, release(handle), (CUmemGenericAllocationHandle, handle))
ENTRY(cuMemMap, map(ptr, size, offset, handle), (CUdeviceptr, ptr), (size_t, size), (size_t, offset),
      (CUmemGenericAllocationHandle, handle), (unsigned long long, flags))
ENTRY(cuMemUnmap, unmap(ptr, size), (CUdeviceptr, ptr), (size_t, size))
ENTRY(cuMemSetAccess, CUDA_SUCCESS, (CUdeviceptr, ptr), (size_t, size), (const CUmemAccessDesc *, desc),
      (size_t, count))
ENTRY(cuMemExportToShareableHandle, export(shareableHandle, handle), (void *, shareableHandle),
      (CUmemGenericAllocationHandle, handle), (int, handleType), (unsigned long long, flags))
ENTRY(cuMemImportFromShareableHandle, import(handle, osHandle), (CUmemGenericAllocationHandle *, handle),
      (void *, osHandle), (int, shHandleType))
ENTRY(cuMemRetainAllocationHandle, retain(handle, addr), (CUmemGenericAllocationHandle *, handle), (void *, addr))
ENTRY(cuMemGetAllocationPropertiesFromHandle, put_properties(prop, handle), (CUmemAllocationProp *, prop),
      (CUmemGenericAllocationHandle, handle))
ENTRY(cuMemGetAllocationGranularity, put_granularity(granularity), (size_t *, granularity),
      (const CUmemAllocationProp *, prop), (int, option))
ENTRY(cuMulticastGetGranularity, put_multicast_granularity(granularity, option), (size_t *, granularity),
      (const void *, prop), (int, option))
ENTRY(cuMulticastCreate, multicast_create(mcHandle, prop), (CUmemGenericAllocationHandle *, mcHandle),
      (const CUmulticastObjectProp *, prop))
ENTRY(cuMulticastAddDevice, multicast_add(mcHandle, dev), (CUmemGenericAllocationHandle, mcHandle), (CUdevice, dev))
ENTRY(cuMulticastBindMem, multicast_bind(mcHandle, memHandle, memOffset, size),
      (CUmemGenericAllocationHandle, mcHandle), (size_t, mcOffset), (CUmemGenericAllocationHandle, memHandle),
      (size_t, memOffset), (size_t, size), (unsigned long long, flags))
ENTRY(cuMulticastUnbind, multicast_add(mcHandle, dev), (CUmemGenericAllocationHandle, mcHandle), (CUdevice, dev),
      (size_t, mcOffset), (size_t, size))
