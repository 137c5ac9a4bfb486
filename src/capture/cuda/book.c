#include "capture/cuda/book.h"

#include <string.h>

#include "capture/core/session.h"
#include "capture/native/loaded.h"
#include "capture/stack/stack.h"

static const struct {
    const char *name;
    bool of_host;
} books[MP_BOOKS] = {
    [MP_BOOK_DEVICE] = {"", false},
    [MP_BOOK_POOL] = {"pool", false},
    [MP_BOOK_GRAPH] = {"graph", false},
    [MP_BOOK_NODES] = {"nodes", false},
    [MP_BOOK_MANAGED] = {"managed", false},
    [MP_BOOK_ADDRESSES] = {"addresses", false},
    [MP_BOOK_MAPPED] = {"mapped", false},
    [MP_BOOK_IMPORTED] = {"imported", false},
    [MP_BOOK_PINNED] = {"", true},
    [MP_BOOK_HOST_POOL] = {"pool", true},
    [MP_BOOK_REGISTERED] = {"registered", true},
    [MP_BOOK_CONTEXTS] = {"contexts", false},
    [MP_BOOK_MODULES] = {"modules", false},
    [MP_BOOK_LIBRARIES] = {"libraries", false},
    [MP_BOOK_STREAMS] = {"streams", false},
    [MP_BOOK_EVENTS] = {"events", false},
    [MP_BOOK_GRAPHS] = {"graphs", false},
    [MP_BOOK_EXECUTABLES] = {"executables", false},
    [MP_BOOK_POOLS] = {"pools", false},
    [MP_BOOK_MULTICAST] = {"multicast", false},
};

/* Bytes that the pools of each device (last: of the host) hold, and bytes of each device's graphs. They change under
 * the lock, so that the last record has the last sum. */
#define HOST MP_CUDA_DEVICES
static mp_lock holding;
static _Atomic uint64_t last_pool;
static uint64_t pools_hold[MP_CUDA_DEVICES + 1], graphs_hold[MP_CUDA_DEVICES];

uint16_t mp_book_track(enum mp_book book, int device)
{
    static _Atomic uint64_t known[MP_BOOKS][MP_CUDA_DEVICES];
    bool of_host = books[book].of_host;
    if (device < 0 || device >= MP_CUDA_DEVICES || of_host) device = 0;
    return mp_record_track_once(&known[book][device], of_host ? MP_DEVICE_CPU : MP_DEVICE_CUDA, of_host ? -1 : device,
                                MP_LAYER_DRIVER, MP_BASIS_EXACT, books[book].name);
}

static struct mp_block_facts block_of(const struct mp_live *entry)
{
    return (struct mp_block_facts){
        .track = mp_book_track(entry->book, entry->device),
        .kind = entry->kind,
        .address = entry->class == MP_LIVE_NODE ? entry->other : entry->value,
        .bytes = entry->kind == MP_KIND_HANDLE ? 0 : entry->bytes,
        .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
        .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
        .stack_known = true,
        .stack = entry->stack,
        .module = entry->module,
    };
}

struct mp_captured mp_book_stack(struct mp_thread *thread)
{
    return mp_stack_capture(thread, false);
}

static void record_free(struct mp_thread *thread, struct mp_block_facts *block)
{
    block->stack = block->module = 0;
    block->stack_known = !mp_session.config.free_stacks;
    mp_record_free(thread, block);
}

void mp_book_end_unknown(struct mp_thread *thread, enum mp_book book, int device, uint64_t value)
{
    struct mp_live entry = {.value = value, .bytes = MP_BYTES_UNKNOWN, .device = (int16_t)device, .book = book};
    struct mp_block_facts block = block_of(&entry);
    record_free(thread, &block);
}

/* True if PyTorch's caching allocator may have asked for memory that the driver refused: c10's CUDA library is loaded,
 * under any file name. */
static void look_for_allocator(void)
{
    static struct mp_loaded_end looked_until; /* so that frequent refusals cost little */
    static _Atomic bool is_there;             /* stays true once it is found, also in a forked child's session */
    struct mp_loaded found;
    _Atomic uint32_t *has = &mp_session.header->seen.has_cuda_allocator;
    if (atomic_load_explicit(has, memory_order_relaxed)) return;
    if (!atomic_load(&is_there) && mp_loaded_more(&looked_until) &&
        mp_loaded_with("_ZN3c104cuda12device_countEv", NULL, &found)) /* int8_t c10::cuda::device_count() */
        atomic_store(&is_there, true);
    if (atomic_load(&is_there)) atomic_store(has, 1);
}

void mp_book_refused(struct mp_thread *thread, enum mp_book book, int device, uint64_t bytes)
{
    struct mp_live entry = {.bytes = bytes, .device = (int16_t)device, .book = book};
    struct mp_block_facts block = block_of(&entry);
    block.stack_known = false;
    if (!books[book].of_host) look_for_allocator();
    mp_record_oom(thread, &block);
}

static bool take_holding(void)
{
    bool taken = mp_lock_take(&holding);
    if (!taken) mp_session_without_lock();
    return taken;
}

static void pool_changed(struct mp_thread *thread, const struct mp_live *pool, uint64_t before, uint64_t after)
{
    bool of_host = pool->origin == MP_POOL_OF_HOST;
    if (before == after || pool->device < 0 || pool->device >= MP_CUDA_DEVICES) return;
    uint16_t track = mp_book_track(of_host ? MP_BOOK_HOST_POOL : MP_BOOK_POOL, pool->device);
    if (!take_holding()) return;
    uint64_t *hold = &pools_hold[of_host ? HOST : pool->device];
    *hold += after - before;
    if (track != MP_TRACK_NONE) mp_record_reserved(thread, track, *hold);
    mp_lock_release(&holding);
}

/* True for a pool and its blocks: the pool's memory exists as long as one of these does. */
static bool is_of_pool(const struct mp_live *entry)
{
    return entry->other && (entry->class == MP_LIVE_MEMORY || entry->class == MP_LIVE_POOL);
}

void mp_book_end(struct mp_thread *thread, const struct mp_live *entry)
{
    struct mp_live held;
    if (entry->book) {
        struct mp_block_facts block = block_of(entry);
        record_free(thread, &block);
    }
    if (is_of_pool(entry) && mp_live_count(MP_LIVE_HELD, entry->other, -1, 0, &held) && !held.refs)
        pool_changed(thread, &held, held.bytes, 0);
}

void mp_book_begin(struct mp_thread *thread, struct mp_live *entry)
{
    struct mp_live before, held;
    /* CUPTI's records report variables on any thread, so the current stack is not theirs. */
    if (entry->book && !entry->stack && entry->class != MP_LIVE_STATIC) {
        struct mp_captured captured = mp_book_stack(thread);
        entry->stack = captured.stack;
        entry->module = captured.module;
    }
    if (is_of_pool(entry)) mp_live_count(MP_LIVE_HELD, entry->other, 1, 0, &held);
    if (mp_live_put(entry, &before)) mp_book_end(thread, &before);
    if (!entry->book) return;
    struct mp_block_facts block = block_of(entry);
    mp_record_alloc(thread, &block);
}

void mp_book_has_size(struct mp_thread *thread, uint64_t address, uint64_t bytes)
{
    struct mp_live block;
    if (!mp_live_find(MP_LIVE_MEMORY, address, &block) || block.bytes) return;
    block.bytes = bytes;
    mp_book_begin(thread, &block);
}

uint64_t mp_book_new_pool(int device, unsigned origin)
{
    struct mp_live before, held = {.value = atomic_fetch_add(&last_pool, 1) + 1,
                                   .device = (int16_t)device,
                                   .class = MP_LIVE_HELD,
                                   .origin = (uint8_t)origin};
    mp_live_put(&held, &before);
    return held.value;
}

void mp_book_pool_holds(struct mp_thread *thread, uint64_t number, uint64_t bytes, uint64_t when)
{
    struct mp_live before;
    if (mp_live_set_bytes(MP_LIVE_HELD, number, bytes, when, &before))
        pool_changed(thread, &before, before.bytes, bytes);
}

void mp_book_graphs_hold(struct mp_thread *thread, int device, uint64_t bytes)
{
    if (device < 0 || device >= MP_CUDA_DEVICES) return;
    uint16_t track = mp_book_track(MP_BOOK_GRAPH, device);
    if (!take_holding()) return;
    bool changed = graphs_hold[device] != bytes;
    graphs_hold[device] = bytes;
    if (changed && track != MP_TRACK_NONE) mp_record_reserved(thread, track, bytes);
    mp_lock_release(&holding);
}

void mp_book_reset(void)
{
    memset(pools_hold, 0, sizeof pools_hold);
    memset(graphs_hold, 0, sizeof graphs_hold);
    memset(&holding, 0, sizeof holding);
}
