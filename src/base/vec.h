/*
 * Growable arrays: `struct mp_vec_x { T *at; size_t count, room; }`, declared with MP_VEC(T). Zero-initialised is
 * empty.
 *
 * Growing can fail. Macros that may grow an array come in two kinds. mp_vec_push() and similar macros yield true on
 * success, and leave the array unchanged on failure, for code that must go on. mp_vec_add() and similar macros end the
 * program through base/memory.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

#define MP_VEC(type)                                                                                                   \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        size_t count, room;                                                                                            \
    }

/* Visits the elements in order: mp_vec_each (const struct row, row, &rows) ... The array must not grow meanwhile. */
#define mp_vec_each(type, item, vec) for (type *item = (vec)->at; item && item < (vec)->at + (vec)->count; item++)

static inline bool mp_vec_reserve_(void **at, size_t *room, size_t need, size_t each)
{
    if (need <= *room) return true;
    size_t grown = *room ? *room + *room / 2 : 16;
    if (grown < need) grown = need;
    if (grown > SIZE_MAX / each) return false;
    void *moved = realloc(*at, grown * each);
    if (!moved) return false;
    *at = moved;
    *room = grown;
    return true;
}

/* Room for `extra` more elements. */
#define mp_vec_reserve(vec, extra)                                                                                     \
    mp_vec_reserve_((void **)&(vec)->at, &(vec)->room, (vec)->count + (extra), sizeof *(vec)->at)

/* Appends a copy of value. */
#define mp_vec_push(vec, value) (mp_vec_reserve(vec, 1) && ((vec)->at[(vec)->count++] = (value), true))

/* Appends copies of the `number` elements at `from`, which may be NULL if `number` is 0. */
#define mp_vec_append(vec, from, number)                                                                               \
    (mp_vec_reserve(vec, number) &&                                                                                    \
     ((void)sizeof((vec)->at == (from)),                                                                               \
      (number) ? (void)__builtin_memcpy((vec)->at + (vec)->count, from, (number) * sizeof *(vec)->at) : (void)0,       \
      (vec)->count += (number), true))

/* Appends zeroed elements until there are `total`. */
#define mp_vec_extend(vec, total)                                                                                      \
    ((total) <= (vec)->count ||                                                                                        \
     (mp_vec_reserve(vec, (total) - (vec)->count) &&                                                                   \
      (__builtin_memset((vec)->at + (vec)->count, 0, ((total) - (vec)->count) * sizeof *(vec)->at),                    \
       (vec)->count = (total), true)))

/* These do the same for code that cannot go on without memory. They yield nothing. */
static inline void mp_vec_room_(void **at, size_t *room, size_t need, size_t each)
{
    if (!mp_vec_reserve_(at, room, need, each)) mp_memory_lacks(need > SIZE_MAX / each ? SIZE_MAX : need * each);
}

#define mp_vec_room_for(vec, extra)                                                                                    \
    mp_vec_room_((void **)&(vec)->at, &(vec)->room, (vec)->count + (extra), sizeof *(vec)->at)
#define mp_vec_add(vec, value)            (mp_vec_room_for(vec, 1), (void)((vec)->at[(vec)->count++] = (value)))
#define mp_vec_add_all(vec, from, number) (mp_vec_room_for(vec, number), (void)mp_vec_append(vec, from, number))
#define mp_vec_grow_to(vec, total)                                                                                     \
    ((total) > (vec)->count ? mp_vec_room_for(vec, (total) - (vec)->count) : (void)0, (void)mp_vec_extend(vec, total))

#define mp_vec_free(vec) (free((vec)->at), (vec)->at = NULL, (vec)->count = (vec)->room = 0)
