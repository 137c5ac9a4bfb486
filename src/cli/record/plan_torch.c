#include "cli/record/plan_torch.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages.h"

/* Changes to PyTorch that altered a program's memory, with their versions; known from comparing recordings of real GPUs
 * with plans, and from PyTorch's own notes. */
static const struct {
    unsigned major, minor; /* the first version that has it */
    const char *what;
} changes[] = {
    {2, 9, "cuBLASLt's workspace is kept for each stream since 2.9, not made for each call (pytorch#156495)"},
    {2, 10,
     "under inference_mode, autocast keeps casts of weights up to 2.9 and not after (pytorch#165068): 40 % of "
     "one program"},
    {2, 11, "cuBLASLt uses cuBLAS's workspace since 2.11 (pytorch#168175)"},
    {2, 11, "backward of an embedding takes a block of its size more since 2.11"},
};

bool mp_plan_read_torch(const char *text, unsigned version[2])
{
    char after;
    int found = sscanf(text, "%3u.%3u%c", &version[0], &version[1], &after);
    return found == 2 || (found == 3 && strchr(".+a", after));
}

static bool is_before(const unsigned a[2], unsigned major, unsigned minor)
{
    return a[0] < major || (a[0] == major && a[1] < minor);
}

void mp_plan_report_torch(const char *planned, const char *wanted)
{
    unsigned ran[2], target[2];
    if (!mp_plan_read_torch(planned, ran) || !mp_plan_read_torch(wanted, target) || !memcmp(ran, target, sizeof ran))
        return;
    mp_message(
        "planned with PyTorch %.*s, where %s will run: another version may take another amount; known to differ:",
        (int)strcspn(planned, " "), planned, wanted);
    size_t printed = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned major = changes[i].major, minor = changes[i].minor;
        if (is_before(ran, major, minor) == is_before(target, major, minor)) continue;
        mp_message("  %s", changes[i].what);
        printed++;
    }
    if (!printed) mp_message("  nothing that memprof knows of");
}
