/*
 * Facts that the frames of a stack show of a program that uses PyTorch, as bits. One table has the patterns; it and the
 * functions below are the only place of the readers that knows names of PyTorch's files and functions. Pure.
 */
#ifndef MP_MODEL_STACK_FACTS_H
#define MP_MODEL_STACK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_model;

enum mp_stack_fact {
    /* The purpose of a block. Certain facts come first, then likely ones; each set is in the order in which they
     * count. */
    MP_FACT_WORKSPACE = 1 << 0, /* of a library */
    MP_FACT_COMMUNICATES = 1 << 1,
    MP_FACT_ACCUMULATES = 1 << 2, /* a gradient */
    MP_FACT_LOADS_DATA = 1 << 3,
    MP_FACT_MAKES_STATE = 1 << 4,      /* of an optimizer */
    MP_FACT_REPLICATES = 1 << 5,       /* DataParallel's parameters */
    MP_FACT_MAKES_PARAMETERS = 1 << 6, /* likely: from here on */
    MP_FACT_BUILDS_OPTIMIZER = 1 << 7,
    MP_FACT_CONSTRUCTS = 1 << 8, /* some object */
    /* The phase of the program; the innermost frame with one of them counts. */
    MP_FACT_FORWARD = 1 << 9,
    MP_FACT_BACKWARD = 1 << 10, /* a frame "backward of" has it, too */
    MP_FACT_OPTIMIZER = 1 << 11,
    /* Calls of modules. */
    MP_FACT_CALLS_MODULE = 1 << 12,
    MP_FACT_WRAPS_CALL = 1 << 13,   /* around the former since PyTorch 2.1 */
    MP_FACT_RUNS_MODULES = 1 << 14, /* a Sequential, which calls what it lists */
    /* Functions that advice, steps and leaks ask for. */
    MP_FACT_CASTS = 1 << 15,         /* autocast makes a copy */
    MP_FACT_LISTS = 1 << 16,         /* an optimizer works on lists of tensors */
    MP_FACT_LISTS_OF_ADAM = 1 << 17, /* Adam, which has a fused form */
    MP_FACT_ZEROES = 1 << 18,        /* gradients: zero_grad() */
    MP_FACT_PINNED_CACHE = 1 << 19,  /* PyTorch's cache of pinned memory gets a block */
};
#define MP_FACTS_OF_CATEGORY (MP_FACT_FORWARD - 1u)

struct mp_stack_facts {
    uint32_t *of_frame; /* by frame: what it shows itself */
    uint32_t *of_stack; /* by stack: what any of its frames shows */
    uint32_t *inside;   /* by stack: the same without the frames that made the node of the graph whose backward runs */
};

/* Found once, at the first question of a model whose stacks are all there. */
const struct mp_stack_facts *mp_stack_facts(const struct mp_model *model);

/* The kind of file that a path of Python code belongs to. */
enum mp_torch_file {
    MP_TORCH_FILE_NONE,
    MP_TORCH_FILE_WRAPS,     /* functions of the program that a decorator wraps: no_grad(), ... */
    MP_TORCH_FILE_CALLS,     /* modules */
    MP_TORCH_FILE_RUNS,      /* backward */
    MP_TORCH_FILE_INSIDE,    /* what networks and loaders of data call */
    MP_TORCH_FILE_OPTIMIZES, /* optimizers */
};
enum mp_torch_file mp_torch_file(const char *path);
/* True if a path is of the package as PyTorch's profiler names it, without the folder that it lies in. */
bool mp_torch_is_short_path(const char *path);

/* About the name of a native function: */
/* True if it only serves an allocation, or the stack that is taken of it. */
bool mp_torch_serves_allocation(const char *function);
/* True if it computes a gradient. */
bool mp_torch_makes_gradient(const char *function);
/* True if a name (without its parameters) says nothing of what is computed: dispatch, wrappers, reference counts. */
bool mp_torch_is_plumbing(const char *name, size_t length);
/* The operator that it calls, "add_Tensor" of "at::_ops::add_Tensor::call(...)"; NULL: it is no such call. */
const char *mp_operator_called(const char *function, size_t *length);
/* The node of autograd's graph that it runs, beginning with "AddmmBackward0"; "" of another kind of node; NULL: none.
 */
const char *mp_node_run(const char *function);

/* Where a model keeps them. */
struct mp_known_facts *mp_known_facts_new(void);
void mp_known_facts_free(struct mp_known_facts *known);

/* A row of the table: a regular expression over "FUNCTION FILE:LINE", as of model/rules.h, and the bit that it sets. */
struct mp_stack_pattern {
    uint32_t fact;
    const char *regex;
};
/* NULL after the last. */
const struct mp_stack_pattern *mp_stack_pattern(size_t index);

#endif
