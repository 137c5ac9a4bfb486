/*
 * Stacks of one recording or two, as frames that are equal if a person reads them as the same. The function counts, and
 * for Python the file name and line; addresses and folders do not. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/sites/moved.h"
#include "analysis/sites/profile.h"
#include "model/stack.h"

enum mp_flame_side { MP_BEFORE, MP_AFTER, MP_SIDES }; /* of one recording: MP_AFTER */

struct mp_flame_frame {
    uint32_t function; /* in texts: from mp_frame_function() */
    uint32_t file;     /* in texts; 0: unknown */
    uint32_t line;     /* 0: unknown */
    uint8_t language;
};

struct mp_flame {
    struct mp_profile_value values[MP_SIDES];
    uint32_t stacks[MP_SIDES]; /* one of the flame's stacks, in the side's recording; MP_NONE: none */
};

struct mp_flames {
    /* Lines of MP_BEFORE with their lines in MP_AFTER (moved.h). If set, the interpreter's own frames do not count.
     * NULL: none. */
    const struct mp_moved *moved;
    struct mp_intern texts;
    struct mp_intern labels;              /* mp_frame_label(); number N is of frame N - 1 */
    MP_VEC(struct mp_flame_frame) frames; /* with file and line from the first stack that has the frame */
    struct mp_intern paths;               /* frame numbers (uint32_t) of flame N - 1, outermost first */
    MP_VEC(struct mp_flame) flames;
    struct mp_profile_value sums[MP_SIDES];
};

/* The flame of a stack, added if new. `base`: for an empty stack, true if the block was live before the recording. */
void mp_flames_find(struct mp_flames *flames, const struct mp_stack_lines *lines, bool base, uint32_t *flame);
/* Adds the profile of a recording to one side. Zero-initialised flames are empty. */
void mp_flames_add(struct mp_flames *flames, enum mp_flame_side side, const struct mp_model *model,
                   const struct mp_profile *profile, enum mp_profile_of sense);
/* The frames of a flame, outermost first. *count: their number. Valid until the next addition. Not aligned: use
 * mp_flames_frame(). */
const char *mp_flames_path(const struct mp_flames *flames, size_t flame, size_t *count);
static inline uint32_t mp_flames_frame(const char *path, size_t at)
{
    uint32_t frame;
    __builtin_memcpy(&frame, path + at * sizeof frame, sizeof frame);
    return frame;
}
static inline const char *mp_flames_label(const struct mp_flames *flames, uint32_t frame, size_t *length)
{
    return mp_intern_get(&flames->labels, frame + 1, length);
}
void mp_flames_free(struct mp_flames *flames);
