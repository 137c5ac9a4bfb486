#include "collect/history_join.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "base/words.h"

#define CANDIDATES 16 /* allocations that one entry may be, those nearest in time */

/* An allocation that an entry may be; a chain of them goes up in both. */
struct pair {
    uint32_t alloc, before; /* before: index of the chain's pair before this, or MP_NONE */
};

/* The worth of a chain: a pair more is more than all differences of time, in units of about a microsecond. */
#define PAIR_WORTH (UINT64_C(1) << 42)
#define TIME_SHIFT 10

struct joiner {
    const struct mp_history_alloc *allocs;
    size_t alloc_count;
    struct mp_map last;  /* address + 1 to the last allocation there */
    uint32_t *earlier;   /* by allocation: the one before at its address; MP_NONE */
    uint64_t *best;      /* Fenwick's tree over allocations: of all before, the highest worth of a chain's end */
    uint32_t *best_pair; /* and which pair that is */
    MP_VEC(struct pair) pairs;
};

static uint64_t distance(const struct mp_history_alloc *alloc, const struct mp_history_entry *entry)
{
    return alloc->time_ns > entry->time_ns ? alloc->time_ns - entry->time_ns : entry->time_ns - alloc->time_ns;
}

static bool may_be(const struct mp_history_alloc *alloc, const struct mp_history_entry *entry)
{
    uint64_t allowed = alloc->time_ns < entry->time_ns ? MP_HISTORY_EARLY_NS : MP_HISTORY_LATE_NS;
    return entry->bytes && entry->bytes <= alloc->bytes && distance(alloc, entry) <= allowed;
}

static bool link_addresses(struct joiner *j)
{
    for (uint32_t i = 0; i < j->alloc_count; i++) {
        if (j->allocs[i].address == UINT64_MAX) continue;
        bool added;
        uint64_t *last = mp_map_insert(&j->last, j->allocs[i].address + 1, &added);
        if (!last) return false;
        j->earlier[i] = added ? MP_NONE : (uint32_t)*last;
        *last = i;
    }
    return true;
}

/* The candidates of one entry, the latest allocation first. */
static size_t find_candidates(const struct joiner *j, const struct mp_history_entry *entry, uint32_t *found)
{
    const uint64_t *last = entry->address == UINT64_MAX ? NULL : mp_map_find(&j->last, entry->address + 1);
    size_t count = 0;
    for (uint32_t at = last ? (uint32_t)*last : MP_NONE; at != MP_NONE; at = j->earlier[at]) {
        const struct mp_history_alloc *alloc = &j->allocs[at];
        if (alloc->time_ns + MP_HISTORY_EARLY_NS < entry->time_ns) break;
        if (!may_be(alloc, entry)) continue;
        if (count < CANDIDATES) {
            found[count++] = at;
        } else if (distance(alloc, entry) < distance(&j->allocs[found[0]], entry)) {
            for (size_t i = 1; i < CANDIDATES; i++)
                found[i - 1] = found[i];
            found[CANDIDATES - 1] = at;
        }
    }
    return count;
}

static uint64_t best_before(const struct joiner *j, uint32_t alloc, uint32_t *pair)
{
    uint64_t worth = 0;
    *pair = MP_NONE;
    for (uint32_t at = alloc; at; at &= at - 1)
        if (j->best[at - 1] > worth) {
            worth = j->best[at - 1];
            *pair = j->best_pair[at - 1];
        }
    return worth;
}

static void raise(struct joiner *j, uint32_t alloc, uint64_t worth, uint32_t pair)
{
    for (size_t at = (size_t)alloc + 1; at <= j->alloc_count; at += at & -at)
        if (worth > j->best[at - 1]) {
            j->best[at - 1] = worth;
            j->best_pair[at - 1] = pair;
        }
}

/* Chains that end with this entry. Going down through its candidates, none of them builds on another. */
static bool add_entry(struct joiner *j, const struct mp_history_entry *entry)
{
    uint32_t found[CANDIDATES];
    size_t count = find_candidates(j, entry, found);
    for (size_t i = 0; i < count; i++) {
        struct pair pair = {.alloc = found[i]};
        uint64_t worth =
            best_before(j, found[i], &pair.before) + PAIR_WORTH - (distance(&j->allocs[found[i]], entry) >> TIME_SHIFT);
        if (!mp_vec_push(&j->pairs, pair)) return false;
        raise(j, found[i], worth, (uint32_t)j->pairs.count - 1);
    }
    return true;
}

/* Back along the best chain; `first`: of each entry, its first pair. */
static size_t follow(const struct joiner *j, const size_t *first, size_t entry_count, uint32_t *alloc_of)
{
    uint32_t at;
    size_t pairs = 0;
    best_before(j, (uint32_t)j->alloc_count, &at);
    for (size_t entry = entry_count; entry-- > 0;) {
        alloc_of[entry] = MP_NONE;
        if (at == MP_NONE || at < first[entry]) continue;
        alloc_of[entry] = j->pairs.at[at].alloc;
        at = j->pairs.at[at].before;
        pairs++;
    }
    return pairs;
}

bool mp_history_join(const struct mp_history_alloc *allocs, size_t alloc_count, const struct mp_history_entry *entries,
                     size_t entry_count, uint32_t *alloc_of, size_t *pairs)
{
    struct joiner j = {.allocs = allocs,
                       .alloc_count = alloc_count,
                       .earlier = malloc((alloc_count + 1) * sizeof *j.earlier),
                       .best = calloc(alloc_count + 1, sizeof *j.best),
                       .best_pair = malloc((alloc_count + 1) * sizeof *j.best_pair)};
    size_t *first = malloc((entry_count + 1) * sizeof *first);
    bool done = j.earlier && j.best && j.best_pair && first && link_addresses(&j);
    for (size_t i = 0; done && i < entry_count; i++) {
        first[i] = j.pairs.count;
        done = add_entry(&j, &entries[i]);
    }
    if (done) *pairs = follow(&j, first, entry_count, alloc_of);
    mp_map_free(&j.last);
    mp_vec_free(&j.pairs);
    free(j.earlier);
    free(j.best);
    free(j.best_pair);
    free(first);
    return done;
}
