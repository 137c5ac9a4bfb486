/*
 * Frames that reports pass over: of an allocator or a framework of the program's own, whose names say nothing of who
 * wanted the memory. They stay in the model and in full stacks. Pure; one thread at a time.
 */
#ifndef MP_MODEL_SKIP_H
#define MP_MODEL_SKIP_H

#include "base/error.h"
#include "model/model.h"

/* Passes over the frames whose function, file or library an extended regular expression matches. MP_INVALID where it is
 * none; *error says why. */
enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error);

#endif
