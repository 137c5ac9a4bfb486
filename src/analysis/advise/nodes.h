/*
 * The log's operations, and among them the runs of backward's nodes with the tensors that they had saved. Pure; the
 * result is the caller's.
 */
#pragma once

#include "analysis/categories/phases.h"
#include "model/uses.h"

/* A run of a node of autograd's graph: its operations, one after the other. */
struct mp_node_run {
    uint32_t node, module; /* string ids */
    uint64_t began_ns;
    uint32_t event, end; /* the first event at it, and behind it */
    size_t first, last;  /* operations */
    bool saves;          /* it reads what backward did not make */
};

struct mp_nodes {
    struct mp_operations log;
    MP_VEC(struct mp_node_run) runs;
};

void mp_nodes_find(const struct mp_model *model, const struct mp_phases *phases, struct mp_nodes *nodes);
/* True if a node reads the block as a saved tensor. */
bool mp_node_reads_saved(const struct mp_model *model, const struct mp_phases *phases, const struct mp_model_use *use);
/* The run to which a node's use belongs; NULL: none. */
const struct mp_node_run *mp_node_run_of(const struct mp_nodes *nodes, const struct mp_model_use *use);
/* Multiplications and additions of products of matrices, convolutions and attention, by the shapes of their tensors; 0
 * for others, as in PyTorch's own counter. */
double mp_operation_flops(const struct mp_model *model, const struct mp_operations *log, const struct mp_operation *op);
void mp_nodes_free(struct mp_nodes *nodes);
