/*
 * A block in the log of operators: the tensor in it, the operator that made it, and when it is read. Pure.
 */
#pragma once

#include "model/model.h"

#define MP_SHAPE_DIMS 16

/* String ids of the model; 0: not known. */
struct mp_tensor {
    uint32_t operator, node; /* the operator that allocated the block, else the first that wrote to it (of a storage
                              * that Python resized, as FSDP2 does); the node of backward that ran it */
    uint32_t shape;          /* as in struct mp_block_use: of the operator's result, else of the first tensor seen */
};
void mp_tensor_of(const struct mp_model *model, uint32_t block, struct mp_tensor *tensor);

/* An operator that ended: from its first allocation, if it made a block, to its end. The uses of its tensors; that of a
 * block which it allocated has the time of the allocation, and may come again with the operator's end. */
struct mp_operation {
    uint64_t began_ns, ended_ns;
    uint32_t operator, node, module; /* string ids */
    size_t first, count;             /* of mp_operations.uses */
};
/* By their ends. Operators without a tensor for an argument have no end in the log. */
struct mp_operations {
    MP_VEC(struct mp_operation) ops;
    const struct mp_model_use **uses;
    uint32_t *made_by; /* by block: 1 + the index of the operation that allocated it; 0: none */
};
void mp_operations_find(const struct mp_model *model, struct mp_operations *operations);
/* The number of operations that ended before a time. */
size_t mp_operations_before(const struct mp_operations *operations, uint64_t time_ns);
void mp_operations_free(struct mp_operations *operations);

/* A shape, or several shapes of one type with equally many dimensions. */
struct mp_shape {
    char dtype[24];
    uint32_t dims;
    uint64_t least[MP_SHAPE_DIMS], most[MP_SHAPE_DIMS];
};
/* Reads "float32 [8, 128]"; false: the text is something else. */
bool mp_shape_read(const char *text, struct mp_shape *shape);
/* Adds a shape; false if the type or the number of dimensions differs. */
bool mp_shape_add(struct mp_shape *to, const struct mp_shape *shape);
/* Writes "[8, 128..256]", cut to `room`. */
#define MP_SHAPE_TEXT 512
void mp_shape_text(const struct mp_shape *shape, char *to, size_t room);

/* When a block is used, seen from a moment. Times of uses are the ends of operators. */
struct mp_idle {
    uint64_t since_ns; /* the last use until then; MP_BYTES_UNKNOWN: the log has none */
    uint64_t again_ns; /* the first use after it; MP_BYTES_UNKNOWN: none */
    uint64_t freed_ns; /* MP_BYTES_UNKNOWN: never */
    bool never;        /* it is not used again, although the log goes on for longer than the block was ever idle before
                        * a use, or the block is freed, after the operator that runs at the moment. If the program
                        * failed or still ran, it may have wanted the block: then only what it freed before the log's
                        * end counts, and what a whole step did not use */
};
/* A moment of a recording, with what all its blocks share. */
struct mp_idle_view {
    const struct mp_model *model;
    uint64_t time_ns;
    uint64_t next_ns;  /* the first end of an operator after the moment; MP_BYTES_UNKNOWN: none */
    uint64_t log_ns;   /* the log's last use */
    uint64_t whole_ns; /* begin of the last whole step; 0: none. MP_BYTES_UNKNOWN: the program came to its own end */
};
/* `time_ns`: MP_BYTES_UNKNOWN for the recording's end. */
void mp_idle_view_at(const struct mp_model *model, uint64_t time_ns, struct mp_idle_view *view);
void mp_idle_of(const struct mp_idle_view *view, uint32_t block, struct mp_idle *idle);
