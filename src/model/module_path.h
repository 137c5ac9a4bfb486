/*
 * Paths of a network's modules for people: without the root's name where all paths share it, and several paths as one
 * pattern. Pure.
 */
#ifndef MP_MODEL_MODULE_PATH_H
#define MP_MODEL_MODULE_PATH_H

#include "base/buffer.h"
#include "model/model.h"

/* The length of the root's name and the dot behind it, which all paths begin with; 0 where roots differ. */
size_t mp_module_root(const struct mp_model *model);
/* The path of a string id without those bytes; the root itself keeps its name. */
const char *mp_module_path(const struct mp_model *model, size_t root, uint32_t id);
/* The path of a block's module, shortened likewise, and its length. It is the module that allocated the block. If that
 * is unknown, the label names the module whose parameter or buffer, gradient or optimizer state the block holds. "" and
 * 0 where neither is known. */
const char *mp_module_of_block(const struct mp_model *model, size_t root, uint32_t block, size_t *length);
/* Extends a pattern to fit one more path: differing numbers between dots become `*`. False, and the pattern stays,
 * where more than numbers differs. An empty pattern takes every path as it is. */
bool mp_module_pattern_add(struct mp_buffer *pattern, const char *path);

#endif
