/*
 * Stacks as lines of source, innermost first: native frames with the frames inlined into them, and Python frames. The
 * model owns the texts. Pure; any thread.
 */
#ifndef MP_MODEL_STACK_H
#define MP_MODEL_STACK_H

#include "model/model.h"

struct mp_stack_line {
    const char *function, *file, *module; /* NULL: unknown; module: path of the shared object, NULL for Python */
    uint32_t line;                        /* 0: unknown */
    uint64_t address;                     /* native: in the module; 0 for Python */
    uint32_t more;                        /* string id: mp_frame.more */
    uint8_t language;                     /* enum mp_language */
    bool cut;                             /* not a frame: the recorder left frames out here */
    bool backward;                        /* belongs to the path that made a node in forward, whose backward ran:
                                           * further out than a frame of MP_BACKWARD */
    bool user;                            /* Python code that belongs neither to a package nor to Python itself */
    bool skipped;                         /* passed over (model/skip.h): shown in full stacks alone */
};

struct mp_stack_lines {
    struct mp_stack_line *at;
    size_t count, room;
};

/* Replaces the contents of *lines. */
void mp_stack_resolve(const struct mp_model *model, uint32_t stack, struct mp_stack_lines *lines);
/* Likewise, for one frame. */
void mp_stack_resolve_frame(const struct mp_model *model, uint32_t frame, struct mp_stack_lines *lines);
/* The line a person wants to see first: the innermost Python line of the user's own code, else the innermost Python
 * line, else the innermost native one that has a function and is not an allocator's; NULL for an empty stack. */
const struct mp_stack_line *mp_stack_headline(const struct mp_stack_lines *lines);
/* Whether Python code of this file is the user's own. */
bool mp_stack_is_user_file(const char *file);
/* The shared object of the innermost native line that is not an allocator's; NULL where none is known. */
const char *mp_stack_library(const struct mp_stack_lines *lines);
/* Whether a native line belongs to the machinery of allocation (c10's, libc's, operators that only make a tensor, the
 * recorder's own and its API), or is passed over. */
bool mp_stack_is_allocator(const struct mp_stack_line *line);
/* The last part of a path, or the last two where the last one is not enough ("nn/__init__.py"). */
const char *mp_path_short(const char *path);
void mp_stack_lines_free(struct mp_stack_lines *lines);

#endif
