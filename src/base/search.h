/* Binary search. */
#pragma once

#include <stddef.h>

/* The number of entries, of `count`, that come before the wanted one. `is_before` is an expression of an entry's index
 * `i`: true up to some entry, false from there on. */
#define MP_COUNT_BEFORE(count, i, is_before)                                                                           \
    ({                                                                                                                 \
        size_t low_ = 0, high_ = (count);                                                                              \
        while (low_ < high_) {                                                                                         \
            size_t i = low_ + (high_ - low_) / 2;                                                                      \
            if (is_before)                                                                                             \
                low_ = i + 1;                                                                                          \
            else                                                                                                       \
                high_ = i;                                                                                             \
        }                                                                                                              \
        low_;                                                                                                          \
    })
