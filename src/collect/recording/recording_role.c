#include "collect/recording/recording_parts.h"

#include <string.h>

/* A forked worker has its parent's command line, so only its stacks show its role. */
static const struct {
    const char *function, *file, *role;
} workers[] = {
    {"_bootstrap", "/multiprocessing/process.py", MP_ROLE_WORKER},
    {"worker", "/multiprocessing/pool.py", MP_ROLE_POOL_WORKER},
    {"_process_worker", "/concurrent/futures/process.py", MP_ROLE_POOL_WORKER},
    {"_worker_loop", "/torch/utils/data/_utils/worker.py", MP_ROLE_LOADER_WORKER},
};
#define WORKERS    (sizeof workers / sizeof *workers)
#define NODES_MOST (UINT64_C(1) << 16) /* only the first nodes are searched: a worker's functions run first */
#define DEPTH_MOST 4096

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

static const char *spool_text(const struct mp_tables *tables, uint32_t spool_string)
{
    return mp_intern_get(&tables->strings, mp_tables_spool_string(tables, spool_string), NULL);
}

/* The index of the row in `workers` with the frame's function; WORKERS: none. */
static size_t row_of(const struct mp_tables *tables, const struct mp_wire_frame *frame)
{
    size_t row = 0;
    if (frame->language != MP_PYTHON) return WORKERS;
    const char *function = spool_text(tables, frame->function), *dot = strrchr(function, '.');
    if (dot) function = dot + 1; /* from 3.11 on a method's name begins with the class's name */
    while (row < WORKERS && strcmp(function, workers[row].function) != 0)
        row++;
    return row < WORKERS && ends_with(spool_text(tables, frame->file), workers[row].file) ? row : WORKERS;
}

/* True if an outer frame is that of multiprocessing's start of a process. Otherwise the functions may run in a thread
 * of a ThreadPool, which any process may have. */
static bool is_in_worker(const struct mp_tables *tables, const struct mp_wire_node *nodes, uint32_t node,
                         const struct mp_wire_frame *frames)
{
    for (unsigned depth = 0; node && node < tables->seen[MP_TABLE_NODES] && depth < DEPTH_MOST; depth++) {
        uint32_t frame = nodes[node].frame;
        if (frame < tables->seen[MP_TABLE_FRAMES] && row_of(tables, &frames[frame]) == 0) return true;
        node = nodes[node].parent;
    }
    return false;
}

void mp_recording_find_role(struct mp_recording *recording)
{
    const struct mp_tables *tables = &recording->tables;
    struct mp_member *member = &recording->spool.header->member;
    const struct mp_wire_frame *frames = mp_spool_entries(recording->spool.header, MP_TABLE_FRAMES);
    const struct mp_wire_node *nodes = mp_spool_entries(recording->spool.header, MP_TABLE_NODES);
    size_t best = WORKERS;
    if (mp_member_same_rank(member, &recording->group)) return;
    /* The last matching row counts: a pool's worker also has the frame that every worker has. */
    for (uint64_t i = 1; i < tables->seen[MP_TABLE_NODES] && i < NODES_MOST; i++) {
        uint32_t frame = nodes[i].frame;
        if (frame >= tables->seen[MP_TABLE_FRAMES]) continue;
        size_t row = row_of(tables, &frames[frame]);
        if (row == WORKERS || (best < WORKERS && row <= best)) continue;
        if (!row || is_in_worker(tables, nodes, nodes[i].parent, frames)) best = row;
    }
    if (best < WORKERS) mp_member_text(member->role, workers[best].role, strlen(workers[best].role));
}
