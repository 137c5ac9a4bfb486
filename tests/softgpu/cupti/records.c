/*
 * The activity half of the stand-in of CUPTI: records in the layout of its version, in buffers that the profiler lends;
 * one buffer a thread from 13.0 on, one for all before. A full buffer goes back at once, the others when they are
 * flushed.
 */
#include "softgpu/cupti/cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if SOFTCUPTI_VERSION < 17
#    define MEMORY_BYTES MP_CUPTI_MEMORY2_BYTES
#    define POOL_BYTES   MP_CUPTI_POOL_BYTES
#elif SOFTCUPTI_VERSION < 24
#    define MEMORY_BYTES MP_CUPTI_MEMORY3_BYTES
#    define POOL_BYTES   MP_CUPTI_POOL2_BYTES
#elif SOFTCUPTI_VERSION < 130000
#    define MEMORY_BYTES MP_CUPTI_MEMORY4_BYTES
#    define POOL_BYTES   MP_CUPTI_POOL2_BYTES
#elif SOFTCUPTI_VERSION < 900000
#    define MEMORY_BYTES MP_CUPTI_MEMORY4_BYTES
#    define POOL_BYTES   MP_CUPTI_POOL3_BYTES
#else /* one that does not exist yet: fields at the end that nobody here knows */
#    define MEMORY_BYTES (MP_CUPTI_MEMORY4_BYTES + 40)
#    define POOL_BYTES   (MP_CUPTI_POOL3_BYTES + 24)
#endif
#define PER_THREAD      (SOFTCUPTI_VERSION >= 130000)
#define EXTERNAL_KIND   39 /* CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION */
#define EXTERNAL_BYTES  24
#define UNHEARD_OF_KIND 9999
#define THREADS         256

struct buffer {
    uint8_t *at;
    size_t size, used;
    unsigned records;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mp_cupti_buffer_request *request;
static mp_cupti_buffer_complete *complete;
static mp_cupti_timestamp *timestamp;
static bool enabled[64], correlated; /* correlated: somebody asked for ids */
static struct buffer buffers[THREADS];
static unsigned threads, made;
static size_t dropped;
static pid_t owner; /* CUPTI's worker thread is not there in a forked child */
static __thread unsigned my_buffer;

static size_t bytes_of_kind(uint32_t kind)
{
    switch (kind) {
    case MP_CUPTI_MEMORY2:
        return MEMORY_BYTES;
    case MP_CUPTI_MEMORY_POOL:
        return POOL_BYTES;
    case EXTERNAL_KIND:
        return EXTERNAL_BYTES;
    default:
        return 0;
    }
}

/* Last first. */
static void disorder(struct buffer *buffer)
{
    uint8_t *copy = malloc(buffer->used);
    if (!copy) abort();
    memcpy(copy, buffer->at, buffer->used);
    size_t end = buffer->used;
    for (size_t at = 0, bytes; at < buffer->used; at += bytes) {
        uint32_t kind;
        memcpy(&kind, copy + at, sizeof kind);
        bytes = bytes_of_kind(kind);
        if (!bytes) break;
        memcpy(buffer->at + (end -= bytes), copy + at, bytes);
    }
    free(copy);
}

/* Hands a buffer back. Call it with the lock; the lock is released during the profiler's callback. */
static void hand_back(struct buffer *buffer)
{
    struct buffer full = *buffer;
    *buffer = (struct buffer){0};
    if (!full.at) return;
    if (full.records && soft_settings.disorder) disorder(&full);
    if (full.records && soft_settings.cut) full.used -= 20;
    pthread_mutex_unlock(&lock);
    complete(NULL, 0, full.at, full.size, full.used);
    pthread_mutex_lock(&lock);
}

static struct buffer *buffer_of_thread(void)
{
    if (!PER_THREAD) return &buffers[0];
    if (!my_buffer) my_buffer = ++threads;
    return &buffers[(my_buffer - 1) % THREADS];
}

static bool room_for(struct buffer *buffer, size_t bytes)
{
    if (buffer->at && buffer->used + bytes > buffer->size) hand_back(buffer);
    if (!buffer->at) {
        size_t at_most = 0;
        pthread_mutex_unlock(&lock);
        struct buffer lent = {0};
        request(&lent.at, &lent.size, &at_most);
        pthread_mutex_lock(&lock);
        if (buffer->at && lent.at) hand_back(buffer);
        if (lent.at) *buffer = lent;
    }
    return buffer->at && buffer->used + bytes <= buffer->size;
}

static void put_locked(const void *record, size_t known)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    size_t bytes = bytes_of_kind(kind) ? bytes_of_kind(kind) : known;
    struct buffer *buffer = buffer_of_thread();
    if (!room_for(buffer, bytes)) {
        dropped++;
        return;
    }
    uint8_t *to = buffer->at + buffer->used;
    memset(to, 0xee, bytes); /* what a version does not know yet is anything */
    memcpy(to, record, known < bytes ? known : bytes);
    buffer->used += bytes;
    buffer->records++;
}

static void put(const void *record, size_t known)
{
    if (soft_settings.silent) return;
    pthread_mutex_lock(&lock);
    unsigned long strange = soft_settings.strange;
    if (++made, soft_settings.drop && made % soft_settings.drop == 0) {
        dropped++;
    } else {
        const uint32_t other[EXTERNAL_BYTES / 4] = {strange == 2 ? UNHEARD_OF_KIND : EXTERNAL_KIND};
        if (strange && (strange != 2 || made % 8 == 0)) put_locked(other, sizeof other);
        put_locked(record, known);
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t now(void)
{
    if (timestamp) return timestamp();
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Correlation ids are given only to calls whose API records somebody wants. */
static uint32_t correlation_of(uint32_t id)
{
    return correlated ? id : 0;
}

void soft_record_memory(const struct soft_memory_event *event)
{
    if (!enabled[MP_CUPTI_MEMORY2] || getpid() != owner) return;
    bool wrong = soft_settings.wrong && made % 3 == 2;
    struct mp_cupti_memory record = {
        .kind = MP_CUPTI_MEMORY2,
        .memoryOperationType = event->operation,
        .memoryKind = event->kind,
        .correlationId = correlation_of(event->correlation),
        .address = event->address,
        .bytes = event->bytes + (wrong ? 4096 : 0),
        .timestamp = now(),
        .processId = (uint32_t)getpid(),
        .deviceId = event->device,
        .contextId = event->context,
        .streamId = event->stream,
        .name = event->name,
        .isAsync = event->async,
        .memoryPoolConfig = {.memoryPoolType = event->pool.type,
                             .address = event->pool.address,
                             .releaseThreshold = event->pool.threshold,
                             .utilizedSize = event->pool.used},
        .source = NULL,
    };
    if (event->pool.type == MP_CUPTI_POOL_IMPORTED)
        record.memoryPoolConfig.pool.processId = event->pool.process;
    else
        record.memoryPoolConfig.pool.size = event->pool.size;
    put(&record, sizeof record);
}

void soft_record_pool(const struct soft_pool_event *event)
{
    if (!enabled[MP_CUPTI_MEMORY_POOL] || getpid() != owner) return;
    struct mp_cupti_pool record = {
        .kind = MP_CUPTI_MEMORY_POOL,
        .memoryPoolOperationType = event->operation,
        .memoryPoolType = event->pool.type,
        .correlationId = correlation_of(event->correlation),
        .processId = (uint32_t)getpid(),
        .deviceId = event->device,
        .minBytesToKeep = event->keep,
        .address = event->pool.address,
        .size = event->pool.size,
        .releaseThreshold = event->pool.threshold,
        .timestamp = now(),
        .utilizedSize = event->pool.used,
    };
    put(&record, sizeof record);
}

bool soft_wants_records(void)
{
    return enabled[MP_CUPTI_MEMORY2] || enabled[MP_CUPTI_MEMORY_POOL];
}

void soft_stop_records(void)
{
    memset(enabled, 0, sizeof enabled);
    correlated = false;
}

EXPORTED mp_cuptiActivityRegisterCallbacks cuptiActivityRegisterCallbacks;
EXPORTED int cuptiActivityRegisterCallbacks(mp_cupti_buffer_request *to_request, mp_cupti_buffer_complete *to_complete)
{
    if (!to_request || !to_complete) return MP_CUPTI_INVALID_PARAMETER;
    request = to_request;
    complete = to_complete;
    return MP_CUPTI_SUCCESS;
}

static int enable(uint32_t kind, bool on)
{
    if (kind >= 64) return SOFT_INVALID_KIND;
    if (on && !request) return MP_CUPTI_INVALID_PARAMETER;
    if (on && !soft_listen()) return MP_CUPTI_UNKNOWN;
    owner = getpid();
    enabled[kind] = on;
    if (kind == 4) correlated = on; /* CUPTI_ACTIVITY_KIND_DRIVER */
    soft_listen();
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiActivityEnable cuptiActivityEnable;
EXPORTED int cuptiActivityEnable(uint32_t kind)
{
    return enable(kind, true);
}

EXPORTED mp_cuptiActivityDisable cuptiActivityDisable;
EXPORTED int cuptiActivityDisable(uint32_t kind)
{
    return enable(kind, false);
}

#if SOFTCUPTI_VERSION >= 23
EXPORTED mp_cuptiActivityEnableDriverApi cuptiActivityEnableDriverApi;
EXPORTED int cuptiActivityEnableDriverApi(uint32_t id, uint8_t on)
{
    if (!id) return MP_CUPTI_INVALID_PARAMETER;
    if (on) correlated = true;
    return MP_CUPTI_SUCCESS;
}
#endif

#if SOFTCUPTI_VERSION >= 17
EXPORTED mp_cuptiActivityRegisterTimestampCallback cuptiActivityRegisterTimestampCallback;
EXPORTED int cuptiActivityRegisterTimestampCallback(mp_cupti_timestamp *function)
{
    timestamp = function;
    return MP_CUPTI_SUCCESS;
}
#endif

EXPORTED mp_cuptiActivityFlushAll cuptiActivityFlushAll;
EXPORTED int cuptiActivityFlushAll(uint32_t forced)
{
    (void)forced;                            /* records of memory are whole at once */
    if (owner && owner != getpid()) abort(); /* NVIDIA's waits for ever for a thread that is not there */
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        hand_back(&buffers[i]);
    pthread_mutex_unlock(&lock);
    return MP_CUPTI_SUCCESS;
}

/* Full buffers only, and those go back when they are full. */
EXPORTED mp_cuptiActivityFlushPeriod cuptiActivityFlushPeriod;
EXPORTED int cuptiActivityFlushPeriod(uint32_t ms)
{
    (void)ms;
    return MP_CUPTI_SUCCESS;
}

/* NVIDIA's own, where the test wants that. */
static mp_cuptiActivityGetNextRecord *find_walker(void)
{
    mp_cuptiActivityGetNextRecord *walker;
    void *library = soft_settings.walker ? dlopen(soft_settings.walker, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = library ? dlsym(library, "cuptiActivityGetNextRecord") : NULL;
    if (soft_settings.walker && !found) abort();
    memcpy(&walker, &found, sizeof found);
    return walker;
}

/* Walks like NVIDIA's function. At the end, and before a cut record, it returns 12 and leaves *record; at an unknown
 * kind 21.
 */
static int walk(const uint8_t *buffer, size_t valid_bytes, void **record)
{
    size_t at = 0;
    uint32_t kind;
    if (*record) {
        memcpy(&kind, *record, sizeof kind);
        at = (size_t)((uint8_t *)*record - buffer) + bytes_of_kind(kind);
    }
    if (at + sizeof kind > valid_bytes) return MP_CUPTI_MAX_LIMIT_REACHED;
    memcpy(&kind, buffer + at, sizeof kind);
    if (!bytes_of_kind(kind)) return SOFT_INVALID_KIND;
    if (at + bytes_of_kind(kind) > valid_bytes) return MP_CUPTI_MAX_LIMIT_REACHED;
    *record = (void *)(uintptr_t)(buffer + at);
    return MP_CUPTI_SUCCESS;
}

EXPORTED mp_cuptiActivityGetNextRecord cuptiActivityGetNextRecord;
EXPORTED int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, void **record)
{
    static mp_cuptiActivityGetNextRecord *walker;
    if (soft_settings.walker && !walker) walker = find_walker();
    return walker ? walker(buffer, valid_bytes, record) : walk(buffer, valid_bytes, record);
}

EXPORTED mp_cuptiActivityGetNumDroppedRecords cuptiActivityGetNumDroppedRecords;
EXPORTED int cuptiActivityGetNumDroppedRecords(mp_cu_handle context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return MP_CUPTI_SUCCESS;
}
