/*
 * A caching allocator's segments by track and address. Any thread; may not be called in the program.
 */
#ifndef MP_FORMAT_SEGMENTS_H
#define MP_FORMAT_SEGMENTS_H

#include "format/recording.h"

/* In order; free() them. They point into `segments`. NULL: out of memory. */
const struct mp_segment **mp_segments_sorted(const struct mp_segment *segments, size_t count);

/* Of those, the one of the track that the address lies in; NULL where none does. */
const struct mp_segment *mp_segment_at(const struct mp_segment *const *sorted, size_t count, uint16_t track,
                                       uint64_t address);

#endif
