/*
 * CUPTI's records of memory and of pools. Each memory record is held against the call that a callback told of before:
 * by correlation id and address, or by address alone where the id is another's (a runtime call around it). Records come
 * late, in no order, on any thread.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "capture/cuda/booking.h"
#include "capture/cuda/cupti.h"
#include "capture/futex.h"
#include "capture/session.h"

/* ---- what is expected ---------------------------------------------------------------------------------------------
 */

/* Sets of ways: of calls on the same address the oldest comes first. What falls out of a full set is not compared. */
#define SETS UINT64_C(16384)
#define WAYS 8
struct expected {
    uint64_t address, bytes;
    uint32_t correlation, order;
    uint8_t operation, side; /* enum side; 0: free */
};
static struct expected *expected; /* SETS * WAYS, mapped */
#define LOCKS 64
static mp_lock locks[LOCKS];
static _Atomic uint32_t order;

/* Loads of code whose variables will be told of by records. */
#define LOADS 256
static struct load {
    _Atomic uint32_t correlation;
    uint64_t context;
    uint32_t stack;
} loads[LOADS];

static struct expected *set_of(uint64_t address, mp_lock **lock)
{
    uint64_t set = mp_hash_mix(address) % SETS;
    *lock = &locks[set % LOCKS];
    return expected + set * WAYS;
}

enum side { CALL = 1, RECORD = 2 };

/* How well a call and a record agree: in their correlation ids, which not every record has, before their sizes. */
static unsigned likeness(const struct expected *one, const struct expected *other)
{
    return 2u * (one->correlation == other->correlation) + (one->bytes == other->bytes);
}

/* The other side's entry for the same, of those that are most alike the oldest; NULL. */
static struct expected *find_partner(struct expected *set, const struct expected *wanted)
{
    struct expected *found = NULL;
    for (unsigned i = 0; i < WAYS; i++) {
        struct expected *at = &set[i];
        if (!at->side || at->side == wanted->side || at->operation != wanted->operation ||
            at->address != wanted->address)
            continue;
        unsigned like = likeness(at, wanted), best = found ? likeness(found, wanted) : 0;
        if (!found || like > best || (like == best && (int32_t)(at->order - found->order) < 0)) found = at;
    }
    return found;
}

/* Pairs a call with its record, whichever comes first. True with *partner where the other was there. */
static bool pair(struct expected entry, struct expected *partner)
{
    mp_lock *lock;
    if (!expected || !entry.address) return false;
    struct expected *set = set_of(entry.address, &lock), *found, *to = set;
    mp_lock_take(lock);
    found = find_partner(set, &entry);
    if (found) {
        *partner = *found;
        found->side = 0;
    } else {
        for (unsigned i = 0; i < WAYS && to->side; i++)
            if (!set[i].side || (int32_t)(set[i].order - to->order) < 0) to = &set[i];
        entry.order = atomic_fetch_add(&order, 1);
        *to = entry;
    }
    mp_lock_release(lock);
    return found;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void paired(const struct expected *one, const struct expected *other)
{
    struct mp_spool_cupti *counters = &mp_session.header->cupti;
    bool known = one->bytes != MP_BYTES_UNKNOWN && other->bytes != MP_BYTES_UNKNOWN;
    count(known && one->bytes != other->bytes ? &counters->different : &counters->agreed);
}

static void expect(uint64_t address, uint64_t bytes, uint32_t operation, uint32_t correlation)
{
    struct expected call = {
        .address = address, .bytes = bytes, .correlation = correlation, .operation = (uint8_t)operation, .side = CALL};
    struct expected record;
    if (pair(call, &record)) paired(&call, &record);
}

static void expect_variables(uint32_t correlation, mp_cu_handle context)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct load *load = &loads[correlation % LOADS];
    load->context = (uint64_t)(uintptr_t)context;
    load->stack = mp_book_stack(thread);
    atomic_store_explicit(&load->correlation, correlation, memory_order_release);
    mp_hook_leave(thread);
}

static bool has_records(enum mp_book book)
{
    return book == MP_BOOK_DEVICE || book == MP_BOOK_MANAGED || book == MP_BOOK_PINNED || book == MP_BOOK_POOL;
}

/* Of what began: its address and size, where that is what was asked for. */
static void expect_alloc(const struct mp_cuda_call *call, const void *arguments, uint32_t correlation)
{
    const struct mp_params_cuMemAlloc_v2 *a = arguments; /* the first two arguments of all that are like it */
    const struct mp_params_cuMemAlloc *old = arguments;
    switch (call->action) {
    case MP_CUDA_ALLOC:
    case MP_CUDA_ALLOC_MANAGED:
    case MP_CUDA_ALLOC_ASYNC:
    case MP_CUDA_ALLOC_FROM_POOL:
    case MP_CUDA_HOST_ALLOC:
        expect(*a->dptr, a->bytesize, MP_CUPTI_ALLOCATION, correlation);
        return;
    case MP_CUDA_ALLOC_PITCH:
    case MP_CUDA_HOST_ALLOC_V1:
        expect(*a->dptr, MP_BYTES_UNKNOWN, MP_CUPTI_ALLOCATION, correlation);
        return;
    case MP_CUDA_ALLOC_V1:
    case MP_CUDA_ALLOC_PITCH_V1:
        expect(*old->dptr, MP_BYTES_UNKNOWN, MP_CUPTI_ALLOCATION, correlation);
        return;
    default:
        return;
    }
}

void mp_cupti_expect(const struct mp_cuda_call *call, const struct mp_cupti_call *data,
                     const struct mp_cuda_visit *visit)
{
    bool loads_code = call->action == MP_CUDA_MODULE_LOAD || call->action == MP_CUDA_LIBRARY_LOAD;
    if (loads_code) expect_variables(data->correlationId, data->context);
    if (has_records(visit->began)) expect_alloc(call, data->functionParams, data->correlationId);
    for (unsigned i = 0; i < visit->taken_count; i++) {
        const struct mp_live *taken = &visit->taken[i];
        if (taken->class == MP_LIVE_MEMORY && has_records(taken->book))
            expect(taken->value, MP_BYTES_UNKNOWN, MP_CUPTI_RELEASE, data->correlationId);
    }
}

/* ---- records ------------------------------------------------------------------------------------------------------
 */

static void take_variable(struct mp_thread *thread, const struct mp_cupti_memory *record)
{
    bool managed = record->memoryKind == MP_CUPTI_MEMORY_MANAGED_STATIC;
    struct mp_live variable = {.value = record->address,
                               .bytes = record->bytes,
                               .refs = 1,
                               .device = (int16_t)record->deviceId,
                               .class = MP_LIVE_STATIC,
                               .book = managed ? MP_BOOK_MANAGED : MP_BOOK_DEVICE,
                               .kind = managed ? MP_KIND_MANAGED : MP_KIND_DEVICE};
    if (record->memoryOperationType == MP_CUPTI_RELEASE) {
        if (mp_live_take(MP_LIVE_STATIC, record->address, &variable)) mp_book_end(thread, &variable);
        return;
    }
    const struct load *load = &loads[record->correlationId % LOADS];
    if (atomic_load_explicit(&load->correlation, memory_order_acquire) == record->correlationId) {
        variable.context = load->context;
        variable.stack = load->stack;
    }
    mp_book_begin(thread, &variable);
}

static void compare(const struct mp_cupti_memory *memory)
{
    struct expected record = {.address = memory->address,
                              .bytes = memory->bytes,
                              .correlation = memory->correlationId,
                              .operation = (uint8_t)memory->memoryOperationType,
                              .side = RECORD};
    struct expected call;
    if (pair(record, &call)) paired(&record, &call);
}

/* What the program's pools hold, unless the hooks ask the driver itself: then that is newer and exact. */
static void pool_holds(struct mp_thread *thread, uint64_t address, uint32_t device, uint64_t bytes, uint64_t when)
{
    struct mp_live held = {.value = address, .refs = 1, .device = (int16_t)device, .class = MP_LIVE_HELD}, known;
    if (!address || mp_cuda_hooks_ask()) return;
    if (!mp_live_find(MP_LIVE_HELD, address, &known)) mp_live_put(&held, &known);
    mp_book_pool_holds(thread, address, bytes, when);
}

static void take_memory(struct mp_thread *thread, const struct mp_cupti_memory *record)
{
    bool is_variable =
        record->memoryKind == MP_CUPTI_MEMORY_DEVICE_STATIC || record->memoryKind == MP_CUPTI_MEMORY_MANAGED_STATIC;
    count(&mp_session.header->cupti.records);
    if (is_variable)
        take_variable(thread, record);
    else if (record->memoryKind != MP_CUPTI_MEMORY_ARRAY)
        compare(record);
    if (record->memoryPoolConfig.memoryPoolType == MP_CUPTI_POOL_LOCAL)
        pool_holds(thread, record->memoryPoolConfig.address, record->deviceId, record->memoryPoolConfig.pool.size,
                   record->timestamp);
}

static void take_pool(struct mp_thread *thread, const struct mp_cupti_pool *record)
{
    bool destroyed = record->memoryPoolOperationType == MP_CUPTI_POOL_DESTROYED;
    if (record->memoryPoolType == MP_CUPTI_POOL_LOCAL)
        pool_holds(thread, record->address, record->deviceId, destroyed ? 0 : record->size, record->timestamp);
}

void mp_cupti_take_record(const void *record)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    /* Layouts differ at their ends only, by the library's version: nothing that is read here lies there. */
    switch (*(const uint32_t *)record) {
    case MP_CUPTI_MEMORY2:
        take_memory(thread, record);
        break;
    case MP_CUPTI_MEMORY_POOL:
        take_pool(thread, record);
        break;
    default:
        count(&mp_session.header->cupti.unreadable);
    }
    mp_hook_leave(thread);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------
 */

/* Small, since later libraries take one for each thread. Free ones are a list through their first words. */
#define BUFFER_BYTES ((size_t)64 << 10)
static mp_lock buffers_lock;
static uint8_t *free_buffers;

void mp_cupti_request_buffer(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
    mp_lock_take(&buffers_lock);
    *buffer = free_buffers;
    if (free_buffers) memcpy(&free_buffers, free_buffers, sizeof free_buffers);
    mp_lock_release(&buffers_lock);
    *bytes = BUFFER_BYTES;
    *records_max = 0;
    if (*buffer) return;
    void *fresh = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *buffer = fresh == MAP_FAILED ? NULL : fresh;
    if (!*buffer) *bytes = 0; /* CUPTI drops its records, and counts */
}

static void give_back(uint8_t *buffer)
{
    mp_lock_take(&buffers_lock);
    memcpy(buffer, &free_buffers, sizeof free_buffers);
    free_buffers = buffer;
    mp_lock_release(&buffers_lock);
}

void mp_cupti_take_buffer(mp_cu_handle context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    (void)context, (void)stream;
    void *record = NULL;
    size_t dropped = 0;
    int status = MP_CUPTI_SUCCESS;
    while (valid_bytes && valid_bytes <= bytes && mp_session_recording() &&
           !(status = mp_cupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &record)))
        mp_cupti_take_record(record);
    if (mp_session_recording()) {
        struct mp_spool_cupti *counters = &mp_session.header->cupti;
        if ((status && status != MP_CUPTI_MAX_LIMIT_REACHED) || valid_bytes > bytes) count(&counters->unreadable);
        if (!mp_cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped))
            atomic_fetch_add(&counters->dropped, dropped);
    }
    if (buffer) give_back(buffer);
}

bool mp_cupti_records_start(void)
{
    void *room = mmap(NULL, SETS * WAYS * sizeof *expected, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    expected = room;
    return true;
}

/* What was left alone. A free without a call, of what is not live, is one of many that came with a context's end. */
void mp_cupti_records_end(void)
{
    struct mp_spool_cupti *counters = &mp_session.header->cupti;
    struct mp_live live;
    uint64_t calls = 0, records = 0;
    for (struct expected *at = expected; at && at < expected + SETS * WAYS; at++) {
        bool so = at->operation == MP_CUPTI_RELEASE && !mp_live_find(MP_LIVE_MEMORY, at->address, &live);
        calls += at->side == CALL;
        records += at->side == RECORD && !so;
    }
    atomic_store(&counters->without_record, calls);
    atomic_store(&counters->without_call, records);
}
