/* The node of PyTorch's FX graph for which a line of generated code stands, as a snapshot says of its frames. Pure. */
#ifndef MP_MODEL_GRAPH_NODE_H
#define MP_MODEL_GRAPH_NODE_H

#include "base/buffer.h"
#include "model/model.h"

enum mp_graph_node_part { MP_GRAPH_NODE_NAME, MP_GRAPH_NODE_OP, MP_GRAPH_NODE_TARGET, MP_GRAPH_NODE_PARTS };

extern const char *const mp_graph_node_keys[MP_GRAPH_NODE_PARTS]; /* as PyTorch names them */

/* Appends a part of it; `more`: mp_frame.more. False where the frame has none. */
bool mp_graph_node_part(const struct mp_model *model, uint32_t more, enum mp_graph_node_part part,
                        struct mp_buffer *out);
/* All parts: "relu_1 call_function aten.relu.default". */
bool mp_graph_node_text(const struct mp_model *model, uint32_t more, struct mp_buffer *out);

#endif
