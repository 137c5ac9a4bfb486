/*
 * CUPTI's records of memory and of pools. Each memory record is compared with the call that a callback reported. Both
 * belong together if correlation id and address are equal. A record may have the id of a runtime call around the
 * driver's call; then only the address counts. Records come late, in no order, on any thread.
 */
#include "capture/cuda/cupti_records.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/kernel.h"
#include "capture/core/lock.h"
#include "capture/core/room.h"
#include "capture/core/session.h"
#include "capture/cuda/booking.h"
#include "capture/cuda/cupti_library.h"

/* ---- calls and records that wait for their partner -------------------------------------------------------------- */

/* A hash table of sets with WAYS entries each. The oldest of several calls on one address is paired first. One address
 * may be allocated many times before CUPTI reports the first call. A set that overflows is emptied, and compares
 * nothing until it has seen as many records as calls. */
#define SETS UINT64_C(16384)
#define WAYS 8
struct expected {
    uint64_t address, bytes, when; /* `when`: by the clock of callbacks or records */
    uint32_t correlation;
    uint8_t operation, side; /* enum side; 0: free */
};
static struct expected *expected; /* SETS * WAYS, mapped */
static struct overflow {
    bool is_full;
    int32_t ahead; /* calls less records since the set was last empty */
} * overflows;     /* SETS, mapped behind `expected` */
#define LOCKS 64
static mp_lock locks[LOCKS];

/* Calls that load code, by correlation id: records will report the code's variables. */
#define LOADS 256
static struct load {
    _Atomic uint32_t correlation;
    uint64_t context;
    uint32_t stack;
} loads[LOADS];

/* Calls that end contexts, by correlation id: many records belong to each call. */
#define ENDS 64
static _Atomic uint32_t ends[ENDS];

static struct expected *set_of(uint64_t address, mp_lock **lock)
{
    uint64_t set = mp_hash_mix(address) % SETS;
    *lock = &locks[set % LOCKS];
    return expected + set * WAYS;
}

enum side { CALL = 1, RECORD = 2 };

static void count_one(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void paired(const struct expected *one, const struct expected *other)
{
    struct mp_spool_cupti *counters = &mp_session.header->cupti;
    bool known = one->bytes != MP_BYTES_UNKNOWN && other->bytes != MP_BYTES_UNKNOWN;
    count_one(known && one->bytes != other->bytes ? &counters->different : &counters->agreed);
}

/* Finds the oldest matching entry of the other side: with the same correlation id, or with `any` id. */
static struct expected *find_partner(struct expected *set, const struct expected *wanted, bool any)
{
    struct expected *found = NULL;
    for (struct expected *at = set; at < set + WAYS; at++)
        if (at->side && at->side != wanted->side && at->operation == wanted->operation &&
            at->address == wanted->address && (any || at->correlation == wanted->correlation) &&
            (!found || at->when < found->when))
            found = at;
    return found;
}

/* Pairs the remaining entries by address, the oldest with the oldest. Records may have no ids, or the ids of runtime
 * calls around the driver's. */
static void settle(struct expected *set)
{
    for (struct expected *at = set; at < set + WAYS; at++) {
        struct expected *record = at->side == CALL ? find_partner(set, at, true) : NULL;
        struct expected *call = record ? find_partner(set, record, true) : NULL;
        if (!call) continue;
        paired(call, record);
        call->side = record->side = 0;
        at = set - 1; /* continues from the first entry */
    }
}

/* A free entry of the set. NULL: the set is full. */
static struct expected *room_in(struct expected *set)
{
    for (int tries = 0; tries < 2; tries++) {
        for (struct expected *at = set; at < set + WAYS; at++)
            if (!at->side) return at;
        settle(set);
    }
    return NULL;
}

static void count_only(struct overflow *overflow, enum side side)
{
    overflow->ahead += side == CALL ? 1 : -1;
    overflow->is_full = overflow->ahead != 0;
}

static void give_up(struct expected *set, struct overflow *overflow)
{
    overflow->ahead = 0;
    for (struct expected *at = set; at < set + WAYS; at++) {
        overflow->ahead += at->side == CALL ? 1 : -1;
        at->side = 0;
    }
}

/* Pairs a call with its record, whichever comes first. */
static void pair(struct expected entry)
{
    mp_lock *lock;
    if (!expected || !entry.address) return;
    struct expected *set = set_of(entry.address, &lock);
    if (!mp_lock_take(lock)) return;
    struct overflow *overflow = &overflows[(size_t)(set - expected) / WAYS];
    struct expected *partner = !overflow->is_full && entry.correlation ? find_partner(set, &entry, false) : NULL;
    struct expected *room = overflow->is_full || partner ? NULL : room_in(set);
    if (partner) {
        paired(&entry, partner);
        partner->side = 0;
    } else if (room) {
        *room = entry;
    } else {
        if (!overflow->is_full) give_up(set, overflow);
        count_only(overflow, entry.side);
    }
    mp_lock_release(lock);
}

static void expect(uint64_t address, uint64_t bytes, uint32_t operation, uint32_t correlation)
{
    struct expected call = {.address = address,
                            .bytes = bytes,
                            .when = mp_clock_monotonic_ns(),
                            .correlation = correlation,
                            .operation = (uint8_t)operation,
                            .side = CALL};
    pair(call);
}

static void expect_variables(uint32_t correlation, mp_cu_handle context)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct load *load = &loads[correlation % LOADS];
    load->context = (uint64_t)(uintptr_t)context;
    load->stack = mp_book_stack(thread).stack;
    atomic_store_explicit(&load->correlation, correlation, memory_order_release);
    mp_hook_leave(thread);
}

static bool has_records(enum mp_book book)
{
    return book == MP_BOOK_DEVICE || book == MP_BOOK_MANAGED || book == MP_BOOK_PINNED || book == MP_BOOK_POOL;
}

/* Expects a record of the block that the call began: with its address, and with its size if CUPTI reports the requested
 * size. */
static void expect_alloc(const struct mp_cuda_call *call, const void *arguments, uint32_t correlation)
{
    const struct mp_params_cuMemAlloc_v2 *a = arguments; /* all these calls begin with the same two arguments */
    switch (call->action) {
    case MP_CUDA_ALLOC:
    case MP_CUDA_ALLOC_MANAGED:
    case MP_CUDA_ALLOC_ASYNC:
    case MP_CUDA_ALLOC_FROM_POOL:
    case MP_CUDA_HOST_ALLOC:
        expect(*a->dptr, a->bytesize, MP_CUPTI_ALLOCATION, correlation);
        return;
    case MP_CUDA_ALLOC_PITCH:
        expect(*a->dptr, MP_BYTES_UNKNOWN, MP_CUPTI_ALLOCATION, correlation);
        return;
    default:
        return;
    }
}

bool mp_cupti_has_record(enum mp_cuda_action action)
{
    switch (action) {
    case MP_CUDA_ALLOC:
    case MP_CUDA_ALLOC_PITCH:
    case MP_CUDA_ALLOC_MANAGED:
    case MP_CUDA_FREE:
    case MP_CUDA_HOST_ALLOC:
    case MP_CUDA_HOST_FREE:
    case MP_CUDA_ALLOC_ASYNC:
    case MP_CUDA_ALLOC_FROM_POOL:
    case MP_CUDA_FREE_ASYNC:
    case MP_CUDA_MODULE_LOAD:
    case MP_CUDA_LIBRARY_LOAD:
    case MP_CUDA_CONTEXT_DESTROY:
    case MP_CUDA_PRIMARY_RELEASE:
    case MP_CUDA_PRIMARY_RESET:
        return true;
    default:
        return false;
    }
}

void mp_cupti_expect(const struct mp_cuda_call *call, const struct mp_cupti_call *data,
                     const struct mp_cuda_visit *visit)
{
    if (mp_cuda_loads_code(call->action)) expect_variables(data->correlationId, data->context);
    if (mp_cuda_ends_context(call->action)) atomic_store(&ends[data->correlationId % ENDS], data->correlationId);
    if (has_records(visit->began)) expect_alloc(call, data->functionParams, data->correlationId);
    for (unsigned i = 0; i < visit->taken_count; i++) {
        const struct mp_live *taken = &visit->taken[i];
        if (taken->class == MP_LIVE_MEMORY && has_records(taken->book))
            expect(taken->value, MP_BYTES_UNKNOWN, MP_CUPTI_RELEASE, data->correlationId);
    }
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

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
                              .when = memory->timestamp,
                              .correlation = memory->correlationId,
                              .operation = (uint8_t)memory->memoryOperationType,
                              .side = RECORD};
    pair(record);
}

/* Records the size of one of the program's pools. If the hooks ask the driver itself, its answer is newer and exact, so
 * the record is ignored. */
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
    count_one(&mp_session.header->cupti.records);
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
    /* The records' layouts differ between library versions only at their ends, which are not read here. */
    switch (*(const uint32_t *)record) {
    case MP_CUPTI_MEMORY2:
        take_memory(thread, record);
        break;
    case MP_CUPTI_MEMORY_POOL:
        take_pool(thread, record);
        break;
    case MP_CUPTI_DRIVER_CALL: /* enabled only to give memory records their ids */
        break;
    default:
        count_one(&mp_session.header->cupti.unreadable);
    }
    mp_hook_leave(thread);
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Buffers are small, since later versions of CUPTI take one for each thread. Free buffers form a list through their
 * first words. */
#define BUFFER_BYTES ((size_t)64 << 10)
static mp_lock buffers_lock;
static uint8_t *free_buffers;

void mp_cupti_request_buffer(uint8_t **buffer, size_t *bytes, size_t *records_max)
{
    *buffer = NULL;
    if (mp_lock_take(&buffers_lock)) {
        *buffer = free_buffers;
        if (free_buffers) memcpy(&free_buffers, free_buffers, sizeof free_buffers);
        mp_lock_release(&buffers_lock);
    }
    *bytes = BUFFER_BYTES;
    *records_max = 0;
    if (*buffer) return;
    void *fresh = mp_mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *buffer = fresh == MAP_FAILED ? NULL : fresh;
    if (!*buffer) *bytes = 0; /* without a buffer, CUPTI drops records and counts them */
}

static void give_back(uint8_t *buffer)
{
    if (!mp_lock_take(&buffers_lock)) {
        mp_munmap(buffer, BUFFER_BYTES);
        return;
    }
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
        if ((status && status != MP_CUPTI_MAX_LIMIT_REACHED) || valid_bytes > bytes) count_one(&counters->unreadable);
        if (!mp_cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped))
            atomic_fetch_add(&counters->dropped, dropped);
    }
    if (buffer) give_back(buffer);
}

bool mp_cupti_records_start(void)
{
    expected = mp_room_map(SETS * WAYS * sizeof *expected + SETS * sizeof *overflows);
    overflows = expected ? (void *)(expected + SETS * WAYS) : NULL;
    return expected;
}

/* True for a free without a call of its own: the end of a context frees many blocks. */
static bool came_with_context(const struct expected *record)
{
    struct mp_live live;
    bool by_call = record->correlation && atomic_load(&ends[record->correlation % ENDS]) == record->correlation;
    return record->operation == MP_CUPTI_RELEASE && (by_call || !mp_live_find(MP_LIVE_MEMORY, record->address, &live));
}

/* At the end: counts the records and calls without a partner. */
void mp_cupti_records_end(void)
{
    struct mp_spool_cupti *counters = &mp_session.header->cupti;
    uint64_t calls = 0, records = 0;
    for (struct expected *set = expected; set && set < expected + SETS * WAYS; set += WAYS)
        settle(set);
    for (struct expected *at = expected; at && at < expected + SETS * WAYS; at++) {
        calls += at->side == CALL;
        records += at->side == RECORD && !came_with_context(at);
    }
    atomic_store(&counters->without_record, calls);
    atomic_store(&counters->without_call, records);
}
