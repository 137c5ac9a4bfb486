/*
 * A server of language models, from its worker's own marks "server: KIND KEY=VALUE ..."
 * (python/libmemprof_torch/servers.py), and from the recorded memory of the driver. Amounts are bytes. Pure; the result
 * is the caller's, its texts are the model's.
 */
#pragma once

#include "base/vec.h"
#include "model/model.h"

#define MP_SERVER_WOULD 4

struct mp_server_weights {
    char module[128], type[24];
    uint64_t bytes;
};

/* A row of the ledger: a use of the device's memory once the server is ready. */
struct mp_server_row {
    const char *name, *detail; /* `detail` may be "" */
    const char *setting;       /* the user's setting that decides it, "--max-num-batched-tokens 8192"; "": none */
    uint64_t bytes;
    bool estimated;
};

/* An engine's names for its settings, and for the amounts that it measures and leaves free at its start. */
struct mp_server_engine {
    const char *name, *length, *utilization, *parallel, *activations, *free;
    const char *batch_key, *batch, *graphs; /* names of two settings: a batch's tokens, as key in marks and as option;
                                             * and the largest captured batch */
};

/* Memory added by the captures for one batch size. The largest size comes first; smaller ones use its pool. */
struct mp_server_graph {
    uint64_t tokens, pool_bytes, driver_bytes; /* bytes from PyTorch's allocator; bytes directly from the driver */
};

struct mp_server {
    bool known, ready; /* if not `known`, the fields below have no meaning; if not `ready`, rows have only the weights
                        * and the missing bytes */
    const struct mp_server_engine *engine;
    char name[32], version[32], cache_type[24], settings[256]; /* `name`: of the engine, also of one without a row */
    MP_VEC(struct mp_server_weights) weights;                  /* the largest first */
    uint64_t weights_bytes, activation_bytes, cache_bytes, tokens, blocks, block, length, requests, layers;
    double concurrency;                                     /* `requests` of `length` at once, as the engine says it */
    uint64_t graphs, total_bytes, free_bytes, asleep_bytes; /* `graphs`: number of captured sizes */
    double utilization;                                     /* 0: not told */
    char cache_setting[64], batch_setting[64], graph_setting[64];
    MP_VEC(struct mp_server_graph) sizes; /* one for each captured size, the largest first */
    /* The cache cannot hold one request of `length`: needed bytes, available bytes, longest request that fits. */
    char what[16];          /* what does not fit: "weights", "batch", or the cache: "" */
    bool is_short, checked; /* checked: the engine was asked about other settings; else only arithmetic tells */
    uint64_t needed_bytes, available_bytes, longest;
    char would[MP_SERVER_WOULD][64];   /* further settings with which it fits, by the engine's own function; "": none */
    unsigned parallel;                 /* tensor parallel ranks */
    MP_VEC(struct mp_server_row) rows; /* their sum is the device's total */
};

void mp_server_find(const struct mp_model *model, struct mp_server *server);
void mp_server_free(struct mp_server *server);
/* Bytes of the cache per token; 0: unknown. */
uint64_t mp_server_token_bytes(const struct mp_server *server);
/* The fewest ranks among which weights and cache must be divided so that the request fits: a power of two; 0: more than
 * 8. */
unsigned mp_server_least_parallel(const struct mp_server *server);
/* The lowest utilisation at which one request of `length` fits; 0: none. */
double mp_server_least_utilization(const struct mp_server *server);
