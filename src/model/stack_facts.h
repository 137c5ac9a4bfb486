/*
 * Facts about a PyTorch program that a stack's frames show, as bits. Among the readers, only the table of patterns and
 * the functions below know names of PyTorch's files and functions. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_model;

enum mp_stack_fact {
    /* The use of a block. Certain facts come first, then likely ones. If several hold, the first one of each group
     * counts. */
    MP_FACT_WORKSPACE = 1 << 0, /* working memory of a library */
    MP_FACT_COMMUNICATES = 1 << 1,
    MP_FACT_ACCUMULATES = 1 << 2, /* adds up a gradient */
    MP_FACT_LOADS_DATA = 1 << 3,
    MP_FACT_MAKES_STATE = 1 << 4,      /* optimizer state */
    MP_FACT_REPLICATES = 1 << 5,       /* DataParallel copies parameters */
    MP_FACT_MAKES_PARAMETERS = 1 << 6, /* this and the next facts are only likely */
    MP_FACT_BUILDS_OPTIMIZER = 1 << 7,
    MP_FACT_CONSTRUCTS = 1 << 8, /* the constructor of some object */
    /* The phase of the program. The innermost frame that shows a phase counts. */
    MP_FACT_FORWARD = 1 << 9,
    MP_FACT_BACKWARD = 1 << 10, /* also for a frame "backward of" */
    MP_FACT_OPTIMIZER = 1 << 11,
    /* Calls of modules. */
    MP_FACT_CALLS_MODULE = 1 << 12,
    MP_FACT_WRAPS_CALL = 1 << 13,   /* around calls of modules since PyTorch 2.1 */
    MP_FACT_RUNS_MODULES = 1 << 14, /* a Sequential, which calls the modules in its list */
    /* Functions that advice, steps and leaks look for. */
    MP_FACT_CASTS = 1 << 15,        /* autocast makes a copy */
    MP_FACT_LISTS = 1 << 16,        /* an optimizer works on lists of tensors */
    MP_FACT_ADAM = 1 << 17,         /* Adam or AdamW, which have fused and 8-bit forms */
    MP_FACT_ZEROES = 1 << 18,       /* gradients are reset: zero_grad() */
    MP_FACT_PINNED_CACHE = 1 << 19, /* PyTorch's cache of pinned memory allocates a block */
    MP_FACT_JOINS = 1 << 20,        /* a tensor is made of others, end to end */
    MP_FACT_WIDE_SUMS = 1 << 21,    /* a reduction with two or more numbers for each sum: argmax(), std(), ... */
    MP_FACT_MULTIPLIES = 1 << 22,   /* a product of matrices, such as a Linear's */
    MP_FACT_SUMS = 1 << 23,         /* sum() */
    MP_FACT_CLASS_LOSS = 1 << 24,   /* cross_entropy(), log_softmax() */
    MP_FACT_KV_CACHE = 1 << 25,     /* a cache of keys and values, by its class or file */
    MP_FACT_EMBEDS = 1 << 26,       /* backward of an embedding whose gradient has all rows */
    MP_FACT_OF_TORCH = 1 << 27,     /* Python code of the torch package */
    MP_FACT_STEPS = 1 << 28,        /* a function `step`, which an optimizer of any package has */
};

struct mp_stack_facts {
    uint32_t *of_frame; /* by frame: facts that it shows itself */
    uint32_t *of_stack; /* by stack: facts that any of its frames shows */
    uint32_t *inside;   /* by stack: facts of its frames, without the frames outside "backward of" */
};

/* Finds the facts at the first call and stores them in the model, which must have all its stacks. */
const struct mp_stack_facts *mp_stack_facts(const struct mp_model *model);

/* The kind of a file of Python code, by its path. */
enum mp_torch_file {
    MP_TORCH_FILE_NONE,
    MP_TORCH_FILE_WRAPS,     /* decorators that wrap functions of the program: no_grad(), ... */
    MP_TORCH_FILE_CALLS,     /* calls modules */
    MP_TORCH_FILE_RUNS,      /* runs backward */
    MP_TORCH_FILE_INSIDE,    /* functions that networks and data loaders call */
    MP_TORCH_FILE_OPTIMIZES, /* optimizers */
};
enum mp_torch_file mp_torch_file(const char *path);
/* True if a path belongs to the torch package in the form of PyTorch's profiler, which leaves out the package's
 * folder. */
bool mp_torch_is_short_path(const char *path);

/* The functions below judge the name of a native function. */
/* True if the function only serves an allocation, or takes the allocation's stack. */
bool mp_torch_serves_allocation(const char *function);
/* True if the function computes a gradient. */
bool mp_torch_makes_gradient(const char *function);
/* True if a name (without parameters) does not show what is computed: dispatch, wrappers, reference counts. */
bool mp_torch_is_plumbing(const char *name, size_t length);
/* The place in a model where mp_stack_facts() stores the facts. */
struct mp_known_facts *mp_known_facts_new(void);
void mp_known_facts_free(void *known);

/* A row of the table: a regular expression over "FUNCTION FILE:LINE", as in model/rules.h, and the bit that it sets. */
struct mp_stack_pattern {
    uint32_t fact;
    const char *regex;
};
/* The row with that index; NULL after the last. */
const struct mp_stack_pattern *mp_stack_pattern(size_t index);
