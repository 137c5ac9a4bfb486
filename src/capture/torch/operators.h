/*
 * The log of operators: for each call of PyTorch's dispatcher its name, its tensors, and the node of backward that runs
 * it. PyTorch calls the functions of this part at the beginning and the end of each operator, as callbacks of
 * at::RecordFunction. Nothing is called, allocated or held here: tensors are read by byte offset.
 *
 * Sources: ATen/record_function.h, ATen/core/ivalue.h, ATen/core/function_schema.h, c10/core/TensorImpl.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"

/* Byte offsets in PyTorch's objects. python/libmemprof_torch/operators.py finds them with objects that it knows. */
struct mp_torch_layout {
    uint64_t bytes;                       /* the size of this structure */
    const char *(*name)(const void *run); /* at::RecordFunction::name() const */
    uint64_t run_inputs, run_outputs;     /* at::RecordFunction: pointer and count; begin and end of a vector */
    uint64_t run_schema;                  /* c10::FunctionSchema, whose first member is the name */
    uint64_t schema_arguments;            /* begin and end of a vector of c10::Argument */
    uint64_t argument_bytes, argument_alias, alias_write;
    uint64_t value_bytes, value_tag; /* c10::IValue; its first word is the tensor or list */
    uint64_t tag_tensor, tag_list;
    uint64_t list_values; /* begin and end of a vector of values */
    uint64_t tensor_storage, tensor_dims, tensor_dtype;
    uint64_t dims_inline; /* the most dimensions whose sizes lie behind tensor_dims */
    uint64_t storage_data;
    char dtypes[64][24]; /* by number; "": unknown */
    /* Set by mp_operators_begin(): the callbacks. */
    void *begin, *end, *node_begin, *node_end;
};

extern const struct mp_front mp_operators_front;

/* The member `operators` of include/memprof.h. Returns 0 if the log is wanted: the callbacks in the layout may then be
 * called, by any thread, from now on. A layout without a name is a question, and its tensors are not recorded until the
 * next call. */
int mp_operators_begin(void *layout);

/* The member `kernel`: its tensors are logged as those of an operator. */
void mp_operators_kernel(const char *name, const void *const *tensors, const unsigned char *how, unsigned count);

/* True while this thread looks for offsets: its tensors are not the program's. */
extern __thread bool mp_operators_probing;

/* The names of the operator that the thread runs (low half) and of the node of backward; 0: none. In a hook. */
uint64_t mp_operators_running(struct mp_thread *thread);
