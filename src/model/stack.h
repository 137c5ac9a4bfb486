/*
 * Stacks as lines of source, innermost first: native frames with the frames inlined into them, and Python frames. The
 * model owns the texts. Pure; any thread.
 */
#ifndef MP_MODEL_STACK_H
#define MP_MODEL_STACK_H

#include "base/buffer.h"
#include "base/error.h"
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
    bool skipped;                         /* passed over (model/stack.h): shown in full stacks alone */
};

struct mp_stack_lines {
    struct mp_stack_line *at;
    size_t count, room;
};

/* Replaces the contents of *lines; stack 0 has no lines. */
void mp_stack_resolve(const struct mp_model *model, uint32_t stack, struct mp_stack_lines *lines);
/* Likewise, for one frame. */
void mp_stack_resolve_frame(const struct mp_model *model, uint32_t frame, struct mp_stack_lines *lines);
/* The line a person wants to see first: the innermost Python line of the user's own code. Without one, the innermost
 * Python line; without Python, the operator whose gradient is computed; then the innermost native line that has a
 * function and is not an allocator's; then any. NULL for a stack without frames. Reports and exports that show one line
 * of a stack show this one; lines->at[0] is often the allocator's own, without a name. */
const struct mp_stack_line *mp_stack_headline(const struct mp_stack_lines *lines);
/* True if Python code of this file is the user's own. */
bool mp_stack_is_user_file(const char *file);
/* The shared object of the innermost native line that is not an allocator's; NULL where none is known. */
const char *mp_stack_library(const struct mp_stack_lines *lines);
/* True if a native line is passed over or belongs to the machinery of allocation: c10, libc, the recorder and its API,
 * or an operator that only makes a tensor. */
bool mp_stack_is_allocator(const struct mp_stack_line *line);
/* The last part of a path, or the last two where the last one is not enough ("nn/__init__.py"). */
const char *mp_path_short(const char *path);
void mp_stack_lines_free(struct mp_stack_lines *lines);

/*
 * Frames that reports pass over: of an allocator or a framework of the program's own, whose names say nothing of who
 * wanted the memory. They stay in the model and in full stacks. Pure; one thread at a time.
 */

/* Passes over the frames whose function, file or library an extended regular expression matches. MP_INVALID where it is
 * none; *error says why. */
enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error);

/* A frame as one text, for other programs' files. Texts are the recording's own, any bytes. Pure. */

/* The function; where unknown, "libfoo.so+0x12ab" or the address. */
void mp_frame_function(struct mp_buffer *out, const struct mp_stack_line *line);
/* The function and, for Python, its place: "forward (model.py:31)". */
void mp_frame_label(struct mp_buffer *out, const struct mp_stack_line *line);
/* The prefix of a line that represents its whole stack: "backward of ", or nothing. */
const char *mp_frame_prefix(const struct mp_stack_line *line);
/* The label of the line that a person wants to see first, with its prefix; nothing for an empty stack. */
void mp_frame_headline(struct mp_buffer *out, const struct mp_stack_lines *lines);
/* Labels, outermost first, separated by ';' (inside a label ';' becomes ':' and a line break a blank). */
void mp_frame_fold(struct mp_buffer *out, const struct mp_stack_lines *lines);

/* The node of PyTorch's FX graph for which a line of generated code stands, as a snapshot says of its frames. Pure. */

enum mp_graph_node_part { MP_GRAPH_NODE_NAME, MP_GRAPH_NODE_OP, MP_GRAPH_NODE_TARGET, MP_GRAPH_NODE_PARTS };

extern const char *const mp_graph_node_keys[MP_GRAPH_NODE_PARTS]; /* as PyTorch names them */

/* Appends a part of it; `more`: mp_frame.more. False where the frame has none. */
bool mp_graph_node_part(const struct mp_model *model, uint32_t more, enum mp_graph_node_part part,
                        struct mp_buffer *out);
/* All parts: "relu_1 call_function aten.relu.default". */
bool mp_graph_node_text(const struct mp_model *model, uint32_t more, struct mp_buffer *out);

#endif
