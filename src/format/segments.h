/*
 * A caching allocator's segments by track and address. Any thread; may not be called in the program.
 */
#pragma once

#include "format/recording.h"

/* Returns pointers into `segments`, sorted; free() the array. NULL: out of memory. */
const struct mp_segment **mp_segments_sorted(const struct mp_segment *segments, size_t count);

/* The sorted segment of the track that contains the address; NULL: none. */
const struct mp_segment *mp_segment_at(const struct mp_segment *const *sorted, size_t count, uint16_t track,
                                       uint64_t address);
