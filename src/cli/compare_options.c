#include "cli/compare_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/messages.h"

#define GROWTH_PERCENT 5.0 /* allowed growth of --fail without --max-growth */

static int read_limit(const struct mp_invocation *invocation, struct mp_compare_limit *limit)
{
    const char *text = invocation->value[MP_OPT_MAX_GROWTH];
    char *end = NULL;
    *limit = (struct mp_compare_limit){.percent = GROWTH_PERCENT};
    if (!text) return MP_EXIT_DONE;
    limit->percent = strtod(text, &end);
    if (end != text && !strcmp(end, "%") && limit->percent >= 0) return MP_EXIT_DONE;
    limit->percent = -1;
    if (mp_parse_bytes(text, &limit->bytes)) return MP_EXIT_DONE;
    return mp_refuse("--max-growth: \"%s\" is neither a percentage (5%%) nor a size (10MiB)", text);
}

static int read_sense(const char *of, enum mp_profile_of *sense)
{
    static const char *const words[] = {
        [MP_PROFILE_PEAK] = "peak", [MP_PROFILE_OUTSTANDING] = "outstanding", [MP_PROFILE_ALLOCATED] = "allocated"};
    for (size_t i = 0; of && i < sizeof words / sizeof *words; i++) {
        if (strcmp(of, words[i])) continue;
        *sense = (enum mp_profile_of)i;
        return MP_EXIT_DONE;
    }
    if (!of) return MP_EXIT_DONE;
    return mp_refuse("--of: \"%s\" is not peak, outstanding or allocated", of);
}

int mp_compare_options(const struct mp_invocation *invocation, struct mp_compare_limit *limit,
                       enum mp_profile_of *sense)
{
    int status = read_limit(invocation, limit);
    return status ? status : read_sense(invocation->value[MP_OPT_OF], sense);
}
