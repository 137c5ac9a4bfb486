#include "output/page_modules.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "model/module_path.h"

bool mp_page_modules_init(struct mp_page_modules *modules, const struct mp_model *model)
{
    *modules = (struct mp_page_modules){.model = model};
    if (!model->blocks.module) return true;
    modules->root = mp_module_root(model);
    modules->number_of_string = calloc(model->strings.count + 1, sizeof *modules->number_of_string);
    return modules->number_of_string;
}

uint32_t mp_page_modules_of(struct mp_page_modules *modules, uint32_t block)
{
    uint32_t string = mp_model_module(modules->model, block);
    if (!string) return 0;
    uint32_t *number = &modules->number_of_string[string];
    if (*number) return *number;
    const char *path = mp_module_path(modules->model, modules->root, string);
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
