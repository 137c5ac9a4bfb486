/* Stream-ordered pools: their blocks, and the pools themselves. */
#include "capture/cuda/booking_parts.h"

static const struct {
    enum mp_book book;
    enum mp_kind kind;
} blocks_of[] = {
    [MP_POOL_OF_DEVICE] = {MP_BOOK_POOL, MP_KIND_POOL},
    [MP_POOL_OF_HOST] = {MP_BOOK_HOST_POOL, MP_KIND_PINNED},
    [MP_POOL_MANAGED] = {MP_BOOK_MANAGED, MP_KIND_MANAGED},
    [MP_POOL_IMPORTED] = {MP_BOOK_IMPORTED, MP_KIND_DEVICE},
};

static void begin_pool(struct mp_cuda_event *event, mp_cu_handle handle, int device, unsigned origin, enum mp_book book)
{
    struct mp_live pool = mp_cuda_entry(MP_LIVE_POOL, (uint64_t)(uintptr_t)handle, device, book, MP_KIND_HANDLE);
    pool.other = mp_book_new_pool(pool.device, origin);
    pool.origin = (uint8_t)origin;
    mp_cuda_begin_entry(event, &pool);
}

static void begin_pool_at(struct mp_cuda_event *event, mp_cu_handle handle, int allocation,
                          struct mp_cu_location location, enum mp_book book)
{
    bool on_device = location.type == MP_CU_LOCATION_DEVICE;
    unsigned origin = allocation == MP_CU_ALLOCATION_MANAGED ? MP_POOL_MANAGED
                      : on_device                            ? MP_POOL_OF_DEVICE
                                                             : MP_POOL_OF_HOST;
    begin_pool(event, handle, on_device ? location.id : 0, origin, book);
}

/* Adds a pool that the driver has from the start. */
static void learn_pool(struct mp_cuda_event *event, mp_cu_handle handle, int allocation, struct mp_cu_location location)
{
    struct mp_live known;
    if (handle && !mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)handle, &known))
        begin_pool_at(event, handle, allocation, location, MP_BOOK_NONE);
}

void mp_exit_pool_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolCreate *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->poolProps) return;
    begin_pool_at(event, *a->pool, a->poolProps->allocType, a->poolProps->location, MP_BOOK_POOLS);
}

void mp_exit_pool_of_device(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetMemPool *a = event->arguments;
    struct mp_cu_location location = {.type = MP_CU_LOCATION_DEVICE, .id = a->dev};
    if (mp_cuda_succeeded(event)) learn_pool(event, *a->pool, MP_CU_ALLOCATION_PINNED, location);
}

void mp_exit_pool_of_location(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemGetMemPool *a = event->arguments;
    if (mp_cuda_succeeded(event) && a->location) learn_pool(event, *a->pool, a->type, *a->location);
}

void mp_exit_pool_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolImportFromShareableHandle *a = event->arguments;
    if (mp_cuda_succeeded(event))
        begin_pool(event, *a->pool_out, event->facts->device, MP_POOL_IMPORTED, MP_BOOK_POOLS);
}

void mp_cuda_pool_holds(struct mp_cuda_event *event, uint64_t pool, uint64_t bytes)
{
    struct mp_live known;
    struct mp_cu_location location = {.type = MP_CU_LOCATION_DEVICE, .id = event->facts->device};
    learn_pool(event, (mp_cu_handle)(uintptr_t)pool, MP_CU_ALLOCATION_PINNED, location);
    if (mp_live_find(MP_LIVE_POOL, pool, &known))
        mp_book_pool_holds(event->thread, known.other, bytes, mp_session_clock_ns());
}

/* Begins a pool's block. `pool`: an entry with the pool's number and origin. */
static void begin_block(struct mp_cuda_event *event, uint64_t address, uint64_t bytes, const struct mp_live *pool,
                        int device)
{
    struct mp_live block =
        mp_cuda_entry(MP_LIVE_MEMORY, address, device, blocks_of[pool->origin].book, blocks_of[pool->origin].kind);
    block.bytes = bytes;
    block.other = pool->other;
    mp_cuda_begin_entry(event, &block);
}

void mp_exit_pool_import_pointer(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolImportPointer *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t bytes = event->facts->bytes == MP_BYTES_UNKNOWN ? 0 : event->facts->bytes;
    struct mp_live pool = {.origin = MP_POOL_IMPORTED};
    mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)a->pool, &pool);
    begin_block(event, *a->ptr_out, bytes, &pool, event->facts->device);
}

/* The stream's device, or that of the calling thread's context if the stream is unknown. */
static int device_of_stream(const struct mp_cuda_event *event, mp_cu_handle stream)
{
    struct mp_live found;
    return mp_live_find(MP_LIVE_STREAM, (uint64_t)(uintptr_t)stream, &found) ? found.device : event->facts->device;
}

static void alloc_in_order(struct mp_cuda_event *event, mp_cu_ptr *address, uint64_t bytes, mp_cu_handle stream,
                           const struct mp_live *pool, int device)
{
    uint64_t captured = mp_cuda_capture_of(event, stream);
    if (!mp_cuda_succeeded(event))
        mp_cuda_refused(event, captured ? MP_BOOK_NODES : blocks_of[pool->origin].book, device, bytes);
    else if (captured)
        mp_cuda_add_alloc_node(event, captured, *address, bytes, device);
    else
        begin_block(event, *address, bytes, pool, device);
}

/* The block comes from the device's current pool. The recorder knows this pool only if the program has asked for it. */
void mp_exit_alloc_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAllocAsync *a = event->arguments;
    struct mp_live pool = {.origin = MP_POOL_OF_DEVICE};
    if (event->facts->pool) mp_live_find(MP_LIVE_POOL, event->facts->pool, &pool);
    alloc_in_order(event, a->dptr, a->bytesize, a->hStream, &pool, device_of_stream(event, a->hStream));
}

void mp_exit_alloc_from_pool(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAllocFromPoolAsync *a = event->arguments;
    struct mp_live pool = {.origin = MP_POOL_OF_DEVICE, .device = (int16_t)event->facts->device};
    mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)a->pool, &pool);
    alloc_in_order(event, a->dptr, a->bytesize, a->hStream, &pool, pool.device);
}
