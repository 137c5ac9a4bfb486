#include "model/module_path.h"

#include <string.h>

size_t mp_module_root(const struct mp_model *model)
{
    const char *root = NULL;
    size_t length = 0;
    uint32_t last = 0;
    for (size_t i = 0; i < model->blocks.count; i++) {
        uint32_t id = mp_model_module(model, (uint32_t)i);
        if (!id || id == last) continue;
        last = id;
        const char *path = mp_model_text(model, id);
        size_t own = strcspn(path, ".");
        if (root && (own != length || memcmp(root, path, own))) return 0;
        root = path;
        length = own;
    }
    return root ? length + 1 : 0;
}

const char *mp_module_path(const struct mp_model *model, size_t root, uint32_t id)
{
    size_t length;
    const char *path = mp_intern_get(&model->strings, id, &length);
    return length > root ? path + root : path;
}

/* The length of a path without its last part and the dot before that. 0 if there is only one part. */
static size_t without_last(const char *path, size_t length)
{
    while (length && path[length - 1] != '.')
        length--;
    return length ? length - 1 : 0;
}

/* A label's name is the path of a parameter or buffer, "net.head.weight". For optimizer state, the state's name follows
 * the path. */
const char *mp_module_of_block(const struct mp_model *model, size_t root, uint32_t block, size_t *length)
{
    uint32_t module = mp_model_module(model, block);
    const struct mp_model_label *label = NULL;
    if (module) {
        const char *path = mp_module_path(model, root, module);
        *length = strlen(path);
        return path;
    }
    if (model->labels.count) label = mp_model_label_at(model, block, MP_NONE);
    if (!label && model->labels.count) label = mp_model_label_first(model, block);
    bool owned = label && label->role != MP_ROLE_NONE && label->role != MP_ROLE_INPUT;
    const char *path = owned ? mp_model_text(model, label->name) : "";
    *length = without_last(path, strlen(path));
    if (owned && label->role == MP_ROLE_OPTIMIZER_STATE) *length = without_last(path, *length);
    if (root && *length > root && strcspn(path, ".") + 1 == root) {
        path += root;
        *length -= root;
    }
    return *length ? path : "";
}

static bool is_number(const char *text, size_t length)
{
    return length && strspn(text, "0123456789") >= length;
}

static bool is_star(const char *text, size_t length)
{
    return length == 1 && *text == '*';
}

/* Compares a pattern with a path, part by part. If `out` is not NULL, writes the pattern that fits both. */
static bool merge(const char *pattern, const char *path, struct mp_buffer *out)
{
    for (;; pattern++, path++) {
        size_t length = strcspn(pattern, "."), other = strcspn(path, ".");
        bool same = length == other && !memcmp(pattern, path, length);
        bool numbers = (is_star(pattern, length) || is_number(pattern, length)) && is_number(path, other);
        if (!same && !numbers) return false;
        if (out) mp_buffer_append(out, same ? pattern : "*", same ? length : 1);
        pattern += length;
        path += other;
        if (*pattern != *path) return false;
        if (!*pattern) return true;
        if (out) mp_buffer_append(out, ".", 1);
    }
}

bool mp_module_is_under(const char *path, const char *module, size_t length)
{
    return !strncmp(path, module, length) && (!path[length] || path[length] == '.');
}

bool mp_module_pattern_add(struct mp_buffer *pattern, const char *path)
{
    if (!pattern->size) {
        mp_buffer_append_text(pattern, path);
        return true;
    }
    if (!merge(mp_buffer_text(pattern), path, NULL)) return false;
    struct mp_buffer merged = {0};
    merge(mp_buffer_text(pattern), path, &merged);
    mp_buffer_free(pattern);
    *pattern = merged;
    return true;
}
