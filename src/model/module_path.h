/*
 * Paths of a network's modules in the form for people: without the root's name if all paths share it, and with several
 * paths as one pattern. Pure.
 */
#pragma once

#include "base/buffer.h"
#include "model/model.h"

/* The bytes of the root's name with its dot, if all paths begin with them; 0 if roots differ. */
size_t mp_module_root(const struct mp_model *model);
/* The path with that string id, without its first `root` bytes. The root itself keeps its name. */
const char *mp_module_path(const struct mp_model *model, size_t root, uint32_t id);
/* The path of a block's module, shortened in the same way, and its length. It is the module that allocated the block.
 * If that is unknown, it is the module in the block's label. The block then has a parameter or buffer of that module,
 * or its gradient or optimizer state. "" and 0 if neither is known. */
const char *mp_module_of_block(const struct mp_model *model, size_t root, uint32_t block, size_t *length);
/* True if the path is that of the module, or of one inside of it. `module` has `length` bytes or more; the rest does
 * not count. */
bool mp_module_is_under(const char *path, const char *module, size_t length);
/* Extends a pattern so that it fits one more path: numbers between dots that differ become `*`. False, and the pattern
 * is unchanged, if anything else differs. An empty pattern becomes the path. */
bool mp_module_pattern_add(struct mp_buffer *pattern, const char *path);
