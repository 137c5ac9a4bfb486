#include "plan/words.h"

#include "base/memory.h"
#include "cli/options.h"

char **mp_plan_words(const struct mp_invocation *invocation, bool stacks, const char *path)
{
    static const enum mp_option passed[] = {MP_OPT_DEVICE,     MP_OPT_DEVICES, MP_OPT_VALUES,      MP_OPT_SELECTED,
                                            MP_OPT_WORLD_SIZE, MP_OPT_RANK,    MP_OPT_READY_WITHIN};
    const char *const own[] = {"memprof",
                               "plan",
                               "--quiet",
                               "--on-oom",
                               "none",
                               "--stacks",
                               stacks ? "native,python" : "none",
                               "-o",
                               path,
                               stacks ? NULL : "--no-symbols"};
    size_t room = invocation->operand_count + sizeof passed / sizeof *passed + sizeof own / sizeof *own + 2, count = 0;
    char **words = mp_alloc_zeroed(room, sizeof *words);
    for (size_t i = 0; i < sizeof own / sizeof *own && own[i]; i++)
        words[count++] = mp_text_copy(own[i]);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const char *given = invocation->value[passed[i]];
        if (given) words[count++] = mp_text_make("--%s=%s", mp_option_rows[passed[i]].name, given);
    }
    words[count++] = mp_text_copy("--");
    for (size_t i = 0; i < invocation->operand_count; i++)
        words[count++] = mp_text_copy(invocation->operands[i]);
    return words;
}
