/*
 * CUPTI's records, hand-made, of every layout since CUDA 11.2. Each buffer ends where readable memory ends. Records are
 * complete or cut, in order or not, and before or after their calls.
 */
#include "capture/cuda/booking.h"
#include "capture/cuda/cupti_library.h"
#include "capture/cuda/cupti_records.h"
#include "collect/recording/drain.h"
#include "unit/capture/memory_spool.h"

/* ---- a library --------------------------------------------------------------------------------------------------- */

struct mp_cupti mp_cupti;
static size_t memory_bytes, pool_bytes, dropped_now;

/* Steps by the kind's size, as the library's own table does. */
static int walk(uint8_t *buffer, size_t valid_bytes, void **record)
{
    uint32_t kind;
    uint8_t *at = buffer;
    if (*record) {
        memcpy(&kind, *record, sizeof kind);
        at = (uint8_t *)*record + (kind == MP_CUPTI_MEMORY2       ? memory_bytes
                                   : kind == MP_CUPTI_MEMORY_POOL ? pool_bytes
                                                                  : 8);
    }
    if ((size_t)(at - buffer) == valid_bytes) return MP_CUPTI_MAX_LIMIT_REACHED;
    if ((size_t)(at - buffer) + sizeof kind > valid_bytes) return MP_CUPTI_INVALID_PARAMETER;
    memcpy(&kind, at, sizeof kind);
    size_t bytes = kind == MP_CUPTI_MEMORY2 ? memory_bytes : kind == MP_CUPTI_MEMORY_POOL ? pool_bytes : 8;
    if ((size_t)(at - buffer) + bytes > valid_bytes) return MP_CUPTI_INVALID_PARAMETER;
    *record = at;
    return MP_CUPTI_SUCCESS;
}

static int count_dropped(mp_cu_handle context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    *dropped = dropped_now;
    dropped_now = 0;
    return MP_CUPTI_SUCCESS;
}

/* ---- buffers whose end is the end of what is mapped -------------------------------------------------------------- */

static const struct layout {
    uint32_t version;
    size_t memory_bytes, pool_bytes;
} layouts[] = {
    {15, MP_CUPTI_MEMORY2_BYTES, MP_CUPTI_POOL_BYTES},
    {17, MP_CUPTI_MEMORY3_BYTES, MP_CUPTI_POOL2_BYTES},
    {24, MP_CUPTI_MEMORY4_BYTES, MP_CUPTI_POOL2_BYTES},
    {130000, MP_CUPTI_MEMORY4_BYTES, MP_CUPTI_POOL3_BYTES},
    {150000, MP_CUPTI_MEMORY4_BYTES + 24, MP_CUPTI_POOL3_BYTES + 8}, /* of future versions */
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

#define ROOM ((size_t)1 << 16)
static uint8_t records[ROOM];
static size_t filled;

static void add(const void *record, size_t known_bytes, size_t bytes)
{
    ck_assert_uint_le(filled + bytes, ROOM);
    memset(records + filled, 0x5a, bytes);
    memcpy(records + filled, record, known_bytes < bytes ? known_bytes : bytes);
    filled += bytes;
}

static void add_memory(struct mp_cupti_memory record)
{
    record.kind = MP_CUPTI_MEMORY2;
    add(&record, sizeof record, memory_bytes);
}

static void add_pool(struct mp_cupti_pool record)
{
    record.kind = MP_CUPTI_MEMORY_POOL;
    add(&record, sizeof record, pool_bytes);
}

/* Delivers records in the buffer that the library requested, or at the end of mapped memory. */
static void deliver(size_t valid_bytes)
{
    uint8_t *buffer = NULL;
    size_t bytes = 0, most;
    mp_cupti_request_buffer(&buffer, &bytes, &most);
    ck_assert_ptr_nonnull(buffer);
    ck_assert_uint_ge(bytes, valid_bytes);
    memcpy(buffer, records, valid_bytes);
    mp_cupti_take_buffer(NULL, 0, buffer, bytes, valid_bytes);
    filled = 0;
}

static void deliver_at_the_end(void)
{
    uint8_t *pages = map(2 * ROOM);
    ck_assert(!mprotect(pages + ROOM, ROOM, PROT_NONE));
    memcpy(pages + ROOM - filled, records, filled);
    for (void *record = NULL; !walk(pages + ROOM - filled, filled, &record);)
        mp_cupti_take_record(record);
    munmap(pages, 2 * ROOM);
    filled = 0;
}

/* ---- what comes of it -------------------------------------------------------------------------------------------- */

static struct mp_spool_header *spool;
static struct mp_drain drain;
static uint64_t allocs, frees, alloc_bytes, reserved;
static uint16_t alloc_track;

static bool take_record(void *context, uint32_t ring, const struct mp_record *record)
{
    (void)context, (void)ring;
    if (record->type == MP_EVENT_ALLOC) allocs++, alloc_bytes += record->bytes, alloc_track = record->track;
    if (record->type == MP_EVENT_FREE) frees++;
    if (record->type == MP_EVENT_RESERVED) reserved = record->bytes;
    return true;
}

static void take_records(void)
{
    mp_drain_take(&drain, spool, true, take_record, NULL);
    mp_drain_release(&drain, spool);
}

static void begin(const struct layout *layout)
{
    if (!spool) spool = start(true);
    memory_bytes = layout->memory_bytes;
    pool_bytes = layout->pool_bytes;
    mp_cupti = (struct mp_cupti){.version = layout->version,
                                 .cuptiActivityGetNextRecord = walk,
                                 .cuptiActivityGetNumDroppedRecords = count_dropped};
    ck_assert(mp_cupti_records_start());
}

/* A call that a callback reported, booked as it is. */
static void call(enum mp_cuda_call_id id, const void *arguments, uint32_t correlation)
{
    struct mp_cuda_visit visit = {0};
    struct mp_cuda_facts reported = MP_CUDA_NO_FACTS;
    struct mp_cupti_call data = {.functionParams = arguments, .correlationId = correlation};
    mp_cuda_enter(id, arguments, &visit);
    mp_cuda_exit(id, arguments, 0, &visit, &reported);
    mp_cupti_expect(&mp_cuda_calls[id], &data, &visit);
}

static void alloc(mp_cu_ptr address, size_t bytes, uint32_t correlation)
{
    struct mp_params_cuMemAlloc_v2 arguments = {&address, bytes};
    call(MP_CALL_cuMemAlloc_v2, &arguments, correlation);
}

static void release(mp_cu_ptr address, uint32_t correlation)
{
    struct mp_params_cuMemFree_v2 arguments = {address};
    call(MP_CALL_cuMemFree_v2, &arguments, correlation);
}

static struct mp_cupti_memory memory(uint32_t operation, uint64_t address, uint64_t bytes, uint32_t correlation)
{
    return (struct mp_cupti_memory){.memoryOperationType = operation,
                                    .memoryKind = MP_CUPTI_MEMORY_DEVICE,
                                    .correlationId = correlation,
                                    .address = address,
                                    .bytes = bytes};
}

static void check_counts(uint64_t agreed, uint64_t without_call, uint64_t without_record, uint64_t different)
{
    mp_cupti_records_end();
    ck_assert_uint_eq(spool->cupti.agreed, agreed);
    ck_assert_uint_eq(spool->cupti.without_call, without_call);
    ck_assert_uint_eq(spool->cupti.without_record, without_record);
    ck_assert_uint_eq(spool->cupti.different, different);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

START_TEST(every_layout_is_read_to_its_end_and_no_further)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        begin(&layouts[i]);
        struct mp_cupti_memory variable = memory(MP_CUPTI_ALLOCATION, 0x1000 * (i + 1), 300 + i, 7);
        variable.memoryKind = MP_CUPTI_MEMORY_DEVICE_STATIC;
        struct mp_cupti_memory pooled = memory(MP_CUPTI_RELEASE, 0x77, 1, 0);
        pooled.memoryKind = MP_CUPTI_MEMORY_ARRAY;
        pooled.memoryPoolConfig.memoryPoolType = MP_CUPTI_POOL_LOCAL;
        pooled.memoryPoolConfig.address = 0xabc000;
        pooled.memoryPoolConfig.pool.size = 5000 + i;
        pooled.timestamp = 10 * i + 1;
        add_memory(variable);
        add_memory(pooled);
        deliver_at_the_end();
        take_records();
        ck_assert_uint_eq(allocs, i + 1);
        ck_assert_uint_eq(reserved, 5000 + i);
        add_pool((struct mp_cupti_pool){.memoryPoolOperationType = MP_CUPTI_POOL_TRIMMED,
                                        .memoryPoolType = MP_CUPTI_POOL_LOCAL,
                                        .address = 0xabc000,
                                        .size = 60 + i,
                                        .timestamp = 10 * i + 2});
        deliver_at_the_end();
        take_records();
        ck_assert_uint_eq(reserved, 60 + i);
    }
    ck_assert_uint_eq(alloc_bytes, 300 + 301 + 302 + 303 + 304);
    ck_assert_uint_eq(alloc_track, mp_book_track(MP_BOOK_DEVICE, 0));
    ck_assert_uint_eq(spool->cupti.unreadable, 0);
}

START_TEST(calls_and_records_meet_in_any_order)
{
    begin(&layouts[3]);
    alloc(0x1000, 100, 1);
    release(0x1000, 2);
    alloc(0x1000, 50, 3); /* the same address again */
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 50, 3));
    add_memory(memory(MP_CUPTI_RELEASE, 0x1000, 100, 2));
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 100, 1));
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x2000, 70, 4)); /* record before its call */
    deliver(filled);
    alloc(0x2000, 70, 4);
    alloc(0x3000, 20, 5);
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x3000, 20, 900)); /* by a runtime call's id */
    deliver(filled);
    check_counts(5, 0, 0, 0);
    ck_assert_uint_eq(spool->cupti.records, 5);
}

START_TEST(what_does_not_agree_is_counted)
{
    begin(&layouts[2]);
    alloc(0x1000, 100, 1);
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 101, 1)); /* another size */
    alloc(0x2000, 100, 2);                                   /* no record */
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x9000, 8, 3));   /* no call */
    add_memory(memory(MP_CUPTI_RELEASE, 0x8000, 8, 4));      /* with its context: is not live either */
    dropped_now = 11;
    deliver(filled);
    check_counts(0, 1, 1, 1);
    ck_assert_uint_eq(spool->cupti.dropped, 11);
}

START_TEST(cut_and_foreign_records_are_counted)
{
    uint32_t foreign[2] = {12345, 0};
    begin(&layouts[0]);
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 100, 1));
    add(foreign, sizeof foreign, 8);
    add_memory(memory(MP_CUPTI_ALLOCATION, 0x2000, 100, 2));
    deliver(filled);
    ck_assert_uint_eq(spool->cupti.records, 2);
    ck_assert_uint_eq(spool->cupti.unreadable, 1);
    for (size_t cut = 0; cut < 2 * memory_bytes; cut++) {
        uint64_t before = spool->cupti.unreadable;
        add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 100, 1));
        add_memory(memory(MP_CUPTI_ALLOCATION, 0x1000, 100, 1));
        deliver(cut);
        ck_assert_uint_eq(spool->cupti.unreadable - before, cut % memory_bytes != 0);
    }
}

START_TEST(variables_end_with_their_records)
{
    begin(&layouts[3]);
    struct mp_cupti_memory variable = memory(MP_CUPTI_ALLOCATION, 0x5000, 64, 9);
    variable.memoryKind = MP_CUPTI_MEMORY_MANAGED_STATIC;
    add_memory(variable);
    deliver(filled);
    variable.memoryOperationType = MP_CUPTI_RELEASE;
    add_memory(variable);
    add_memory(variable); /* once more: of nothing */
    deliver(filled);
    take_records();
    ck_assert_uint_eq(allocs, 1);
    ck_assert_uint_eq(frees, 1);
    ck_assert_uint_eq(alloc_track, mp_book_track(MP_BOOK_MANAGED, 0));
}

START_TEST(an_older_record_of_a_pool_says_nothing)
{
    begin(&layouts[3]);
    for (uint64_t i = 0; i < 3; i++)
        add_pool((struct mp_cupti_pool){.memoryPoolOperationType = MP_CUPTI_POOL_TRIMMED,
                                        .memoryPoolType = MP_CUPTI_POOL_LOCAL,
                                        .address = 0xabc000,
                                        .size = 100 * (i + 1),
                                        .timestamp = i == 1 ? 500 : 100 + i});
    deliver(filled);
    take_records();
    ck_assert_uint_eq(reserved, 200);
}

MP_SUITE("records", every_layout_is_read_to_its_end_and_no_further, calls_and_records_meet_in_any_order,
         what_does_not_agree_is_counted, cut_and_foreign_records_are_counted, variables_end_with_their_records,
         an_older_record_of_a_pool_says_nothing)
