#include "plan/try.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/server.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/size_probing.h"
#include "model/load.h"
#include "plan/messages.h"
#include "plan/words.h"

#define SETTINGS_MAX 8
#define TRIALS_MAX   (SETTINGS_MAX + 2)

struct trial {
    char settings[256]; /* "": as given */
    bool known, fits;
    uint64_t tokens, requests, longest, weights, activations, cache;
};

struct trying {
    const struct mp_invocation *invocation;
    struct mp_probing probing;
    struct trial trials[TRIALS_MAX];
    size_t count;
};

/* Reads the settings to try: each alone, then all together. */
static bool read_settings(struct trying *trying)
{
    const char *text = trying->invocation->value[MP_OPT_TRY];
    size_t settings = 0;
    trying->count = 1;
    for (const char *at = text; *at; at += *at == ',') {
        size_t length = strcspn(at, ","), key = strcspn(at, "=,");
        if (!key || at[key] != '=' || key + 1 == length || length >= sizeof trying->trials[0].settings ||
            ++settings > SETTINGS_MAX)
            break;
        snprintf(trying->trials[trying->count++].settings, sizeof trying->trials[0].settings, "%.*s", (int)length, at);
        at += length;
        if (*at) continue;
        if (settings > 1)
            snprintf(trying->trials[trying->count++].settings, sizeof trying->trials[0].settings, "%s", text);
        return true;
    }
    mp_message("--try %s: give up to %u settings of the server, such as max_num_batched_tokens=2048,kv_cache_dtype=fp8",
               text, SETTINGS_MAX);
    return false;
}

/* Reads one process's report, if it has one: the worker has a report, or the engine if the cache is too small. */
static void read_recording(struct trial *trial, const char *path)
{
    struct mp_model *model;
    struct mp_server server;
    struct mp_error error;
    if (mp_model_load(path, &model, &error)) return;
    mp_server_find(model, &server);
    if (server.weights_bytes > trial->weights) trial->weights = server.weights_bytes;
    if (server.activation_bytes > trial->activations) trial->activations = server.activation_bytes;
    if (server.tokens || server.is_short) {
        trial->known = true;
        trial->fits = !server.is_short;
        trial->tokens = server.tokens;
        trial->requests = server.requests;
        trial->longest = server.longest;
        trial->cache = server.is_short ? server.available_bytes : server.cache_bytes;
    }
    mp_server_free(&server);
    mp_model_free(model);
}

/* Reads the recordings of trial `number`: N.mp, N.PID.mp, ... in the folder. */
static void read_recordings(struct trying *trying, size_t number)
{
    char beginning[24];
    snprintf(beginning, sizeof beginning, "%zu.", number);
    DIR *folder = opendir(trying->probing.folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *path = mp_text_make("%s/%s", trying->probing.folder, entry->d_name);
        size_t length = strlen(path);
        if (!strncmp(entry->d_name, beginning, strlen(beginning)) && length > 3 && !strcmp(path + length - 3, ".mp"))
            read_recording(&trying->trials[number], path);
        free(path);
    }
    if (folder) closedir(folder);
}

static int run_trial(struct trying *trying, size_t number)
{
    struct trial *trial = &trying->trials[number];
    char *path = mp_text_make("%s/%zu.mp", trying->probing.folder, number);
    char *log = mp_text_make("%s/%zu.log", trying->probing.folder, number);
    char shown[320];
    snprintf(shown, sizeof shown, "run %zu of %zu, %s", number + 1, trying->count,
             *trial->settings ? trial->settings : "as given");
    setenv("MEMPROF_TRY", trial->settings, 1);
    int status = mp_probing_run_words(trying->invocation, shown, mp_plan_words(trying->invocation, false, path), log);
    bool ended = status < 0 || mp_probing_is_interrupted(status);
    if (!ended) read_recordings(trying, number);
    if (!ended && !trial->known) {
        mp_message("with %s no server started; it printed last:",
                   *trial->settings ? trial->settings : "the settings given");
        mp_probing_print_tail(log);
    }
    free(path);
    free(log);
    return ended || (!number && !trial->known) ? MP_EXIT_COULD_NOT : MP_EXIT_DONE;
}

static void put_heading(void)
{
    printf("  %12s  %9s  %9s  %11s  %9s  settings\n", "tokens", "requests", "weights", "activations", "KV cache");
    fflush(stdout);
}

/* Into a pipe, too, a row comes as soon as it is known: a trial takes a minute. */
static void put_row(const struct trial *one)
{
    char tokens[MP_UNIT_TEXT], requests[MP_UNIT_TEXT], weights[MP_UNIT_TEXT], activations[MP_UNIT_TEXT];
    char cache[MP_UNIT_TEXT];
    printf("  %12s  %9s  %9s  %11s  %9s  %s", one->known ? mp_format_count(tokens, one->tokens) : "?",
           one->known ? mp_format_count(requests, one->requests) : "?", mp_format_bytes(weights, one->weights),
           mp_format_bytes(activations, one->activations), one->known ? mp_format_bytes(cache, one->cache) : "?",
           *one->settings ? one->settings : "as given");
    if (one->known && !one->fits)
        printf("; does not fit, the longest request is %s", mp_format_count(tokens, one->longest));
    printf("\n");
    fflush(stdout);
}

static void put_json(const struct trying *trying)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    mp_json_start(&json, &out);
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.try/1");
    mp_json_array(&json, "trials");
    for (size_t i = 0; i < trying->count; i++) {
        const struct trial *one = &trying->trials[i];
        mp_json_object(&json, NULL);
        mp_json_text(&json, "settings", one->settings);
        mp_json_text(&json, "fits", !one->known ? NULL : one->fits ? "yes" : "no");
        mp_json_number(&json, "tokens", one->tokens);
        mp_json_number(&json, "requests", one->requests);
        mp_json_number(&json, "longest", one->longest);
        mp_json_number(&json, "weights_bytes", one->weights);
        mp_json_number(&json, "activation_bytes", one->activations);
        mp_json_number(&json, "cache_bytes", one->cache);
        mp_json_end_object(&json);
    }
    mp_json_end_array(&json);
    mp_plan_print_json(&json);
}

int mp_plan_try(const struct mp_invocation *invocation)
{
    struct trying trying = {.invocation = invocation};
    if (!read_settings(&trying)) return MP_EXIT_USAGE;
    int status = mp_probing_begin(&trying.probing);
    bool json = mp_given(invocation, MP_OPT_JSON);
    if (!status && !json) put_heading();
    for (size_t i = 0; !status && i < trying.count; i++) {
        status = run_trial(&trying, i);
        if (!status && !json) put_row(&trying.trials[i]);
    }
    mp_probing_end(&trying.probing);
    if (!status && json) put_json(&trying);
    return status;
}
