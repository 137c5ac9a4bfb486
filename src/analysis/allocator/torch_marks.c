#include "analysis/allocator/torch_history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"

static const struct {
    const char *word;
    enum mp_torch_call call;
} of_pools[] = {
    {"made", MP_TORCH_CALL_POOL_MADE},       {"begins", MP_TORCH_CALL_POOL_BEGINS},
    {"ends", MP_TORCH_CALL_POOL_ENDS},       {"released", MP_TORCH_CALL_POOL_RELEASED},
    {"deleted", MP_TORCH_CALL_POOL_DELETED}, {"captured", MP_TORCH_CALL_CAPTURED},
};

static bool read_pool(const char *text, struct mp_torch_mark *mark, char *device)
{
    uint64_t first, second;
    char word[16];
    if (sscanf(text, "pool %" SCNu64 ":%" SCNu64 " %15s on %31s", &first, &second, word, device) != 4) return false;
    mark->pool = first << 32 | second;
    for (size_t i = 0; i < sizeof of_pools / sizeof *of_pools; i++)
        if (!strcmp(word, of_pools[i].word)) {
            mark->call = of_pools[i].call;
            mark->use_on_oom = strstr(text, " use_on_oom") != NULL;
            mark->no_split = strstr(text, " no_split") != NULL;
            return true;
        }
    return false;
}

static bool read_capture(const char *text, struct mp_torch_mark *mark, char *device)
{
    char word[16];
    if (sscanf(text, "capture %15s on %31s", word, device) != 2) return false;
    mark->call = strcmp(word, "begins") ? MP_TORCH_CALL_CAPTURE_FAILS : MP_TORCH_CALL_CAPTURE;
    return true;
}

bool mp_torch_mark_read(const char *name, const char *device, struct mp_torch_mark *mark)
{
    static const char began[] = "began with settings:", settings[] = "settings:";
    char of[32];
    *mark = (struct mp_torch_mark){0};
    if (strncmp(name, MP_TORCH_MARK, strlen(MP_TORCH_MARK)) != 0) return false;
    const char *text = name + strlen(MP_TORCH_MARK);
    if (!strcmp(text, "empty_cache")) {
        mark->call = MP_TORCH_CALL_EMPTY;
        return true;
    }
    if (!strncmp(text, began, strlen(began)) || !strncmp(text, settings, strlen(settings))) {
        mark->call = *text == *began ? MP_TORCH_CALL_BEGAN : MP_TORCH_CALL_SETTINGS;
        mark->settings = strchr(text, ':') ? strchr(text, ':') + 1 : "";
        return true;
    }
    if (sscanf(text, "memory fraction %lf on %31s", &mark->fraction, of) == 2) {
        mark->call = MP_TORCH_CALL_LIMIT;
        return !strcmp(of, device) && isfinite(mark->fraction) && mark->fraction >= 0 && mark->fraction <= 1;
    }
    return (read_pool(text, mark, of) || read_capture(text, mark, of)) && !strcmp(of, device);
}
