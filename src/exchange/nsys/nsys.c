#include "exchange/nsys/nsys.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "exchange/common/import_calls.h"
#include "format/tables.h"

#define LONGEST_VALUE (16 << 20) /* bytes of a text, a blob or a row */

/* The CUDA call that a memory event came from. */
struct nsys_site {
    uint32_t name, thread;
    int64_t chain;
    bool known, has_chain;
};

struct nsys {
    struct mp_import_log log;
    sqlite3 *sqlite;
    const char *path;
    struct mp_error *error;
    int64_t pid_mask;           /* globalPid of the chosen process, without its lowest 24 bits */
    struct mp_map processes;    /* memory events by process + 1 */
    struct mp_map correlations; /* index into sites + 1, by correlation + 1 */
    MP_VEC(struct nsys_site) sites;
    MP_VEC(uint64_t) correlated;    /* by call of the log: index into sites + 1, 0: none */
    struct mp_map chains;           /* stacks by chain + 1 */
    struct mp_map texts;            /* StringIds: string ids by id + 1 */
    struct mp_map pools, pool_sums; /* the bytes of a pool, by its address and track; the bytes of all pools of a
                                     * track */
    struct mp_map homes;            /* tracks of live blocks + 1, by address + 1: no two blocks of a process have the
                                     * same address */
    uint64_t of_others, events, at_zero, unknown;
};

/* A table's columns and the function that takes its rows. */
struct nsys_table {
    const char *name, *const *columns;
    void (*take)(void *nsys, sqlite3_stmt *row);
};

enum any_row { NO_ROW, A_ROW, NO_ANSWER };

static enum any_row any_row(sqlite3 *sqlite, const char *query, const char *first, const char *second)
{
    sqlite3_stmt *statement = NULL;
    bool asked = sqlite3_prepare_v2(sqlite, query, -1, &statement, NULL) == SQLITE_OK &&
                 sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC) == SQLITE_OK &&
                 (!second || sqlite3_bind_text(statement, 2, second, -1, SQLITE_STATIC) == SQLITE_OK);
    int found = asked ? sqlite3_step(statement) : SQLITE_ERROR;
    sqlite3_finalize(statement);
    return found == SQLITE_ROW ? A_ROW : found == SQLITE_DONE ? NO_ROW : NO_ANSWER;
}

/* True if there is a table (not a view) of that name. */
static bool nsys_has_table(sqlite3 *sqlite, const char *table)
{
    return any_row(sqlite, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1", table, NULL) == A_ROW;
}

/* True if the table has the column. Generated columns, which would compute, are not in table_info. */
static bool nsys_has_column(sqlite3 *sqlite, const char *table, const char *column)
{
    return any_row(sqlite, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", table, column) == A_ROW;
}

/* Calls `row` for each row of the table with the named columns (NULL-terminated; a missing one reads as NULL), in order
 * of the column "start" where there is one. A missing table has no rows. */
static enum mp_status nsys_each(sqlite3 *sqlite, const char *table, const char *const *columns,
                                void (*row)(void *context, sqlite3_stmt *row), void *context, const char *path,
                                struct mp_error *error)
{
    if (!nsys_has_table(sqlite, table)) return MP_OK;
    struct mp_buffer query = {0};
    sqlite3_stmt *statement = NULL;
    unsigned long long number = 0;
    mp_buffer_append_text(&query, "SELECT ");
    for (size_t i = 0; columns[i]; i++)
        mp_buffer_printf(&query, "%s%s%s%s", i ? ", " : "",
                         nsys_has_column(sqlite, table, columns[i]) ? "\"" : "NULL AS \"", columns[i], "\"");
    mp_buffer_printf(&query, " FROM main.\"%s\"%s", table,
                     nsys_has_column(sqlite, table, "start") ? " ORDER BY start, rowid" : "");
    int result = sqlite3_prepare_v2(sqlite, mp_buffer_text(&query), -1, &statement, NULL);
    while (result == SQLITE_OK || result == SQLITE_ROW) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) row(context, statement);
        number += result == SQLITE_ROW;
    }
    sqlite3_finalize(statement);
    mp_buffer_free(&query);
    if (result == SQLITE_DONE) return MP_OK;
    if (result == SQLITE_NOMEM) mp_memory_lacks(0);
    return mp_fail(error, MP_DAMAGED, "%s is damaged: after row %llu of %s: %s", path, number, table,
                   sqlite3_errmsg(sqlite));
}

/* ENUM_CUDA_MEM_KIND */
enum nsys_kind { PAGEABLE, PINNED, DEVICE, ARRAY, MANAGED, DEVICE_STATIC, MANAGED_STATIC };

/* NVTX_EVENTS.eventType */
enum nsys_nvtx { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

static int64_t process_of(int64_t global)
{
    return global >> 24; /* a thread's global id is the global id of its process, with the thread in the lowest 24
                          * bits */
}

static bool is_null(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL;
}

static uint32_t text_of(struct nsys *nsys, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? mp_import_text(&nsys->log.tables, text, (size_t)sqlite3_column_bytes(row, column)) : 0;
}

static uint32_t string_of(struct nsys *nsys, sqlite3_stmt *row, int column)
{
    uint64_t *known =
        is_null(row, column) ? NULL : mp_map_find(&nsys->texts, (uint64_t)sqlite3_column_int64(row, column) + 1);
    return known ? (uint32_t)*known : 0;
}

static void put_map(struct mp_map *map, int64_t key, uint64_t value)
{
    if ((uint64_t)key + 1) *mp_map_at(map, (uint64_t)key + 1, NULL) = value;
}

static void count_process(void *context, sqlite3_stmt *row)
{
    struct nsys *nsys = context;
    uint64_t *count = mp_map_at(&nsys->processes,
                                ((uint64_t)process_of(sqlite3_column_int64(row, 0)) & ~(UINT64_C(1) << 63)) + 1, NULL);
    ++*count;
}

/* The track for a kind of memory of CUDA's; *kind is memprof's kind. */
static uint16_t track_of(struct nsys *nsys, int64_t nsys_kind, int device, bool pooled, uint8_t *kind)
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

/* Reports the total of all pools of the track, after one pool has reported its bytes. */
static void put_pool(struct nsys *nsys, const struct mp_import_call *call, int64_t pool, uint64_t bytes)
{
    uint64_t *size =
        mp_map_at(&nsys->pools, ((uint64_t)pool & UINT64_C(0xffffffffffff)) + 1 + ((uint64_t)call->track << 49), NULL);
    uint64_t *sum = mp_map_at(&nsys->pool_sums, (uint64_t)call->track + 1, NULL);
    *sum += bytes - *size;
    *size = bytes;
    struct mp_import_call reserved = {
        .ns = call->ns, .type = MP_EVENT_RESERVED, .track = call->track, .thread = call->thread, .bytes = *sum};
    mp_import_call(&nsys->log, &reserved);
    mp_vec_add(&nsys->correlated, 0);
}

/* The track of a freed block: not every free gives the kind of memory. */
static uint16_t home_of(struct nsys *nsys, uint64_t address, uint16_t stated)
{
    uint64_t home;
    return address + 1 && mp_map_remove(&nsys->homes, address + 1, &home) ? (uint16_t)(home - 1) : stated;
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
    struct nsys *nsys = context;
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
    call.name = text_of(nsys, row, 7); /* the name of a static variable becomes the innermost frame */
    if (call.type == MP_EVENT_FREE) call.track = home_of(nsys, call.address, call.track);
    if (call.type == MP_EVENT_ALLOC) put_map(&nsys->homes, (int64_t)call.address, (uint64_t)call.track + 1);
    nsys->events++;
    nsys->at_zero += !call.ns;
    uint64_t *site = is_null(row, 8)
                         ? NULL
                         : mp_map_at(&nsys->correlations, (uint64_t)(uint32_t)sqlite3_column_int64(row, 8) + 1, NULL);
    if (site && !*site) {
        *site = nsys->sites.count + 1;
        mp_vec_add(&nsys->sites, (struct nsys_site){0});
    }
    mp_import_call(&nsys->log, &call);
    mp_vec_add(&nsys->correlated, site ? *site : 0);
    if (pooled && !is_null(row, 10))
        put_pool(nsys, &call, sqlite3_column_int64(row, 9), (uint64_t)sqlite3_column_int64(row, 10));
}

static const char *const pool_columns[] = {"start", "globalPid", "deviceId", "address", "localMemoryPoolSize", NULL};

static void take_pool(void *context, sqlite3_stmt *row)
{
    struct nsys *nsys = context;
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
    struct nsys *nsys = context;
    put_map(&nsys->texts, sqlite3_column_int64(row, 0), text_of(nsys, row, 1));
}

static const char *const call_columns[] = {"correlationId", "globalTid", "nameId", "callchainId", NULL};

static void take_call(void *context, sqlite3_stmt *row)
{
    struct nsys *nsys = context;
    uint64_t *found = mp_map_find(&nsys->correlations, (uint64_t)(uint32_t)sqlite3_column_int64(row, 0) + 1);
    int64_t thread = sqlite3_column_int64(row, 1);
    if (!found || process_of(thread) != nsys->pid_mask) return;
    struct nsys_site *site = &nsys->sites.at[*found - 1];
    if (site->known && is_null(row, 3))
        return; /* a call of the runtime and a call of the driver may have the same
                 * number */
    *site = (struct nsys_site){.name = string_of(nsys, row, 2),
                               .thread = mp_import_thread(&nsys->log, (uint32_t)(thread & 0xffffff)),
                               .chain = sqlite3_column_int64(row, 3),
                               .has_chain = !is_null(row, 3),
                               .known = true};
    if (site->has_chain) put_map(&nsys->chains, site->chain, 0);
}

/* Takes id, symbol, module of a frame; frames of a backtrace come outermost first. */
static void nsys_take_frame(struct nsys *nsys, sqlite3_stmt *row)
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
    struct nsys *nsys = context;
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
    struct nsys *nsys = context;
    struct mp_import_tables *tables = &nsys->log.tables;
    if (tables->devices.count > mp_table_most(MP_CHUNK_DEVICES))
        return; /* too many devices: the builder reports
                 * that */
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
    struct nsys *nsys = context;
    nsys->log.unix_ns = sqlite3_column_int64(row, 0);
    nsys->log.dated = nsys->log.unix_ns > 0;
}

static const char *const process_columns[] = {"globalPid", "name", NULL};

static void take_process(void *context, sqlite3_stmt *row)
{
    struct nsys *nsys = context;
    if (process_of(sqlite3_column_int64(row, 0)) != nsys->pid_mask) return;
    nsys->log.command = text_of(nsys, row, 1);
}

static const struct nsys_table nsys_processes = {"CUDA_GPU_MEMORY_USAGE_EVENTS", process_columns, count_process};
static const struct nsys_table nsys_tables[] = {{"CUDA_GPU_MEMORY_USAGE_EVENTS", memory_columns, take_memory},
                                                {"CUDA_GPU_MEMORY_POOL_EVENTS", pool_columns, take_pool},
                                                {"StringIds", text_columns, take_text},
                                                {"CUPTI_ACTIVITY_KIND_RUNTIME", call_columns, take_call},
                                                {"TARGET_INFO_GPU", gpu_columns, take_gpu},
                                                {"TARGET_INFO_SESSION_START_TIME", start_columns, take_start},
                                                {"PROCESSES", process_columns, take_process},
                                                {NULL, NULL, NULL}};
static const struct nsys_table nsys_ranges = {"NVTX_EVENTS", nvtx_columns, take_range};

static enum mp_status each(struct nsys *nsys, const struct nsys_table *table)
{
    return nsys_each(nsys->sqlite, table->name, table->columns, table->take, nsys, nsys->path, nsys->error);
}

/* Chooses the process that has most memory events. */
static void choose_process(struct nsys *nsys)
{
    uint64_t most = 0, all = 0;
    for (size_t i = 0; i < nsys->processes.room; i++) {
        const struct mp_map_slot *slot = &nsys->processes.slots[i];
        if (!slot->key) continue;
        all += slot->value;
        if (slot->value <= most) continue;
        most = slot->value;
        nsys->pid_mask = (int64_t)(slot->key - 1);
    }
    nsys->of_others = all - most;
    nsys->log.pid = (uint32_t)(nsys->pid_mask & 0xffffff);
}

/* Outermost first: depth counts from the innermost. */
static enum mp_status read_chains(struct nsys *nsys)
{
    sqlite3 *sqlite = nsys->sqlite;
    if (!nsys->chains.count || !nsys_has_column(sqlite, "CUDA_CALLCHAINS", "stackDepth")) return MP_OK;
    sqlite3_stmt *statement = NULL;
    int result =
        sqlite3_prepare_v2(sqlite, "SELECT id, symbol, module FROM main.CUDA_CALLCHAINS ORDER BY id, stackDepth DESC",
                           -1, &statement, NULL);
    while (result == SQLITE_OK || result == SQLITE_ROW) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) nsys_take_frame(nsys, statement);
    }
    sqlite3_finalize(statement);
    return result == SQLITE_DONE ? MP_OK
                                 : mp_fail(nsys->error, MP_DAMAGED, "%s is damaged: in CUDA_CALLCHAINS: %s", nsys->path,
                                           sqlite3_errmsg(sqlite));
}

/* Sets the stacks of the memory events: the backtrace, if any, then the CUDA call, then a variable's name. */
static void put_stacks(struct nsys *nsys)
{
    struct mp_import_tables *tables = &nsys->log.tables;
    for (size_t i = 0; i < nsys->correlated.count && i < nsys->log.calls.count; i++) {
        struct mp_import_call *call = &nsys->log.calls.at[i];
        const struct nsys_site *site = nsys->correlated.at[i] ? &nsys->sites.at[nsys->correlated.at[i] - 1] : NULL;
        if (site && site->known) {
            uint64_t *stack = site->has_chain ? mp_map_find(&nsys->chains, (uint64_t)site->chain + 1) : NULL;
            call->thread = site->thread;
            call->stack = stack ? (uint32_t)*stack : 0;
            if (site->name && !call->stack)
                call->stack =
                    mp_import_stack(tables, call->stack, mp_import_frame(tables, MP_NATIVE, site->name, 0, 0));
        }
        if (call->name)
            call->stack = mp_import_stack(tables, call->stack, mp_import_frame(tables, MP_NATIVE, call->name, 0, 0));
        call->name = 0;
    }
}

static void put_notes(struct nsys *nsys)
{
    struct mp_import_log *log = &nsys->log;
    if (nsys->of_others)
        mp_import_note(log, "memory events of other processes, left out: %llu", (unsigned long long)nsys->of_others);
    if (nsys->unknown)
        mp_import_note(log, "memory events that are no allocation and no release, left out: %llu",
                       (unsigned long long)nsys->unknown);
    if (nsys->at_zero == nsys->events && nsys->events > 1)
        mp_import_note(log, "the export gives no times: all its memory events are at 0");
    if (!nsys->chains.count)
        mp_import_note(log, "the export has no backtraces of CUDA calls (nsys profile --cudabacktrace=memory)");
    if (!nsys_has_column(nsys->sqlite, nsys_processes.name, "localMemoryPoolAddress"))
        mp_import_note(log, "the export does not tell blocks of memory pools from others");
}

static enum mp_status no_memory_events(struct nsys *nsys)
{
    bool ours = nsys_has_table(nsys->sqlite, "recording") && nsys_has_table(nsys->sqlite, "blocks");
    if (ours)
        return mp_fail(nsys->error, MP_NOT_A_RECORDING,
                       "%s was written by memprof export; read the recording that it was made of", nsys->path);
    if (!nsys_has_table(nsys->sqlite, "StringIds") && !nsys_has_table(nsys->sqlite, nsys_processes.name))
        return mp_fail(nsys->error, MP_NOT_A_RECORDING, "%s is an SQLite database, but no export of Nsight Systems",
                       nsys->path);
    return mp_fail(nsys->error, MP_NOT_A_RECORDING,
                   "%s has no memory events: record them with nsys profile --cuda-memory-usage=true", nsys->path);
}

/* Opens the file as immutable. Otherwise SQLite would make journals next to it, and would apply and change existing
 * ones. */
static int open_as_it_is(const char *path, sqlite3 **sqlite)
{
    struct mp_buffer address = {0};
    mp_buffer_append_text(&address, "file:");
    for (const char *at = path; *at; at++)
        mp_buffer_printf(&address, "%%%02x", (unsigned)(unsigned char)*at);
    mp_buffer_append_text(&address, "?immutable=1");
    int result = sqlite3_open_v2(mp_buffer_text(&address), sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    mp_buffer_free(&address);
    if (!result) sqlite3_limit(*sqlite, SQLITE_LIMIT_LENGTH, LONGEST_VALUE); /* SQLite copies a value several times */
    return result;
}

/* SQLite zeroes the beginning of a journal that it keeps after use. */
static bool begins_a_journal(const char *path)
{
    FILE *journal = fopen(path, "re");
    if (!journal) return false;
    int first = getc(journal);
    fclose(journal);
    return first != EOF && first;
}

/* We do not read SQLite's journals: we would miss their changes, and read changes that they roll back. Files with a
 * journal are refused. SQLite looks for journals next to the file that a link leads to. */
static enum mp_status check_journals(const char *path, struct mp_error *error)
{
    static const char *const ends[] = {"-wal", "-journal"};
    char *real = realpath(path, NULL);
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < sizeof ends / sizeof *ends; i++) {
        struct mp_buffer journal = {0};
        mp_buffer_printf(&journal, "%s%s", real ? real : path, ends[i]);
        if (begins_a_journal(mp_buffer_text(&journal)))
            status = mp_fail(error, MP_DAMAGED,
                             "%s is not complete without %s, which has writes that are not in the file yet: let the "
                             "program end, then "
                             "run sqlite3 '%s' .tables, which joins them",
                             path, mp_buffer_text(&journal), path);
        mp_buffer_free(&journal);
    }
    free(real);
    return status;
}

/* Refuses views, virtual tables and generated columns: they compute, perhaps without end. SQLite ignores the case of
 * names. */
static enum mp_status check_is_stored(const struct nsys *nsys, const char *table)
{
    static const char query[] = "SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE AND (type = 'view' OR "
                                "(type = 'table' AND rootpage < 1)) "
                                "UNION ALL SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden > 1";
    if (any_row(nsys->sqlite, query, table, NULL) == NO_ROW) return MP_OK;
    return mp_fail(nsys->error, MP_NOT_A_RECORDING,
                   "%s is no export of Nsight Systems: %s is a view, a virtual table or has computed columns",
                   nsys->path, table);
}

static enum mp_status read_all(struct nsys *nsys)
{
    enum mp_status status = check_is_stored(nsys, nsys_processes.name);
    for (const struct nsys_table *table = nsys_tables; !status && table->name; table++)
        status = check_is_stored(nsys, table->name);
    if (!status) status = check_is_stored(nsys, nsys_ranges.name);
    if (!status) status = check_is_stored(nsys, "CUDA_CALLCHAINS");
    if (!status) status = each(nsys, &nsys_processes);
    if (status) return status;
    if (!nsys->processes.count) return no_memory_events(nsys);
    choose_process(nsys);
    for (const struct nsys_table *table = nsys_tables; !status && table->name; table++)
        status = each(nsys, table);
    if (!status) status = read_chains(nsys);
    if (status) return status;
    put_stacks(nsys);
    put_notes(nsys);
    return each(nsys, &nsys_ranges);
}

bool mp_sqlite_begins(const unsigned char *text, size_t size)
{
    static const char magic[16] = "SQLite format 3";
    return size >= sizeof magic && !memcmp(text, magic, sizeof magic);
}

static void free_reader(struct nsys *nsys)
{
    struct mp_map *maps[] = {&nsys->processes, &nsys->correlations, &nsys->chains, &nsys->texts,
                             &nsys->pools,     &nsys->pool_sums,    &nsys->homes};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        mp_map_free(maps[i]);
    mp_vec_free(&nsys->sites);
    mp_vec_free(&nsys->correlated);
    mp_import_log_free(&nsys->log);
    sqlite3_close(nsys->sqlite);
}

enum mp_status mp_nsys_load(const char *path, struct mp_model **model, struct mp_error *error)
{
    struct nsys nsys = {.path = path, .error = error, .log = {.format = "nsys"}};
    enum mp_status status = check_journals(path, error);
    if (!status && open_as_it_is(path, &nsys.sqlite) != SQLITE_OK)
        status = mp_fail(error, MP_IO, "cannot open %s: %s", path, sqlite3_errmsg(nsys.sqlite));
    if (!status) {
        sqlite3_db_config(nsys.sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(nsys.sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        status = read_all(&nsys);
    }
    if (!status && !nsys.log.calls.count) status = no_memory_events(&nsys);
    if (!status) status = mp_import_log_model(&nsys.log, path, model, error);
    free_reader(&nsys);
    return status;
}
