/*
 * What the two halves of reading an export of Nsight Systems share: nsys.c knows which tables are read in which order,
 * nsys_take.c what a row means. Private to them.
 */
#ifndef MP_EXCHANGE_NSYS_PARTS_H
#define MP_EXCHANGE_NSYS_PARTS_H

#include "exchange/import_calls.h"
#include "exchange/nsys_rows.h"

/* The CUDA call that a memory event came from. */
struct mp_nsys_site {
    uint32_t name, thread;
    int64_t chain;
    bool known, has_chain;
};

struct mp_nsys {
    struct mp_import_log log;
    sqlite3 *sqlite;
    const char *path;
    struct mp_error *error;
    int64_t pid_mask;           /* globalPid of the process that is read, without its lowest 24 bits */
    struct mp_map processes;    /* memory events by process + 1 */
    struct mp_map correlations; /* index into sites + 1, by correlation + 1 */
    MP_VEC(struct mp_nsys_site) sites;
    MP_VEC(uint64_t) correlated;    /* by call of the log: index into sites + 1, 0: none */
    struct mp_map chains;           /* stacks by chain + 1 */
    struct mp_map texts;            /* StringIds: string ids by id + 1 */
    struct mp_map pools, pool_sums; /* what a pool holds, by its address and track; what all of a track hold */
    struct mp_map homes;            /* tracks of live blocks + 1, by address + 1: a process has each address once */
    uint64_t of_others, events, at_zero, unknown;
};

/* The columns that a row has, and what takes it. */
struct mp_nsys_table {
    const char *name, *const *columns;
    void (*take)(void *nsys, sqlite3_stmt *row);
};

/* Counts the processes; then, with one chosen, the others in this order. */
extern const struct mp_nsys_table mp_nsys_processes;
extern const struct mp_nsys_table mp_nsys_tables[]; /* the last has no name */
/* Takes id, symbol, module of a frame; frames of a backtrace come outermost first. */
void mp_nsys_take_frame(struct mp_nsys *nsys, sqlite3_stmt *row);
extern const struct mp_nsys_table mp_nsys_ranges; /* last of all */

#endif
