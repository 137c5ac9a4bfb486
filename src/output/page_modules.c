#include "output/page_modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

/* Whether all modules of the recording lie in one root, whose class is the first part of every path. */
static bool has_one_root(const struct mp_model *model)
{
    const char *root = NULL;
    size_t length = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint32_t string = mp_model_module(model, i);
        if (!string || string == last) continue;
        last = string;
        const char *path = mp_model_text(model, string);
        size_t first = strcspn(path, ".");
        if (root && (first != length || memcmp(root, path, length))) return false;
        root = path;
        length = first;
    }
    return true;
}

bool mp_page_modules_init(struct mp_page_modules *modules, const struct mp_model *model)
{
    *modules = (struct mp_page_modules){.model = model};
    if (!model->blocks.module) return true;
    modules->one_root = has_one_root(model);
    modules->number_of_string = calloc(model->strings.count + 1, sizeof *modules->number_of_string);
    return modules->number_of_string;
}

uint32_t mp_page_modules_of(struct mp_page_modules *modules, uint32_t block)
{
    uint32_t string = mp_model_module(modules->model, block);
    if (!string) return 0;
    uint32_t *number = &modules->number_of_string[string];
    if (*number) return *number;
    const char *path = mp_model_text(modules->model, string);
    const char *rest = modules->one_root ? strchr(path, '.') : NULL;
    if (rest && rest[1]) path = rest + 1;
    size_t length = strlen(path);
    mp_varint_append(&modules->length, length);
    mp_buffer_append(&modules->text, path, length);
    return *number = (uint32_t)++modules->count;
}

void mp_page_modules_free(struct mp_page_modules *modules)
{
    free(modules->number_of_string);
    mp_buffer_free(&modules->length);
    mp_buffer_free(&modules->text);
}
