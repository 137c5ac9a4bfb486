#include "format/segments.h"

#include <stdlib.h>

#include "base/search.h"

static int by_track_then_address(const void *left, const void *right)
{
    const struct mp_segment *a = *(const struct mp_segment *const *)left, *b = *(const struct mp_segment *const *)right;
    if (a->track != b->track) return a->track < b->track ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

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
