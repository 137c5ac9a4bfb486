#include <string.h>

#include "exchange/nsys_parts.h"

/* ENUM_CUDA_MEM_KIND */
enum nsys_kind { PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED, DEVICE_STATIC, MANAGED_STATIC };

/* NVTX_EVENTS.eventType */
enum nsys_nvtx { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

static int64_t process_of(int64_t global)
{
    return global >> 24; /* a thread's global id is its process's with the thread in the lowest 24 bits */
}

static bool is_null(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL;
}

static uint32_t text_of(struct mp_nsys *nsys, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? mp_import_text(&nsys->log.tables, text, (size_t)sqlite3_column_bytes(row, column)) : 0;
}

static uint32_t string_of(struct mp_nsys *nsys, sqlite3_stmt *row, int column)
{
    uint64_t *known =
        is_null(row, column) ? NULL : mp_map_find(&nsys->texts, (uint64_t)sqlite3_column_int64(row, column) + 1);
    return known ? (uint32_t)*known : 0;
}

static void put_map(struct mp_nsys *nsys, struct mp_map *map, int64_t key, uint64_t value)
{
    uint64_t *place = (uint64_t)key + 1 ? mp_map_insert(map, (uint64_t)key + 1, NULL) : NULL;
    if (place)
        *place = value;
    else
        nsys->log.failed |= (uint64_t)key + 1 != 0;
}

static void count_process(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    uint64_t *count = mp_map_insert(
        &nsys->processes, ((uint64_t)process_of(sqlite3_column_int64(row, 0)) & ~(UINT64_C(1) << 63)) + 1, NULL);
    if (count)
        ++*count;
    else
        nsys->log.failed = true;
}

/* Which track, by CUDA's kind of memory; *kind is memprof's. */
static uint16_t track_of(struct mp_nsys *nsys, int64_t nsys_kind, int device, bool pooled, uint8_t *kind)
{
    struct mp_import_log *log = &nsys->log;
    *kind = MP_KIND_DEVICE;
    if (nsys_kind == PAGEABLE || nsys_kind == PINNED) {
        *kind = nsys_kind == PINNED ? MP_KIND_PINNED : MP_KIND_HOST;
        return mp_import_track(log, MP_DEVICE_CPU, -1, MP_LAYER_DRIVER, "");
    }
    if (nsys_kind == MANAGED || nsys_kind == MANAGED_STATIC) {
        *kind = MP_KIND_MANAGED;
        return mp_import_track(log, MP_DEVICE_CUDA, device, MP_LAYER_DRIVER, "managed");
    }
    if (nsys_kind == ARRAY) *kind = MP_KIND_ARRAY;
    if (pooled) *kind = MP_KIND_POOL;
    return mp_import_track(log, MP_DEVICE_CUDA, device, MP_LAYER_DRIVER, pooled ? "pool" : "");
}

/* What all pools of the track hold, after one said what it holds. */
static void put_pool(struct mp_nsys *nsys, const struct mp_import_call *call, int64_t pool, uint64_t bytes)
{
    uint64_t *size = mp_map_insert(
        &nsys->pools, ((uint64_t)pool & UINT64_C(0xffffffffffff)) + 1 + ((uint64_t)call->track << 49), NULL);
    uint64_t *sum = mp_map_insert(&nsys->pool_sums, (uint64_t)call->track + 1, NULL);
    if (!size || !sum) {
        nsys->log.failed = true;
        return;
    }
    *sum += bytes - *size;
    *size = bytes;
    struct mp_import_call reserved = {
        .ns = call->ns, .type = MP_EVENT_RESERVED, .track = call->track, .thread = call->thread, .bytes = *sum};
    mp_import_call(&nsys->log, &reserved);
    if (!mp_vec_push(&nsys->correlated, 0)) nsys->log.failed = true;
}

/* Not every release says of which kind the memory is. */
static uint16_t home_of(struct mp_nsys *nsys, uint64_t address, uint16_t told)
{
    uint64_t home;
    return address + 1 && mp_map_remove(&nsys->homes, address + 1, &home) ? (uint16_t)(home - 1) : told;
}

static const char *const memory_columns[] = {"start",
                                             "globalPid",
                                             "deviceId",
                                             "address",
                                             "bytes",
                                             "memKind",
                                             "memoryOperationType",
                                             "name",
                                             "correlationId",
                                             "localMemoryPoolAddress",
                                             "localMemoryPoolSize",
                                             NULL};

static void take_memory(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    if (process_of(sqlite3_column_int64(row, 1)) != nsys->pid_mask) return;
    bool pooled = !is_null(row, 9) && sqlite3_column_int64(row, 9);
    int64_t operation = sqlite3_column_int64(row, 6), bytes = sqlite3_column_int64(row, 4);
    struct mp_import_call call = {.ns = sqlite3_column_int64(row, 0),
                                  .address = (uint64_t)sqlite3_column_int64(row, 3),
                                  .bytes = bytes < 0 ? MP_BYTES_UNKNOWN : (uint64_t)bytes,
                                  .type = operation ? MP_EVENT_FREE : MP_EVENT_ALLOC};
    if (operation < 0 || operation > 1 || call.ns < 0) {
        nsys->unknown++;
        return;
    }
    call.track =
        track_of(nsys, sqlite3_column_int64(row, 5), (int)(sqlite3_column_int64(row, 2) & 0xffff), pooled, &call.kind);
    call.thread = mp_import_thread(&nsys->log, nsys->log.pid);
    call.name = text_of(nsys, row, 7); /* of a static variable: becomes the innermost frame */
    if (call.type == MP_EVENT_FREE) call.track = home_of(nsys, call.address, call.track);
    if (call.type == MP_EVENT_ALLOC) put_map(nsys, &nsys->homes, (int64_t)call.address, (uint64_t)call.track + 1);
    nsys->events++;
    nsys->at_zero += !call.ns;
    uint64_t *site = is_null(row, 8) ? NULL
                                     : mp_map_insert(&nsys->correlations,
                                                     (uint64_t)(uint32_t)sqlite3_column_int64(row, 8) + 1, NULL);
    if (site && !*site) {
        *site = nsys->sites.count + 1;
        if (!mp_vec_push(&nsys->sites, (struct mp_nsys_site){0})) nsys->log.failed = true;
    }
    mp_import_call(&nsys->log, &call);
    if (!mp_vec_push(&nsys->correlated, site ? *site : 0)) nsys->log.failed = true;
    if (pooled && !is_null(row, 10))
        put_pool(nsys, &call, sqlite3_column_int64(row, 9), (uint64_t)sqlite3_column_int64(row, 10));
}

static const char *const pool_columns[] = {"start", "globalPid", "deviceId", "address", "localMemoryPoolSize", NULL};

static void take_pool(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    if (process_of(sqlite3_column_int64(row, 1)) != nsys->pid_mask || is_null(row, 4)) return;
    struct mp_import_call call = {.ns = sqlite3_column_int64(row, 0)};
    uint8_t kind;
    if (call.ns < 0) return;
    call.track = track_of(nsys, DEVICE, (int)(sqlite3_column_int64(row, 2) & 0xffff), true, &kind);
    call.thread = mp_import_thread(&nsys->log, nsys->log.pid);
    put_pool(nsys, &call, sqlite3_column_int64(row, 3), (uint64_t)sqlite3_column_int64(row, 4));
}

static const char *const text_columns[] = {"id", "value", NULL};

static void take_text(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    put_map(nsys, &nsys->texts, sqlite3_column_int64(row, 0), text_of(nsys, row, 1));
}

static const char *const call_columns[] = {"correlationId", "globalTid", "nameId", "callchainId", NULL};

static void take_call(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    uint64_t *found = mp_map_find(&nsys->correlations, (uint64_t)(uint32_t)sqlite3_column_int64(row, 0) + 1);
    int64_t thread = sqlite3_column_int64(row, 1);
    if (!found || process_of(thread) != nsys->pid_mask) return;
    struct mp_nsys_site *site = &nsys->sites.at[*found - 1];
    if (site->known && is_null(row, 3)) return; /* a call of the runtime and one of the driver may share the number */
    *site = (struct mp_nsys_site){.name = string_of(nsys, row, 2),
                                  .thread = mp_import_thread(&nsys->log, (uint32_t)(thread & 0xffffff)),
                                  .chain = sqlite3_column_int64(row, 3),
                                  .has_chain = !is_null(row, 3),
                                  .known = true};
    if (site->has_chain) put_map(nsys, &nsys->chains, site->chain, 0);
}

void mp_nsys_take_frame(struct mp_nsys *nsys, sqlite3_stmt *row)
{
    int64_t chain = sqlite3_column_int64(row, 0);
    uint64_t *stack = mp_map_find(&nsys->chains, (uint64_t)chain + 1);
    if (!stack) return;
    uint32_t frame = mp_import_frame(&nsys->log.tables, MP_NATIVE, string_of(nsys, row, 1), string_of(nsys, row, 2), 0);
    *stack = mp_import_stack(&nsys->log.tables, (uint32_t)*stack, frame);
}

static const char *const nvtx_columns[] = {"start", "end", "eventType", "text", "textId", "globalTid", NULL};

static void take_range(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    int64_t type = sqlite3_column_int64(row, 2), thread = sqlite3_column_int64(row, 5);
    bool range = (type == NVTX_PUSH_POP || type == NVTX_START_END) && !is_null(row, 1);
    if ((!range && type != NVTX_MARK) || process_of(thread) != nsys->pid_mask) return;
    uint32_t name = is_null(row, 3) ? string_of(nsys, row, 4) : text_of(nsys, row, 3);
    struct mp_import_call call = {.ns = sqlite3_column_int64(row, 0),
                                  .type = range ? MP_EVENT_REGION_BEGIN : MP_EVENT_MARK,
                                  .name = name,
                                  .thread = mp_import_thread(&nsys->log, (uint32_t)(thread & 0xffffff))};
    struct mp_import_call end = call;
    end.ns = sqlite3_column_int64(row, 1);
    end.type = MP_EVENT_REGION_END;
    if (!name || call.ns < 0 || (range && end.ns < call.ns)) return;
    mp_import_call(&nsys->log, &call);
    if (range) mp_import_call(&nsys->log, &end);
}

static const char *const gpu_columns[] = {"cuDevice", "id", "name", "uuid", "totalMemory", NULL};

static void take_gpu(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    struct mp_import_tables *tables = &nsys->log.tables;
    char id[64];
    int device = (int)(sqlite3_column_int64(row, is_null(row, 0)) & 0xffff);
    mp_format_device_id(id, sizeof id, MP_DEVICE_CUDA, device);
    for (size_t i = 0; i < tables->devices.count; i++) {
        if (strcmp(mp_intern_get(&tables->strings, tables->devices.at[i].name, NULL), id)) continue;
        tables->devices.at[i].model = text_of(nsys, row, 2);
        tables->devices.at[i].uuid = text_of(nsys, row, 3);
        if (sqlite3_column_int64(row, 4) > 0)
            tables->devices.at[i].total_bytes = (uint64_t)sqlite3_column_int64(row, 4);
    }
}

static const char *const start_columns[] = {"utcEpochNs", NULL};

static void take_start(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    nsys->log.unix_ns = sqlite3_column_int64(row, 0);
    nsys->log.dated = nsys->log.unix_ns > 0;
}

static const char *const process_columns[] = {"globalPid", "name", NULL};

static void take_process(void *context, sqlite3_stmt *row)
{
    struct mp_nsys *nsys = context;
    if (process_of(sqlite3_column_int64(row, 0)) != nsys->pid_mask) return;
    nsys->log.command = text_of(nsys, row, 1);
}

const struct mp_nsys_table mp_nsys_processes = {"CUDA_GPU_MEMORY_USAGE_EVENTS", process_columns, count_process};
const struct mp_nsys_table mp_nsys_tables[] = {{"CUDA_GPU_MEMORY_USAGE_EVENTS", memory_columns, take_memory},
                                               {"CUDA_GPU_MEMORY_POOL_EVENTS", pool_columns, take_pool},
                                               {"StringIds", text_columns, take_text},
                                               {"CUPTI_ACTIVITY_KIND_RUNTIME", call_columns, take_call},
                                               {"TARGET_INFO_GPU", gpu_columns, take_gpu},
                                               {"TARGET_INFO_SESSION_START_TIME", start_columns, take_start},
                                               {"PROCESSES", process_columns, take_process},
                                               {NULL, NULL, NULL}};
const struct mp_nsys_table mp_nsys_ranges = {"NVTX_EVENTS", nvtx_columns, take_range};
