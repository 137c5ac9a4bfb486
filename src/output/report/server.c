#include "output/report/server.h"

#include <string.h>

#include "analysis/device/server.h"
#include "output/report/columns.h"
#include "output/report/view.h"

#define WEIGHTS_SHOWN 8
#define GRAPHS_SHOWN  4

#define ROW(member)     MP_MEMBER(struct mp_server_row, member)
#define GRAPH(member)   MP_MEMBER(struct mp_server_graph, member)
#define WEIGHTS(member) MP_MEMBER(struct mp_server_weights, member)

MP_GETTER(get_share, struct mp_server_row, row,
          (value->number = row->bytes, value->whole = ((const struct mp_server *)of)->total_bytes))
MP_GETTER(get_module, struct mp_server_weights, row, value->text = row->module)
MP_GETTER(get_type, struct mp_server_weights, row, value->text = row->type)
MP_GETTER(get_detail, struct mp_server_row, row,
          mp_buffer_printf(&value->made, "%s%s%s", row->detail, *row->detail && row->estimated ? ", " : "",
                           row->estimated ? "estimated" : ""))

static const struct mp_column row_columns[] = {
    {"part", "name", MP_NAME, ROW(name)},         {"bytes", "bytes", MP_BYTES, ROW(bytes)},
    {"share", NULL, MP_SHARE, .get = get_share},  {"of it", NULL, MP_NAME, .get = get_detail},
    {"set by", "setting", MP_NAME, ROW(setting)}, {NULL, "detail", MP_NAME, ROW(detail)},
    {NULL, "estimated", MP_FLAG, ROW(estimated)}, {NULL},
};

static const struct mp_column weight_columns[] = {
    {"weights", "module", MP_NAME, .get = get_module},
    {"type", "type", MP_NAME, .get = get_type},
    {"bytes", "bytes", MP_BYTES, WEIGHTS(bytes)},
    {NULL},
};

static const struct mp_column graph_columns[] = {
    {"graphs of", "tokens", MP_COUNT, GRAPH(tokens)},
    {"pool grew", "pool_bytes", MP_BYTES, GRAPH(pool_bytes)},
    {"driver ~", "driver_bytes", MP_BYTES, GRAPH(driver_bytes)},
    {NULL},
};

void mp_server_json(struct mp_json *json, const struct mp_model *model)
{
    struct mp_server server;
    mp_server_find(model, &server);
    if (server.known) {
        mp_json_object(json, "server");
        mp_json_text(json, "engine", server.name);
        mp_json_text(json, "version", *server.version ? server.version : NULL);
        mp_json_text(json, "settings", server.settings);
        mp_json_bool(json, "ready", server.ready);
        mp_json_number(json, "tokens", server.tokens);
        mp_json_number(json, "requests", server.requests);
        mp_json_real(json, "concurrency", server.concurrency);
        mp_json_number(json, "length", server.length);
        mp_json_number(json, "blocks", server.blocks);
        mp_json_number(json, "block_tokens", server.block);
        mp_json_number(json, "token_bytes", mp_server_token_bytes(&server));
        mp_json_number(json, "layers", server.layers);
        mp_json_text(json, "cache_type", *server.cache_type ? server.cache_type : NULL);
        mp_json_number(json, "weights_bytes", server.weights_bytes);
        mp_json_number(json, "activation_bytes", server.activation_bytes);
        mp_json_number(json, "cache_bytes", server.cache_bytes);
        mp_json_number(json, "total_bytes", server.total_bytes);
        mp_json_number(json, "asleep_bytes", server.asleep_bytes);
        mp_rows_json(json, "parts", &MP_ROWS(row_columns, server.rows.at, server.rows.count, .of = &server));
        mp_rows_json(json, "weights", &MP_ROWS(weight_columns, server.weights.at, server.weights.count));
        mp_rows_json(json, "graphs", &MP_ROWS(graph_columns, server.sizes.at, server.sizes.count));
        if (server.is_short) {
            mp_json_object(json, "short");
            mp_json_number(json, "needed_bytes", server.needed_bytes);
            mp_json_number(json, "available_bytes", server.available_bytes);
            mp_json_number(json, "longest", server.longest);
            mp_json_real(json, "least_utilization", mp_server_least_utilization(&server));
            mp_json_number(json, "least_tensor_parallel_size", mp_server_least_parallel(&server));
            mp_json_array(json, "would");
            for (size_t i = 0; i < MP_SERVER_WOULD; i++)
                if (*server.would[i]) mp_json_text(json, NULL, server.would[i]);
            mp_json_end_array(json);
            mp_json_end_object(json);
        }
        mp_json_end_object(json);
    }
    mp_server_free(&server);
}

static void put_short(struct mp_buffer *out, const struct mp_server *server)
{
    const char *needed = mp_bytes(server->needed_bytes), *left = mp_bytes(server->available_bytes);
    if (!strcmp(server->what, "weights"))
        mp_buffer_printf(out, "does not fit: the weights take %s, and %s is left", needed, left);
    else if (!strcmp(server->what, "batch"))
        mp_buffer_printf(out, "does not fit: memory ran out in the profile run of %s tokens", mp_count(server->length));
    else
        mp_buffer_printf(out, "does not fit: one request of %s tokens needs %s of KV cache, and %s is left",
                         mp_count(server->length), needed, left);
    double share = mp_server_least_utilization(server);
    const char *before = "; what would: ";
    if (server->longest) {
        mp_buffer_printf(out, "%s%s %llu", before, server->engine->length, (unsigned long long)server->longest);
        before = ", ";
    }
    if (share > 0) {
        mp_buffer_printf(out, "%s%s %.3f", before, server->engine->utilization, share + 0.0005);
        before = ", ";
    }
    for (size_t i = 0; i < MP_SERVER_WOULD; i++) {
        if (!*server->would[i]) continue;
        mp_buffer_printf(out, "%s%s", before, server->would[i]);
        before = ", ";
    }
    if (!server->checked && mp_server_least_parallel(server))
        mp_buffer_printf(out, "%s%s %u", before, server->engine->parallel, mp_server_least_parallel(server));
}

bool mp_server_sentence(struct mp_buffer *out, const struct mp_model *model, bool *lacks)
{
    struct mp_server server;
    mp_server_find(model, &server);
    bool said = server.is_short || server.tokens;
    *lacks = server.is_short;
    if (server.is_short)
        put_short(out, &server);
    else if (server.tokens)
        mp_buffer_printf(out, "%s tokens of KV cache: %.2f requests of %s", mp_count(server.tokens), server.concurrency,
                         mp_count(server.length));
    mp_server_free(&server);
    return said;
}

static void say_more(struct mp_text *text, size_t count)
{
    if (count) mp_say(text, "  and %zu more: --json lists them\n", count);
}

bool mp_server_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_server server;
    struct mp_buffer sentence = {0};
    bool lacks;
    mp_server_find(model, &server);
    bool said = server.known && mp_server_sentence(&sentence, model, &lacks);
    if (said) {
        mp_heading(text, "SERVER  %.*s", (int)sentence.size, (const char *)sentence.data);
        mp_say(text, "\n  %s %s%s%s\n", server.name, server.version, *server.settings ? "; " : "", server.settings);
        if (server.tokens)
            mp_say(text, "  %s of %s, %s a token, %s, %s\n", mp_counted(server.blocks, "block"),
                   mp_counted(server.block, "token"), mp_bytes(mp_server_token_bytes(&server)),
                   mp_counted(server.layers, "layer"), server.cache_type);
        if (server.asleep_bytes) mp_say(text, "  asleep: %s are not on the device\n", mp_bytes(server.asleep_bytes));
        mp_rows_text(text, &MP_ROWS(row_columns, server.rows.at, server.rows.count, .of = &server, .heading = ""));
        size_t shown = server.weights.count < WEIGHTS_SHOWN ? server.weights.count : WEIGHTS_SHOWN;
        mp_rows_text(text, &MP_ROWS(weight_columns, server.weights.at, shown, .heading = ""));
        say_more(text, server.weights.count - shown);
        shown = server.sizes.count < GRAPHS_SHOWN ? server.sizes.count : GRAPHS_SHOWN;
        mp_rows_text(text, &MP_ROWS(graph_columns, server.sizes.at, shown, .heading = ""));
        say_more(text, server.sizes.count - shown);
    }
    mp_buffer_free(&sentence);
    mp_server_free(&server);
    return said;
}
