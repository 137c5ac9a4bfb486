#include "analysis/device/server.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/device_use.h"
#include "analysis/device/plan.h"
#include "base/order.h"

#define SERVER  "server: "
#define NOTABLE (1 << 20) /* bytes from which on a library has a row */
/* Keys of a mark that are not the user's settings. */
static const char *const own_keys[] = {"total", "free", "reserved", "allocated"};

/* vLLM first: it is the default for marks without an engine. The last is for engines without a row. */
static const struct mp_server_engine engines[] = {
    {.name = "vLLM",
     .length = "--max-model-len",
     .utilization = "--gpu-memory-utilization",
     .parallel = "--tensor-parallel-size",
     .activations = "of the profile run; free until a batch runs",
     .free = "of it, by the utilisation, for others",
     .batch_key = "max_num_batched_tokens",
     .batch = "--max-num-batched-tokens",
     .graphs = "--max-cudagraph-capture-size"},
    {.name = "SGLang",
     .length = "--context-length",
     .utilization = "--mem-fraction-static",
     .parallel = "--tp-size",
     .activations = "of the largest batch that was captured; free until one runs",
     .free = "for batches",
     .batch_key = "chunked_prefill_size",
     .batch = "--chunked-prefill-size",
     .graphs = "--cuda-graph-max-bs-prefill"},
    {.name = "lmdeploy",
     .length = "--session-len",
     .utilization = "--cache-max-entry-count",
     .parallel = "--tp",
     .activations = "of the largest batch that was captured; free until one runs",
     .free = "for batches",
     .batch_key = "max_prefill_token_num",
     .batch = "--max-prefill-token-num",
     .graphs = "--max-batch-size"},
    {.name = "",
     .length = "requests of at most",
     .utilization = "a share of the memory of",
     .parallel = "a number of ranks of",
     .activations = "of the largest batch; free until one runs",
     .free = "for others",
     .batch_key = "",
     .batch = "",
     .graphs = "captures of at most"},
};
#define UNKNOWN_ENGINE (&engines[sizeof engines / sizeof *engines - 1])

/* Keys whose values are numbers of the server. */
#define NUMBER(member) offsetof(struct mp_server, member)
static const struct {
    const char *kind, *key;
    size_t offset;
} numbers[] = {
    {"profile", "activations", NUMBER(activation_bytes)},
    {"cache", "bytes", NUMBER(cache_bytes)},
    {"cache", "tokens", NUMBER(tokens)},
    {"cache", "blocks", NUMBER(blocks)},
    {"cache", "block", NUMBER(block)},
    {"cache", "length", NUMBER(length)},
    {"cache", "requests", NUMBER(requests)},
    {"cache", "layers", NUMBER(layers)},
    {"graphs", "sizes", NUMBER(graphs)},
    {"ready", "total", NUMBER(total_bytes)},
    {"ready", "free", NUMBER(free_bytes)},
    {"short", "needed", NUMBER(needed_bytes)},
    {"short", "available", NUMBER(available_bytes)},
    {"short", "longest", NUMBER(longest)},
    {"short", "length", NUMBER(length)},
};

/* The value of KEY in "KIND KEY=VALUE ...", up to a space; NULL: no such key. */
static const char *value_of(const char *mark, const char *key, size_t *length)
{
    size_t wanted = strlen(key);
    for (const char *at = strchr(mark, ' '); at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (strncmp(at, key, wanted) || at[wanted] != '=') continue;
        *length = strcspn(at + wanted + 1, " ");
        return at + wanted + 1;
    }
    return NULL;
}

static void copy_value(char *to, size_t room, const char *mark, const char *key)
{
    size_t length;
    const char *value = value_of(mark, key, &length);
    if (value) snprintf(to, room, "%.*s", (int)length, value);
}

static uint64_t number_of(const char *mark, const char *key)
{
    size_t length;
    const char *value = value_of(mark, key, &length);
    return value && *value != '-' ? strtoull(value, NULL, 10) : 0;
}

static double share_of(const char *mark, const char *key)
{
    size_t length;
    const char *value = value_of(mark, key, &length);
    return value ? strtod(value, NULL) : 0;
}

static bool is_kind(const char *mark, const char *kind)
{
    size_t length = strlen(kind);
    return !strncmp(mark, kind, length) && mark[length] == ' ';
}

struct readings {
    uint64_t reserved, allocated, pool, pool_tensors;
};

static void read_weights(struct mp_server *server, const char *mark)
{
    struct mp_server_weights one = {.bytes = number_of(mark, "bytes")};
    copy_value(one.module, sizeof one.module, mark, "module");
    copy_value(one.type, sizeof one.type, mark, "type");
    server->weights_bytes += one.bytes;
    mp_vec_add(&server->weights, one);
}

static void read_numbers(struct mp_server *server, const char *mark)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (is_kind(mark, numbers[i].kind))
            *(uint64_t *)((char *)server + numbers[i].offset) = number_of(mark, numbers[i].key);
}

static void read_engine(struct mp_server *server, const char *mark)
{
    copy_value(server->name, sizeof server->name, mark, "name");
    copy_value(server->version, sizeof server->version, mark, "version");
    server->engine = UNKNOWN_ENGINE;
    for (const struct mp_server_engine *engine = engines; engine < UNKNOWN_ENGINE; engine++)
        if (!strcmp(server->name, engine->name)) server->engine = engine;
    server->weights.count = 0; /* a model was loaded again */
    server->weights_bytes = 0;
}

static void read_settings(struct mp_server *server, const char *mark)
{
    size_t used = 0;
    for (const char *at = strchr(mark, ' '); at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        size_t key = strcspn(at, "= "), length = strcspn(at, " ");
        bool own = !length;
        for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++)
            own |= strlen(own_keys[i]) == key && !strncmp(at, own_keys[i], key);
        if (own || used + length + 2 >= sizeof server->settings) continue;
        used += (size_t)snprintf(server->settings + used, sizeof server->settings - used, "%s%.*s", used ? " " : "",
                                 (int)length, at);
    }
}

/* Names settings as on the engine's command line. */
static void name_settings(struct mp_server *server, const char *mark)
{
    if (server->utilization > 0)
        snprintf(server->cache_setting, sizeof server->cache_setting, "%s %g", server->engine->utilization,
                 server->utilization);
    unsigned long long batch = number_of(mark, server->engine->batch_key);
    if (batch) snprintf(server->batch_setting, sizeof server->batch_setting, "%s %llu", server->engine->batch, batch);
}

/* Settings that the engine's own function found to suffice. */
static void read_would(struct mp_server *server, const char *mark)
{
    static const char *const keys[][2] = {{"try_kv_cache_dtype", "--kv-cache-dtype"},
                                          {"try_tensor_parallel", "--tensor-parallel-size"},
                                          {"try_max_num_seqs", "--max-num-seqs"},
                                          {"try_max_num_batched_tokens", "--max-num-batched-tokens"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char value[16] = "";
        copy_value(value, sizeof value, mark, keys[i][0]);
        if (*value) snprintf(server->would[i], sizeof server->would[i], "%s %s", keys[i][1], value);
    }
}

static void read_mark(struct mp_server *server, const char *mark, struct readings *readings)
{
    server->known = true;
    read_numbers(server, mark);
    if (is_kind(mark, "engine")) {
        read_engine(server, mark);
    } else if (is_kind(mark, "weights")) {
        read_weights(server, mark);
    } else if (is_kind(mark, "cache")) {
        server->concurrency = share_of(mark, "requests");
        copy_value(server->cache_type, sizeof server->cache_type, mark, "type");
    } else if (is_kind(mark, "graph")) {
        struct mp_server_graph one = {number_of(mark, "size"), number_of(mark, "pool"), number_of(mark, "driver")};
        mp_vec_add(&server->sizes, one);
    } else if (is_kind(mark, "graphs")) {
        readings->pool = number_of(mark, "pool");
        size_t length;
        readings->pool_tensors = value_of(mark, "tensors", &length) ? number_of(mark, "tensors") : readings->pool;
        if (number_of(mark, "largest"))
            snprintf(server->graph_setting, sizeof server->graph_setting, "%s %llu", server->engine->graphs,
                     (unsigned long long)number_of(mark, "largest"));
    } else if (is_kind(mark, "ready")) {
        server->ready = true;
        readings->reserved = number_of(mark, "reserved");
        readings->allocated = number_of(mark, "allocated");
        server->utilization = share_of(mark, "utilization");
        read_settings(server, mark);
        name_settings(server, mark);
    } else if (is_kind(mark, "short")) {
        server->is_short = true;
        server->utilization = share_of(mark, "utilization");
        server->parallel = (unsigned)number_of(mark, "tensor_parallel_size");
        server->checked = number_of(mark, "checked");
        copy_value(server->what, sizeof server->what, mark, "what");
        read_would(server, mark);
    } else if (is_kind(mark, "asleep")) {
        server->asleep_bytes += number_of(mark, "bytes");
    } else if (is_kind(mark, "awake")) {
        server->asleep_bytes = 0;
    }
}

static uint64_t add(struct mp_server *server, struct mp_server_row row)
{
    if (row.bytes) mp_vec_add(&server->rows, row);
    return row.bytes;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Adds the plan's estimates: either those for graphs, or all others. A recording of a real GPU has no estimates. */
static uint64_t add_estimates(struct mp_server *server, const struct mp_plan *plan, bool graphs, uint64_t outside)
{
    uint64_t added = 0;
    for (size_t i = 0; plan->planned && i < plan->estimated.count; i++) {
        const struct mp_plan_estimate *one = &plan->estimated.at[i];
        if (!strcmp(one->name, "executables of graphs") != graphs || one->bytes == MP_BYTES_UNKNOWN) continue;
        uint64_t bytes = least(one->bytes, outside - added);
        added +=
            add(server, graphs ? (struct mp_server_row){"graphs", "executables", server->graph_setting, bytes, true}
                               : (struct mp_server_row){"libraries", one->name, "", bytes, true});
    }
    return added;
}

/* Memory from the driver outside of PyTorch's allocator: mostly buffers of collectives. */
static uint64_t add_libraries(struct mp_server *server, const struct mp_model *model, uint64_t outside)
{
    struct mp_device_uses uses = {0};
    uint64_t added = 0;
    mp_device_uses_find(model, &uses);
    const struct mp_device_use *most = NULL;
    for (size_t i = 0; i < uses.count; i++)
        if (!most || uses.at[i].handed_out_bytes > most->handed_out_bytes) most = &uses.at[i];
    for (size_t i = 0; most && i < most->parts.count; i++) {
        const struct mp_device_part *part = &most->parts.at[i];
        if (part->kind == MP_PART_LIBRARY && part->bytes >= NOTABLE)
            added += add(server, (struct mp_server_row){"workspaces", part->name, "",
                                                        least(part->bytes, outside - added), false});
    }
    mp_device_uses_free(&uses);
    return added;
}

/* Rows are in the order of the settings that decide them: model, cache, batch. Graphs, libraries and the unexplained
 * rest follow. Activations are memory that is free until a batch runs. */
static void make_rows(struct mp_server *server, const struct mp_model *model, const struct mp_plan *plan,
                      const struct readings *readings)
{
    uint64_t used = server->total_bytes - server->free_bytes;
    uint64_t torch = least(readings->reserved, used), allocated = least(readings->allocated, torch);
    uint64_t outside = used - torch, weights = least(server->weights_bytes, allocated);
    uint64_t cache = least(server->cache_bytes, allocated - weights);
    uint64_t pools = least(readings->pool, torch - weights - cache), others = allocated - weights - cache;
    others -= least(others, readings->pool_tensors);
    uint64_t cached = least(torch - allocated, torch - weights - cache - pools - others);
    /* A batch first uses PyTorch's cached memory. */
    uint64_t activations = least(server->activation_bytes, cached + server->free_bytes);
    uint64_t of_cached = least(activations, cached), of_free = activations - of_cached;
    add(server, (struct mp_server_row){"weights", "", "", weights, false});
    add(server, (struct mp_server_row){"KV cache", "", server->cache_setting, cache, false});
    add(server,
        (struct mp_server_row){"activations", server->engine->activations, server->batch_setting, activations, false});
    add(server, (struct mp_server_row){"graphs", "pools", server->graph_setting, pools, false});
    uint64_t graphs = add_estimates(server, plan, true, outside);
    outside -= graphs;
    add(server, (struct mp_server_row){"workspaces", "and other tensors", "", others, false});
    outside -= add_libraries(server, model, outside - least(plan->estimated_bytes - graphs, outside));
    add(server, (struct mp_server_row){"cached", "reserved by PyTorch, in no tensor", "", cached - of_cached, false});
    outside -= add_estimates(server, plan, false, outside);
    /* A recording of a GPU has no estimates, so this row has all memory without a known requester. */
    add(server, (struct mp_server_row){plan->planned ? "unattributed" : "libraries",
                                       plan->planned ? "" : "context, kernels, NCCL", "", outside, false});
    add(server, (struct mp_server_row){"free", server->utilization ? server->engine->free : "", server->cache_setting,
                                       server->free_bytes - of_free, false});
}

MP_ORDER(by_bytes, struct mp_server_weights, MP_FALLING(bytes))

void mp_server_find(const struct mp_model *model, struct mp_server *server)
{
    struct readings readings = {0};
    *server = (struct mp_server){.parallel = 1, .engine = engines};
    snprintf(server->name, sizeof server->name, "%s", engines->name);
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] != MP_EVENT_MARK) continue;
        const char *name = mp_model_text(model, model->notes.at[model->events.subject[event]].name);
        if (!strncmp(name, SERVER, strlen(SERVER))) read_mark(server, name + strlen(SERVER), &readings);
    }
    if (server->weights.count > 1)
        qsort(server->weights.at, server->weights.count, sizeof *server->weights.at, by_bytes);
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    if (plan.planned && !server->total_bytes) server->total_bytes = plan.total_bytes;
    if (server->ready) make_rows(server, model, &plan, &readings);
    mp_plan_free(&plan);
}

void mp_server_free(struct mp_server *server)
{
    mp_vec_free(&server->weights);
    mp_vec_free(&server->rows);
    mp_vec_free(&server->sizes);
}

uint64_t mp_server_token_bytes(const struct mp_server *server)
{
    return server->tokens ? (server->cache_bytes + server->tokens / 2) / server->tokens : 0;
}

unsigned mp_server_least_parallel(const struct mp_server *server)
{
    enum { MOST = 8 };
    for (unsigned ranks = 2 * server->parallel; ranks <= MOST; ranks *= 2) {
        double part = (double)server->parallel / ranks, weights = (double)server->weights_bytes;
        if ((double)server->needed_bytes * part <= (double)server->available_bytes + weights * (1 - part)) return ranks;
    }
    return 0;
}

double mp_server_least_utilization(const struct mp_server *server)
{
    if (!server->is_short || !server->utilization || !server->total_bytes) return 0;
    double lacks = (double)server->needed_bytes - (double)server->available_bytes;
    double least_share = server->utilization + lacks / (double)server->total_bytes;
    return least_share <= 1 ? least_share : 0;
}
