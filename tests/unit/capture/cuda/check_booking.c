/*
 * The booking of driver calls, compared with an independent model of the driver. Calls are random, some fail, and
 * addresses and handles are used again. The records' live blocks on each track must be the model's at every moment.
 */
#include "capture/cuda/booking.h"

#include "collect/recording/drain.h"
#include "unit/capture/memory_spool.h"

/* ---- the state by the records ----------------------------------------------------------------------------------- */

struct block {
    uint64_t address, bytes;
    uint16_t track;
};
#define BLOCKS 4096
static struct {
    struct block blocks[BLOCKS];
    size_t count;
    uint64_t unknown, refused, marks, reserved, reserved_on[256]; /* of the last; by track */
} reported;

static bool take_record(void *context, uint32_t ring, const struct mp_record *record)
{
    (void)context, (void)ring;
    size_t at = 0;
    switch (record->type) {
    case MP_EVENT_ALLOC:
        ck_assert_uint_lt(reported.count, BLOCKS);
        reported.blocks[reported.count++] = (struct block){record->address, record->bytes, record->track};
        break;
    case MP_EVENT_FREE:
        while (at < reported.count &&
               (reported.blocks[at].address != record->address || reported.blocks[at].track != record->track))
            at++;
        if (at < reported.count)
            reported.blocks[at] = reported.blocks[--reported.count];
        else
            reported.unknown++;
        break;
    case MP_EVENT_OOM:
        reported.refused++;
        break;
    case MP_EVENT_MARK:
        reported.marks++;
        break;
    case MP_EVENT_RESERVED:
        ck_assert_uint_lt(record->track, 256);
        reported.reserved = reported.reserved_on[record->track] = record->bytes;
        break;
    default:
        ck_abort_msg("record of type %u", record->type);
    }
    return true;
}

static struct mp_spool_header *spool;
static struct mp_drain drain;

static void take_records(void)
{
    mp_drain_take(&drain, spool, true, take_record, NULL);
    mp_drain_release(&drain, spool);
}

static size_t live_on(enum mp_book book, int device, uint64_t address, uint64_t bytes)
{
    size_t found = 0;
    for (size_t i = 0; i < reported.count; i++)
        found += reported.blocks[i].track == mp_book_track(book, device) && reported.blocks[i].address == address &&
                 reported.blocks[i].bytes == bytes;
    return found;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static struct mp_cuda_facts now = MP_CUDA_NO_FACTS;

static void call(enum mp_cuda_call_id id, const void *arguments, int result)
{
    struct mp_cuda_visit visit = {0};
    mp_cuda_enter(id, arguments, &visit);
    mp_cuda_exit(id, arguments, result, &visit, &now);
}

#define CALL(symbol, result, ...) call(MP_CALL_##symbol, &(struct mp_params_##symbol){__VA_ARGS__}, result)

static void begin(void)
{
    spool = start(true);
    now.context = 0xc0;
    now.device = 0;
    struct mp_thread *thread = mp_hook_enter();
    mp_cuda_context_seen(thread, now.context, now.device, true);
    mp_hook_leave(thread);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

enum { HOST_LOCATION = 2 }; /* CU_MEM_LOCATION_TYPE_HOST */
enum { MEMORY = 40, RANGES = 12, HANDLES = 12, CONTEXTS = 3 };

static struct {
    struct {
        uint64_t bytes; /* 0: none there */
        enum mp_book book;
        int context; /* -1: of none */
    } memory[MEMORY];
    struct {
        uint64_t bytes;
        int handles, uses;
    } physical[HANDLES];
    int mapped[RANGES]; /* index of the memory mapped there, + 1 */
    uint64_t refused, failed;
} model;

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* Mostly success. */
static int some_result(void)
{
    uint64_t dice = next_random(10);
    model.refused += dice == 0;
    model.failed += dice == 1;
    return dice == 0 ? MP_CU_OUT_OF_MEMORY : dice == 1 ? MP_CU_INVALID_VALUE : MP_CU_SUCCESS;
}

static uint64_t address_of(size_t index)
{
    return 0x500000000 + index * 0x1000;
}

static uint64_t context_of(int index)
{
    return 0xc0 + (uint64_t)index;
}

static void alloc(size_t index)
{
    mp_cu_ptr address = address_of(index);
    uint64_t bytes = 1 + next_random(5000);
    int context = (int)next_random(CONTEXTS), result = some_result();
    size_t pitch = bytes;
    static const enum mp_book books[] = {MP_BOOK_DEVICE, MP_BOOK_MANAGED, MP_BOOK_PINNED, MP_BOOK_POOL, MP_BOOK_DEVICE};
    size_t kind = next_random(5);
    now.context = context_of(context);
    now.device = context % 2;
    if (kind == 0) CALL(cuMemAlloc_v2, result, &address, bytes);
    if (kind == 1) CALL(cuMemAllocManaged, result, &address, bytes, 1);
    if (kind == 2) CALL(cuMemHostAlloc, result, (void **)&address, bytes, 0);
    if (kind == 3) CALL(cuMemAllocAsync, result, &address, bytes, NULL);
    if (kind == 4) CALL(cuMemAllocPitch_v2, result, &address, &pitch, bytes, 1, 4);
    if (result) return;
    model.memory[index].bytes = bytes;
    model.memory[index].book = books[kind];
    model.memory[index].context = kind == 3 ? -1 - context % 2 : context;
}

static void release(size_t index)
{
    int result = next_random(8) ? MP_CU_SUCCESS : MP_CU_INVALID_VALUE;
    model.failed += result != 0;
    if (model.memory[index].book == MP_BOOK_PINNED)
        CALL(cuMemFreeHost, result, (void *)(uintptr_t)address_of(index));
    else if (model.memory[index].book == MP_BOOK_POOL)
        CALL(cuMemFreeAsync, result, address_of(index), NULL);
    else
        CALL(cuMemFree_v2, result, address_of(index));
    if (!result) model.memory[index].bytes = 0;
}

static uint64_t handle_of(size_t index)
{
    return 0x700000 + index * 16;
}

static void let_go_of_physical(size_t index)
{
    if (!model.physical[index].handles && !model.physical[index].uses) model.physical[index].bytes = 0;
}

static void create_or_release(size_t index)
{
    mp_cu_ptr handle = handle_of(index);
    struct mp_cu_allocation_prop prop = {.location = {MP_CU_LOCATION_DEVICE, 1}};
    int result = some_result();
    if (!model.physical[index].bytes) {
        uint64_t bytes = 1 + next_random(1 << 20);
        CALL(cuMemCreate, result, &handle, bytes, &prop, 0);
        if (!result) model.physical[index].bytes = bytes, model.physical[index].handles = 1;
        return;
    }
    model.failed += result == MP_CU_OUT_OF_MEMORY, model.refused -= result == MP_CU_OUT_OF_MEMORY;
    if (result) result = MP_CU_INVALID_VALUE;
    if (model.physical[index].handles && next_random(3)) {
        CALL(cuMemRelease, result, handle);
        if (!result) model.physical[index].handles--;
    } else if (model.physical[index].uses) {
        CALL(cuMemRetainAllocationHandle, MP_CU_SUCCESS, &handle, NULL);
        model.physical[index].handles++;
        model.failed -= result != 0;
    } else {
        model.failed -= result != 0;
    }
    let_go_of_physical(index);
}

static uint64_t range_of(size_t index)
{
    return 0x900000000 + index * 0x200000;
}

static void map_or_unmap(size_t range)
{
    size_t index = next_random(HANDLES);
    int result = next_random(8) ? MP_CU_SUCCESS : MP_CU_INVALID_VALUE;
    if (model.mapped[range]) {
        size_t run = 1;
        if (range + 1 < RANGES && model.mapped[range + 1]) run = 1 + next_random(2);
        CALL(cuMemUnmap, result, range_of(range), run * 0x200000);
        for (size_t i = range; !result && i < range + run; i++) {
            size_t was = (size_t)model.mapped[i] - 1;
            model.mapped[i] = 0;
            model.physical[was].uses--;
            let_go_of_physical(was);
        }
    } else if (model.physical[index].handles) {
        CALL(cuMemMap, result, range_of(range), 0x200000, 0, handle_of(index), 0);
        if (!result) model.mapped[range] = (int)index + 1, model.physical[index].uses++;
    } else {
        return;
    }
    model.failed += result != 0;
}

static void destroy_context(int context)
{
    CALL(cuCtxDestroy_v2, MP_CU_SUCCESS, (mp_cu_handle)(uintptr_t)context_of(context));
    for (size_t i = 0; i < MEMORY; i++)
        if (model.memory[i].context == context) model.memory[i].bytes = 0;
}

static void compare(void)
{
    size_t live = 0, handles = 0;
    take_records();
    for (size_t i = 0; i < reported.count; i++)
        handles += reported.blocks[i].track == mp_book_track(MP_BOOK_CONTEXTS, 0) ||
                   reported.blocks[i].track == mp_book_track(MP_BOOK_CONTEXTS, 1);
    for (size_t i = 0; i < MEMORY; i++) {
        if (!model.memory[i].bytes) continue;
        int context = model.memory[i].context, device = context < 0 ? -1 - context : context % 2;
        ck_assert_uint_eq(live_on(model.memory[i].book, device, address_of(i), model.memory[i].bytes), 1);
        live++;
    }
    for (size_t i = 0; i < HANDLES; i++) {
        if (!model.physical[i].bytes) continue;
        ck_assert_uint_eq(live_on(MP_BOOK_DEVICE, 1, handle_of(i), model.physical[i].bytes), 1);
        live++;
    }
    for (size_t i = 0; i < RANGES; i++) {
        if (!model.mapped[i]) continue;
        ck_assert_uint_eq(live_on(MP_BOOK_MAPPED, 1, range_of(i), 0x200000), 1);
        live++;
    }
    ck_assert_uint_eq(reported.count - handles, live);
    ck_assert_uint_eq(reported.refused, model.refused);
    ck_assert_uint_eq(reported.marks, model.failed);
    ck_assert_uint_eq(reported.unknown, 0);
}

START_TEST(random_calls_leave_what_the_model_has)
{
    begin();
    for (int i = 0; i < 60000; i++) {
        size_t index = next_random(MEMORY);
        switch (next_random(4)) {
        case 0:
        case 1:
            model.memory[index].bytes ? release(index) : alloc(index);
            break;
        case 2:
            create_or_release(next_random(HANDLES));
            break;
        default:
            map_or_unmap(next_random(RANGES));
        }
        if (next_random(2000) == 0) destroy_context((int)next_random(CONTEXTS));
        if (i % 37 == 0) compare();
    }
    compare();
}

/* ---- cases of their own ------------------------------------------------------------------------------------------ */

START_TEST(frees_of_unknown_addresses_count_once_they_succeed)
{
    begin();
    CALL(cuMemFree_v2, MP_CU_SUCCESS, 0x1234);
    CALL(cuMemFree_v2, MP_CU_INVALID_VALUE, 0x1234); /* freed twice */
    CALL(cuMemFree_v2, MP_CU_SUCCESS, 0);
    CALL(cuMemFree_v2, MP_CU_SUCCESS, 0x77);
    take_records();
    ck_assert_uint_eq(reported.unknown, 2);
    ck_assert_uint_eq(reported.marks, 1);
}

START_TEST(failures_without_a_driver_leave_no_marks)
{
    begin();
    CALL(cuMemFree_v2, MP_CU_DEINITIALIZED, 0x1234);
    CALL(cuMemFree_v2, MP_CU_NOT_INITIALIZED, 0x1234);
    take_records();
    ck_assert_uint_eq(reported.marks + reported.unknown, 0);
}

/* After a launch, memory that no node of the graph frees is live. The next launch frees it, and so may the program. */
START_TEST(a_launch_leaves_what_its_graph_does_not_free)
{
    begin();
    mp_cu_handle graph = (mp_cu_handle)0x10, node, executable = (mp_cu_handle)0x20;
    struct mp_cu_alloc_node kept = {
        .poolProps.location = {MP_CU_LOCATION_DEVICE, 0}, .bytesize = 1000, .dptr = 0x111000};
    struct mp_cu_alloc_node freed = kept;
    freed.dptr = 0x222000;
    CALL(cuGraphCreate, MP_CU_SUCCESS, &graph, 0);
    CALL(cuGraphAddMemAllocNode, MP_CU_SUCCESS, &node, graph, NULL, 0, &kept);
    CALL(cuGraphAddMemAllocNode, MP_CU_SUCCESS, &node, graph, NULL, 0, &freed);
    CALL(cuGraphAddMemFreeNode, MP_CU_SUCCESS, &node, graph, NULL, 0, freed.dptr);
    CALL(cuGraphInstantiateWithFlags, MP_CU_SUCCESS, &executable, graph, 0);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, kept.dptr, 1000), 1);
    ck_assert_uint_eq(live_on(MP_BOOK_GRAPH, 0, kept.dptr, 1000), 0);
    for (int i = 0; i < 3; i++) {
        CALL(cuGraphLaunch, MP_CU_SUCCESS, executable, NULL);
        take_records();
        ck_assert_uint_eq(live_on(MP_BOOK_GRAPH, 0, kept.dptr, 1000), 1);
        ck_assert_uint_eq(live_on(MP_BOOK_GRAPH, 0, freed.dptr, 1000), 0);
    }
    CALL(cuGraphDestroy, MP_CU_SUCCESS, graph);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, freed.dptr, 1000), 1); /* of the executable */
    CALL(cuGraphExecDestroy, MP_CU_SUCCESS, executable);
    CALL(cuMemFreeAsync, MP_CU_SUCCESS, kept.dptr, NULL);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, freed.dptr, 1000), 0);
    ck_assert_uint_eq(live_on(MP_BOOK_GRAPH, 0, kept.dptr, 1000), 0);
    ck_assert_uint_eq(reported.unknown, 0);
}

START_TEST(a_captured_allocation_is_a_node)
{
    begin();
    mp_cu_handle stream = (mp_cu_handle)0x30, other = (mp_cu_handle)0x31, graph = (mp_cu_handle)0x40;
    mp_cu_ptr block = 0x333000, joined = 0x444000;
    CALL(cuStreamBeginCapture_v2, MP_CU_SUCCESS, stream, 0);
    CALL(cuMemAllocAsync, MP_CU_SUCCESS, &block, 64, stream);
    now.capturing = 1;
    CALL(cuMemAllocAsync, MP_CU_SUCCESS, &joined, 64, other); /* of a stream that joined */
    now.capturing = MP_NOT_KNOWN;
    CALL(cuMemFreeAsync, MP_CU_SUCCESS, block, stream);
    CALL(cuStreamEndCapture, MP_CU_SUCCESS, stream, &graph);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, block, 64), 1);
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, joined, 64), 1);
    ck_assert_uint_eq(live_on(MP_BOOK_POOL, 0, block, 64), 0);
    CALL(cuGraphDestroy, MP_CU_SUCCESS, graph);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_NODES, 0, block, 64) + live_on(MP_BOOK_NODES, 0, joined, 64), 0);
    ck_assert_uint_eq(reported.unknown, 0);
}

/* A destroyed pool's memory is released with its last block. */
START_TEST(a_pool_holds_until_its_last_block)
{
    begin();
    mp_cu_handle pool = (mp_cu_handle)0x50;
    struct mp_cu_pool_props props = {.allocType = MP_CU_ALLOCATION_PINNED, .location = {MP_CU_LOCATION_DEVICE, 0}};
    mp_cu_ptr block = 0x555000;
    CALL(cuMemPoolCreate, MP_CU_SUCCESS, &pool, &props);
    now.pool = 0x50, now.pool_bytes = 1 << 20;
    CALL(cuMemAllocFromPoolAsync, MP_CU_SUCCESS, &block, 100, pool, NULL);
    now.pool = 0;
    CALL(cuMemPoolDestroy, MP_CU_SUCCESS, pool);
    take_records();
    ck_assert_uint_eq(reported.reserved, 1 << 20);
    CALL(cuMemFreeAsync, MP_CU_SUCCESS, block, NULL);
    take_records();
    ck_assert_uint_eq(reported.reserved, 0);
}

/* Each device's pools have a sum, and so have the host's, independent of the current device. */
START_TEST(pools_are_summed_by_where_their_memory_is)
{
    static const struct {
        struct mp_cu_location location;
        enum mp_book book;
    } pools[] = {{{MP_CU_LOCATION_DEVICE, 0}, MP_BOOK_POOL},
                 {{HOST_LOCATION, 0}, MP_BOOK_HOST_POOL},
                 {{MP_CU_LOCATION_DEVICE, 1}, MP_BOOK_POOL},
                 {{MP_CU_LOCATION_DEVICE, 0}, MP_BOOK_POOL},
                 {{HOST_LOCATION, 0}, MP_BOOK_HOST_POOL}};
    enum { POOLS = sizeof pools / sizeof *pools };
    uint64_t device[2] = {0}, host = 0;
    begin();
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t i = 0; i < POOLS; i++) {
            mp_cu_handle pool = (mp_cu_handle)(uintptr_t)(0x60 + i);
            mp_cu_ptr block = 0x700000 + (i << 8);
            struct mp_cu_pool_props props = {.allocType = MP_CU_ALLOCATION_PINNED, .location = pools[i].location};
            uint64_t holds = (i + 1) << 20;
            now.pool = 0x60 + i, now.pool_bytes = round ? 0 : holds;
            if (!round) {
                CALL(cuMemPoolCreate, MP_CU_SUCCESS, &pool, &props);
                CALL(cuMemAllocFromPoolAsync, MP_CU_SUCCESS, &block, 100, pool, NULL);
            } else {
                CALL(cuMemFreeAsync, MP_CU_SUCCESS, block, NULL);
                CALL(cuMemPoolDestroy, MP_CU_SUCCESS, pool);
            }
            now.pool = 0;
            *(pools[i].book == MP_BOOK_HOST_POOL ? &host : &device[pools[i].location.id]) += round ? -holds : holds;
            take_records();
            for (int d = 0; d < 2; d++)
                ck_assert_uint_eq(reported.reserved_on[mp_book_track(MP_BOOK_POOL, d)], device[d]);
            ck_assert_uint_eq(reported.reserved_on[mp_book_track(MP_BOOK_HOST_POOL, 0)], host);
        }
    ck_assert_uint_eq(reported.unknown, 0);
}

/* Each pool has a number of its own; no pool has no number. */
START_TEST(pools_have_numbers_of_their_own)
{
    uint64_t numbers[5];
    struct mp_live held;
    begin();
    for (int i = 0; i < 5; i++) {
        numbers[i] = mp_book_new_pool(i % 2, MP_POOL_OF_HOST);
        ck_assert_uint_ne(numbers[i], 0);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(numbers[i], numbers[k]);
    }
    for (int i = 0; i < 5; i++) {
        ck_assert(mp_live_find(MP_LIVE_HELD, numbers[i], &held));
        ck_assert_int_eq(held.device, i % 2);
        ck_assert_uint_eq(held.origin, MP_POOL_OF_HOST);
        ck_assert_uint_eq(held.bytes, 0);
        ck_assert_uint_eq(held.refs, 0);
    }
}

START_TEST(sizes_of_arrays)
{
    begin();
    static const struct {
        struct mp_cu_array3d array;
        uint64_t bytes;
    } cases[] = {
        {{100, 50, 0, 0x20, 4, 0}, 100 * 50 * 16},                    /* float4 */
        {{77, 0, 0, 0x01, 1, 0}, 77},                                 /* one row */
        {{64, 64, 0, 0x91, 4, 0}, 64 * 64 / 2},                       /* BC1: 8 bytes for 4 x 4 */
        {{64, 64, 0, 0x9d, 4, 0}, 64 * 64},                           /* BC7: 16 bytes */
        {{64, 32, 0, 0xb0, 3, 0}, 64 * 32 * 3 / 2},                   /* NV12 */
        {{20, 10, 3, 0x10, 4, MP_CU_ARRAY_LAYERED}, 20 * 10 * 3 * 8}, /* half4, layers */
        {{64, 64, 64, 0x20, 1, MP_CU_ARRAY_SPARSE}, 0},               /* memory comes later */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_cu_handle handle = (mp_cu_handle)(0x1000 + i * 16);
        CALL(cuArray3DCreate_v2, MP_CU_SUCCESS, &handle, &cases[i].array);
        take_records();
        ck_assert_uint_eq(live_on(MP_BOOK_DEVICE, 0, 0x1000 + i * 16, cases[i].bytes), 1);
    }
}

/* The same memory opened twice has one address, and ends when closed twice. */
START_TEST(openings_of_shared_memory_are_counted)
{
    begin();
    mp_cu_ptr address = 0x666000;
    struct mp_cu_ipc_handle handle = {{0}};
    now.bytes = 4096;
    CALL(cuIpcOpenMemHandle_v2, MP_CU_SUCCESS, &address, handle, 1);
    CALL(cuIpcOpenMemHandle_v2, MP_CU_SUCCESS, &address, handle, 1);
    CALL(cuIpcCloseMemHandle, MP_CU_SUCCESS, address);
    CALL(cuIpcCloseMemHandle, MP_CU_INVALID_VALUE, address);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_IMPORTED, 0, address, 4096), 1);
    CALL(cuIpcCloseMemHandle, MP_CU_SUCCESS, address);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_IMPORTED, 0, address, 4096), 0);
    ck_assert_uint_eq(reported.unknown, 0);
}

START_TEST(a_primary_context_ends_when_the_driver_says_so)
{
    begin();
    mp_cu_handle context = (mp_cu_handle)0xc0;
    mp_cu_ptr address = 0x777000;
    CALL(cuDevicePrimaryCtxRetain, MP_CU_SUCCESS, &context, 0);
    CALL(cuMemAlloc_v2, MP_CU_SUCCESS, &address, 100);
    now.active = 1;
    CALL(cuDevicePrimaryCtxRelease_v2, MP_CU_SUCCESS, 0);
    take_records();
    ck_assert_uint_eq(live_on(MP_BOOK_DEVICE, 0, address, 100), 1);
    now.active = 0;
    now.context = 0;
    CALL(cuDevicePrimaryCtxRelease_v2, MP_CU_SUCCESS, 0);
    take_records();
    ck_assert_uint_eq(reported.count, 0);
}

MP_SUITE("booking", random_calls_leave_what_the_model_has, frees_of_unknown_addresses_count_once_they_succeed,
         failures_without_a_driver_leave_no_marks, a_launch_leaves_what_its_graph_does_not_free,
         a_captured_allocation_is_a_node, a_pool_holds_until_its_last_block, pools_are_summed_by_where_their_memory_is,
         pools_have_numbers_of_their_own, sizes_of_arrays, openings_of_shared_memory_are_counted,
         a_primary_context_ends_when_the_driver_says_so)
