/*
 * Paths of a network's modules as people read them: without the name of the root where all share one, and several as
 * one pattern. Pure.
 */
#ifndef MP_MODEL_MODULE_PATH_H
#define MP_MODEL_MODULE_PATH_H

#include "base/buffer.h"
#include "model/model.h"

/* How many bytes at the beginning of every path are the root's name and the dot behind it; 0 where roots differ. */
size_t mp_module_root(const struct mp_model *model);
/* The path of a string id without those; the root itself keeps its name. */
const char *mp_module_path(const struct mp_model *model, size_t root, uint32_t id);
/* The path of a block's module, likewise, and its length: of the one that allocated it, else of the one whose
 * parameter, buffer, gradient or optimizer state the program said that it holds. "" and 0 where neither is known. */
const char *mp_module_of_block(const struct mp_model *model, size_t root, uint32_t block, size_t *length);
/* Makes a pattern that fits one more path: numbers between dots that differ become `*`. False, and the pattern stays,
 * where more than numbers differs. An empty pattern takes every path as it is. */
bool mp_module_pattern_add(struct mp_buffer *pattern, const char *path);

#endif
