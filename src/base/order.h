/*
 * Orders for qsort(), each from its list of keys. The first key that differs decides:
 *
 *     MP_ORDER(by_track_then_size, struct block, MP_RISING(track) ?: MP_FALLING(bytes))
 */
#pragma once

#include <stdint.h>

#define MP_COMPARE(x, y) (((x) > (y)) - ((x) < (y)))

/* Defines a static function. `type` is that of an element; `a` and `b` are pointers to two of them. */
#define MP_ORDER(name, type, ...)                                                                                      \
    static int name(const void *left_, const void *right_)                                                             \
    {                                                                                                                  \
        const type *a = left_, *b = right_;                                                                            \
        return __VA_ARGS__;                                                                                            \
    }
/* Does the same for an array of pointers to elements. */
#define MP_ORDER_OF_POINTERS(name, type, ...)                                                                          \
    static int name(const void *left_, const void *right_)                                                             \
    {                                                                                                                  \
        const type *a = *(const type *const *)left_, *b = *(const type *const *)right_;                                \
        return __VA_ARGS__;                                                                                            \
    }
/* Does the same for an array of 4-byte indices. The indexed array is the context of qsort_r(). */
#define MP_ORDER_OF_INDICES(name, type, ...)                                                                           \
    static int name(const void *left_, const void *right_, void *rows_)                                                \
    {                                                                                                                  \
        const type *a = (const type *)rows_ + *(const uint32_t *)left_;                                                \
        const type *b = (const type *)rows_ + *(const uint32_t *)right_;                                               \
        return __VA_ARGS__;                                                                                            \
    }
/* Smaller values of a member first, or larger ones. */
#define MP_RISING(member)  MP_COMPARE(a->member, b->member)
#define MP_FALLING(member) MP_COMPARE(b->member, a->member)
