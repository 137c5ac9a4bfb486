#include "format/segments.h"

#include <stdlib.h>

#include "base/order.h"
#include "base/search.h"

MP_ORDER_OF_POINTERS(by_track_then_address, struct mp_segment, MP_RISING(track) ?: MP_RISING(address))

const struct mp_segment **mp_segments_sorted(const struct mp_segment *segments, size_t count)
{
    const struct mp_segment **sorted = malloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = &segments[i];
    if (sorted) qsort(sorted, count, sizeof *sorted, by_track_then_address);
    return sorted;
}

const struct mp_segment *mp_segment_at(const struct mp_segment *const *sorted, size_t count, uint16_t track,
                                       uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(
        count, i, sorted[i]->track < track || (sorted[i]->track == track && sorted[i]->address <= address));
    const struct mp_segment *found = before ? sorted[before - 1] : NULL;
    return found && found->track == track && address - found->address < found->bytes ? found : NULL;
}
