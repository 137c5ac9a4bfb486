/*
 * A server of language models, by what its worker said of itself in marks "server: KIND KEY=VALUE ..."
 * (python/libmemprof_torch/servers.py), with what the recording knows of the driver. Amounts are bytes. Pure; the
 * result is the caller's, its texts are the model's.
 */
#ifndef MP_ANALYSIS_SERVER_H
#define MP_ANALYSIS_SERVER_H

#include "base/vec.h"
#include "model/model.h"

struct mp_server_weights {
    char module[128], type[24];
    uint64_t bytes;
};

/* A row of the ledger: what the device's memory is for once the server is ready. */
struct mp_server_row {
    const char *name, *detail; /* `detail` may be "" */
    const char *setting;       /* the user's setting that decides it, "--max-num-batched-tokens 8192"; "": none */
    uint64_t bytes;
    bool estimated;
};

/* How an engine calls its settings, and what its start measured and leaves free. */
struct mp_server_engine {
    const char *name, *length, *utilization, *parallel, *activations, *free;
    const char *batch_key, *batch, *graphs; /* a batch's tokens, in marks and as an option; the largest captured one */
};

/* Memory that the captures of a batch size added. The largest comes first; smaller ones use its pool. */
struct mp_server_graph {
    uint64_t tokens, pool_bytes, driver_bytes; /* of PyTorch's allocator; of the driver beyond */
};

struct mp_server {
    bool known, ready; /* otherwise nothing below holds; not ready: no row but weights and what is short */
    const struct mp_server_engine *engine;
    char version[32], cache_type[24], settings[256];
    MP_VEC(struct mp_server_weights) weights; /* the largest first */
    uint64_t weights_bytes, activation_bytes, cache_bytes, tokens, blocks, block, length, requests, layers;
    uint64_t graphs, total_bytes, free_bytes, asleep_bytes; /* `graphs`: sizes that were captured */
    double utilization;                                     /* 0: not told */
    char cache_setting[64], batch_setting[64], graph_setting[64];
    MP_VEC(struct mp_server_graph) sizes; /* of graphs, the largest first */
    /* The cache does not hold one request of `length`: what it needs, what there is, the longest that fits. */
    bool is_short;
    uint64_t needed_bytes, available_bytes, longest;
    unsigned parallel;                 /* tensor parallel ranks */
    MP_VEC(struct mp_server_row) rows; /* closed: their sum is the device's total */
};

void mp_server_find(const struct mp_model *model, struct mp_server *server);
void mp_server_free(struct mp_server *server);
/* Bytes of the cache for a token; 0: unknown. */
uint64_t mp_server_token_bytes(const struct mp_server *server);
/* The fewest ranks, a power of two, whose share of weights and cache leaves room for that request; 0: not with 8. */
unsigned mp_server_least_parallel(const struct mp_server *server);
/* The least utilisation at which one request of `length` fits; 0: none does. */
double mp_server_least_utilization(const struct mp_server *server);

#endif
