#include "collect/symbols/extents.h"

#include <stdlib.h>

#include "base/order.h"
#include "base/search.h"

bool mp_extents_add(struct mp_extents *extents, uint64_t start, uint64_t end, uint64_t value, int rank)
{
    if (start >= end) return true;
    return mp_vec_push(&extents->added, ((struct mp_extent){start, end, value, rank}));
}

/* Order of precedence: if two extents cover an address, the later one in this order wins. */
MP_ORDER(compare, struct mp_extent, MP_RISING(start) ?: MP_FALLING(end) ?: MP_RISING(rank) ?: MP_FALLING(value))

/* Adds an edge. Cannot fail: mp_extents_seal() made room for two edges of each extent. */
static void edge(struct mp_extents *extents, uint64_t at, uint64_t value)
{
    struct mp_extent_edge *last = extents->edges.count ? &extents->edges.at[extents->edges.count - 1] : NULL;
    if (last && last->start == at)
        last->value = value;
    else
        extents->edges.at[extents->edges.count++] = (struct mp_extent_edge){at, value};
}

/* Closes the open extents that end at or before `limit`, innermost first. `open` is a stack of `depth`. */
static size_t close_until(struct mp_extents *extents, const struct mp_extent *const *open, size_t depth, uint64_t limit)
{
    while (depth && open[depth - 1]->end <= limit) {
        uint64_t end = open[--depth]->end;
        while (depth && open[depth - 1]->end <= end)
            depth--;
        edge(extents, end, depth ? open[depth - 1]->value : 0);
    }
    return depth;
}

bool mp_extents_seal(struct mp_extents *extents)
{
    size_t count = extents->added.count, depth = 0;
    const struct mp_extent **open = malloc((count + 1) * sizeof *open);
    if (!open || !mp_vec_reserve(&extents->edges, count * 2)) {
        free(open);
        return false;
    }
    if (count) qsort(extents->added.at, count, sizeof *extents->added.at, compare);
    for (size_t i = 0; i < count; i++) {
        const struct mp_extent *extent = &extents->added.at[i];
        depth = close_until(extents, open, depth, extent->start);
        open[depth++] = extent;
        edge(extents, extent->start, extent->value);
    }
    close_until(extents, open, depth, UINT64_MAX);
    free(open);
    mp_vec_free(&extents->added);
    return true;
}

uint64_t mp_extents_find(const struct mp_extents *extents, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(extents->edges.count, i, extents->edges.at[i].start <= address);
    return before ? extents->edges.at[before - 1].value : 0;
}

void mp_extents_free(struct mp_extents *extents)
{
    mp_vec_free(&extents->added);
    mp_vec_free(&extents->edges);
}
