#include "model/stack.h"

#include "base/json.h"

/* The parts of a node that PyTorch's viewer shows, in the viewer's order. */
const char *const mp_graph_node_keys[MP_GRAPH_NODE_PARTS] = {"fx_node_name", "fx_node_op", "fx_node_target"};

bool mp_graph_node_part(const struct mp_model *model, uint32_t more, enum mp_graph_node_part part,
                        struct mp_buffer *out)
{
    return more && mp_json_member(mp_model_text(model, more), mp_graph_node_keys[part], out);
}

bool mp_graph_node_text(const struct mp_model *model, uint32_t more, struct mp_buffer *out)
{
    size_t before = out->size;
    for (unsigned part = 0; more && part < MP_GRAPH_NODE_PARTS; part++) {
        size_t end = out->size;
        if (end > before) mp_buffer_append_text(out, " ");
        if (!mp_graph_node_part(model, more, (enum mp_graph_node_part)part, out)) out->size = end;
    }
    return out->size > before;
}
