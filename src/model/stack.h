/*
 * Stacks as lines of source, innermost first: native frames with the frames inlined into them, and Python frames; and
 * the texts of such lines for files of other programs. The model owns the texts of lines, which may hold any bytes.
 * Pure; any thread, except where a model changes.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "model/model.h"

struct mp_stack_line {
    const char *function, *file, *module; /* NULL: unknown; module: the shared object's path, NULL for Python */
    uint32_t line;                        /* 0: unknown */
    uint64_t address;                     /* native: relative to the module; Python: 0 */
    uint32_t more;                        /* string id: mp_frame.more */
    uint8_t language;                     /* enum mp_language */
    bool cut;                             /* true: this is no frame, but the recorder left out frames here */
    bool backward;                        /* further out than a frame "backward of" (MP_BACKWARD): the path that made
                                           * the node in forward */
    bool user;                            /* Python code of the user's own, neither of a package nor of Python itself */
    bool skipped;                         /* reports leave the line out (see mp_skip_matching()) and show it only in
                                           * full stacks */
};

struct mp_stack_lines {
    struct mp_stack_line *at;
    size_t count, room;
};

/* Replaces the contents of *lines; stack 0 has no lines. */
void mp_stack_resolve(const struct mp_model *model, uint32_t stack, struct mp_stack_lines *lines);
/* Does the same for one frame. */
void mp_stack_resolve_frame(const struct mp_model *model, uint32_t frame, struct mp_stack_lines *lines);
/* The line a person wants to see first: the innermost Python line of the user's own code. Without one, the innermost
 * Python line; without Python, the operator whose gradient is computed; then the innermost native line that has a
 * function and is not an allocator's; then any. NULL for a stack without frames. Reports and exports that show one line
 * of a stack show this line. lines->at[0] is often the allocator's own line, without a name. */
const struct mp_stack_line *mp_stack_headline(const struct mp_stack_lines *lines);
/* True if Python code in this file is the user's own. */
bool mp_stack_is_user_file(const char *file);
/* The shared object of the Python interpreter: the one whose line calls a Python line; NULL: no Python line has any. */
const char *mp_stack_interpreter(const struct mp_stack_lines *lines);
/* The shared object of the innermost native line that is not an allocator's; NULL if unknown. */
const char *mp_stack_library(const struct mp_stack_lines *lines);
/* True if reports leave a native line out, or if the line only serves to allocate: c10, libc, the recorder and its API,
 * or an operator that only makes a tensor. */
bool mp_stack_is_allocator(const struct mp_stack_line *line);
/* The last part of a path, or the last two if the last one is not distinctive ("nn/__init__.py"). */
const char *mp_path_short(const char *path);
void mp_stack_lines_free(struct mp_stack_lines *lines);

/* Makes reports leave out the frames whose function, file or library matches an extended regular expression, such as
 * those of the program's own allocator. They stay in the model and in full stacks. Changes the model: one thread at a
 * time. MP_INVALID if the expression is not valid; *error says why. */
enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error);

/* The function's name; if unknown, "libfoo.so+0x12ab" or the address. */
void mp_frame_function(struct mp_buffer *out, const struct mp_stack_line *line);
/* The function's name and, for Python, where it is: "forward (model.py:31)". */
void mp_frame_label(struct mp_buffer *out, const struct mp_stack_line *line);
/* The prefix for a line that represents its whole stack: "backward of ", or "". */
const char *mp_frame_prefix(const struct mp_stack_line *line);
/* The label of the stack's headline (mp_stack_headline()) with its prefix; nothing for an empty stack. */
void mp_frame_headline(struct mp_buffer *out, const struct mp_stack_lines *lines);
/* All labels, outermost first, separated by ';' (inside a label ';' becomes ':' and a line break a blank). */
void mp_frame_fold(struct mp_buffer *out, const struct mp_stack_lines *lines);

/* The node of PyTorch's FX graph from which a line of generated code was made, as PyTorch's snapshots name it. */
enum mp_graph_node_part { MP_GRAPH_NODE_NAME, MP_GRAPH_NODE_OP, MP_GRAPH_NODE_TARGET, MP_GRAPH_NODE_PARTS };

extern const char *const mp_graph_node_keys[MP_GRAPH_NODE_PARTS]; /* as PyTorch names them */

/* Appends one part of the node. `more`: mp_frame.more. False if the frame does not have that part. */
bool mp_graph_node_part(const struct mp_model *model, uint32_t more, enum mp_graph_node_part part,
                        struct mp_buffer *out);
/* Appends all parts: "relu_1 call_function aten.relu.default". */
bool mp_graph_node_text(const struct mp_model *model, uint32_t more, struct mp_buffer *out);
