#include "base/step_function.h"

#include <stddef.h>
#include <string.h>

/* True if `text` of `length` bytes ends with `end` of `end_length` bytes, alone or after a `mark`. */
static bool ends_with(const char *text, size_t length, const char *end, size_t end_length, char mark)
{
    return length >= end_length && !strncmp(text + length - end_length, end, end_length) &&
           (length == end_length || text[length - end_length - 1] == mark);
}

bool mp_step_function_means(const char *asked, const char *called)
{
    const char *colon = strrchr(called, ':'), *asked_colon = strrchr(asked, ':');
    if (!colon) return !strcmp(asked, called);
    const char *function = colon + 1;
    if (asked_colon) {
        size_t length = (size_t)(function - called);
        if (!ends_with(called, length, asked, (size_t)(asked_colon + 1 - asked), '/')) return false;
        asked = asked_colon + 1;
    }
    if (ends_with(function, strlen(function), asked, strlen(asked), '.')) return true;
    const char *method = strrchr(function, '.'), *asked_method = strrchr(asked, '.');
    if (!asked_method || strcmp(method ? method + 1 : function, asked_method + 1)) return false;
    if (strcmp(asked, "Optimizer.step")) return !method;
    return strstr(called, "torch/optim/") && !strstr(called, "torch/optim/lr_scheduler");
}

bool mp_is_library_file(const char *file)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                          "/lib64/python3",  "/libmemprof.py",  "\\site-packages\\"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strstr(file, folders[i])) return true;
    return false;
}
