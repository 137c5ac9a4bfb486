#include "model/stack.h"

#include "base/pattern.h"

enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error)
{
    regex_t pattern;
    struct mp_error why;
    enum mp_status status = mp_pattern_compile(regex, &pattern, &why);
    if (status) return mp_fail(error, status, "--skip-frames: \"%s\" is no regular expression: %s", regex, why.text);
    while (model->skipped.count < model->strings.count + 1)
        mp_vec_add(&model->skipped, 0);
    for (size_t i = 0; i < model->lines.count; i++) {
        const uint32_t of_line[] = {model->lines.at[i].function, model->lines.at[i].file};
        for (size_t k = 0; k < 2; k++) /* skipped.at: 0 not compared yet, 1 matched, 2 not matched */
            if (of_line[k] && !model->skipped.at[of_line[k]])
                model->skipped.at[of_line[k]] = regexec(&pattern, mp_model_text(model, of_line[k]), 0, NULL, 0) ? 2 : 1;
    }
    for (size_t i = 0; i < model->modules.count; i++) {
        uint32_t path = model->modules.at[i].path;
        if (path && !regexec(&pattern, mp_model_text(model, path), 0, NULL, 0)) model->skipped.at[path] = 1;
    }
    for (size_t i = 0; i < model->skipped.count; i++)
        model->skipped.at[i] = model->skipped.at[i] == 1;
    regfree(&pattern);
    return MP_OK;
}
