#include "exchange/nsys.h"

#include <string.h>

#include "exchange/nsys_parts.h"

static enum mp_status each(struct mp_nsys *nsys, const struct mp_nsys_table *table)
{
    return mp_nsys_each(nsys->sqlite, table->name, table->columns, table->take, nsys, nsys->path, nsys->error);
}

/* The process that has most memory events. */
static void choose_process(struct mp_nsys *nsys)
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
static enum mp_status read_chains(struct mp_nsys *nsys)
{
    sqlite3 *sqlite = nsys->sqlite;
    if (!nsys->chains.count || !mp_nsys_has_column(sqlite, "CUDA_CALLCHAINS", "stackDepth")) return MP_OK;
    sqlite3_stmt *statement = NULL;
    int result =
        sqlite3_prepare_v2(sqlite, "SELECT id, symbol, module FROM main.CUDA_CALLCHAINS ORDER BY id, stackDepth DESC",
                           -1, &statement, NULL);
    while (result == SQLITE_OK || result == SQLITE_ROW) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW) mp_nsys_take_frame(nsys, statement);
    }
    sqlite3_finalize(statement);
    return result == SQLITE_DONE ? MP_OK
                                 : mp_fail(nsys->error, MP_DAMAGED, "%s is damaged: in CUDA_CALLCHAINS: %s", nsys->path,
                                           sqlite3_errmsg(sqlite));
}

/* The stacks of the memory events: backtrace where there is one, the CUDA call, a variable's name. */
static void put_stacks(struct mp_nsys *nsys)
{
    struct mp_import_tables *tables = &nsys->log.tables;
    for (size_t i = 0; i < nsys->correlated.count && i < nsys->log.calls.count; i++) {
        struct mp_import_call *call = &nsys->log.calls.at[i];
        const struct mp_nsys_site *site = nsys->correlated.at[i] ? &nsys->sites.at[nsys->correlated.at[i] - 1] : NULL;
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

static void put_notes(struct mp_nsys *nsys)
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
    if (!mp_nsys_has_column(nsys->sqlite, mp_nsys_processes.name, "localMemoryPoolAddress"))
        mp_import_note(log, "the export does not tell blocks of memory pools from others");
}

static enum mp_status no_memory_events(struct mp_nsys *nsys)
{
    bool ours = mp_nsys_has_table(nsys->sqlite, "recording") && mp_nsys_has_table(nsys->sqlite, "blocks");
    if (ours)
        return mp_fail(nsys->error, MP_NOT_A_RECORDING,
                       "%s was written by memprof export; read the recording that it was made of", nsys->path);
    if (!mp_nsys_has_table(nsys->sqlite, "StringIds") && !mp_nsys_has_table(nsys->sqlite, mp_nsys_processes.name))
        return mp_fail(nsys->error, MP_NOT_A_RECORDING, "%s is an SQLite database, but no export of Nsight Systems",
                       nsys->path);
    return mp_fail(nsys->error, MP_NOT_A_RECORDING,
                   "%s holds no memory events: record them with nsys profile --cuda-memory-usage=true", nsys->path);
}

static enum mp_status read_all(struct mp_nsys *nsys)
{
    enum mp_status status = each(nsys, &mp_nsys_processes);
    if (status) return status;
    if (!nsys->processes.count) return no_memory_events(nsys);
    choose_process(nsys);
    for (const struct mp_nsys_table *table = mp_nsys_tables; !status && table->name; table++)
        status = each(nsys, table);
    if (!status) status = read_chains(nsys);
    if (status) return status;
    put_stacks(nsys);
    put_notes(nsys);
    return each(nsys, &mp_nsys_ranges);
}

bool mp_sqlite_begins(const unsigned char *text, size_t size)
{
    static const char magic[16] = "SQLite format 3";
    return size >= sizeof magic && !memcmp(text, magic, sizeof magic);
}

static void free_reader(struct mp_nsys *nsys)
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
    struct mp_nsys nsys = {.path = path, .error = error, .log = {.format = "nsys"}};
    enum mp_status status = MP_OK;
    if (sqlite3_open_v2(path, &nsys.sqlite, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
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
