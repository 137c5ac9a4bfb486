/* A frame as one text, for other programs' files. Texts are the recording's own, any bytes. Pure. */
#ifndef MP_MODEL_FRAME_TEXT_H
#define MP_MODEL_FRAME_TEXT_H

#include "base/buffer.h"
#include "model/stack.h"

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

#endif
