#include "collect/history/history_join.h"

#include <stdlib.h>

#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"
#include "base/words.h"

#define CANDIDATES 16 /* most candidates of one entry, the nearest in time */
#define LOOKS      64 /* most allocations at an address that are checked for candidates */

/* An allocation and an entry that may belong together. Along a chain of pairs, both indices rise. */
struct pair {
    uint32_t alloc, before; /* before: index of the previous pair in the chain, or MP_NONE */
};

/* The worth of one pair of a chain: it outweighs all differences of time, in units of about a microsecond. */
#define PAIR_WORTH (UINT64_C(1) << 42)
#define TIME_SHIFT 10

struct place {
    uint64_t address;
    uint32_t alloc;
};

struct joiner {
    const struct mp_history_alloc *allocs;
    size_t alloc_count;
    struct place *places; /* all allocations, sorted by address, then by order */
    uint64_t *best;       /* Fenwick tree over allocations: the highest worth of a chain that ends at an earlier
                           * allocation */
    uint32_t *best_pair;  /* the last pair of that chain */
    MP_VEC(struct pair) pairs;
};

MP_ORDER(by_address, struct place, MP_RISING(address) ?: MP_RISING(alloc))

static void sort_places(struct joiner *j)
{
    for (uint32_t i = 0; i < j->alloc_count; i++)
        j->places[i] = (struct place){j->allocs[i].address, i};
    if (j->alloc_count) qsort(j->places, j->alloc_count, sizeof *j->places, by_address);
}

/* The first index in `places` of an allocation at `address` at or after `time_ns`, or the end of that address's
 * places. */
static size_t place_from(const struct joiner *j, uint64_t address, uint64_t time_ns)
{
    return MP_COUNT_BEFORE(j->alloc_count, i,
                           j->places[i].address < address ||
                               (j->places[i].address == address && j->allocs[j->places[i].alloc].time_ns < time_ns));
}

static uint64_t distance(const struct mp_history_alloc *alloc, const struct mp_history_entry *entry)
{
    return alloc->time_ns > entry->time_ns ? alloc->time_ns - entry->time_ns : entry->time_ns - alloc->time_ns;
}

/* The allocation at index `place`, if it has the entry's address and is near enough in time; else NULL. */
static const struct mp_history_alloc *near(const struct joiner *j, size_t place, const struct mp_history_entry *entry,
                                           uint64_t allowed)
{
    if (place >= j->alloc_count || j->places[place].address != entry->address) return NULL;
    const struct mp_history_alloc *alloc = &j->allocs[j->places[place].alloc];
    return distance(alloc, entry) <= allowed ? alloc : NULL;
}

/* Finds the first allocation from `place` on that may belong to the entry, at any distance in time. Returns the index
 * after it, or `place` if there is none. */
static size_t after_first_later(const struct joiner *j, size_t place, const struct mp_history_entry *entry)
{
    const struct mp_history_alloc *alloc;
    for (size_t i = place; i < place + LOOKS && (alloc = near(j, i, entry, UINT64_MAX)); i++)
        if (entry->bytes <= alloc->bytes) return i + 1;
    return place;
}

/* Finds the allocations that an entry may belong to: the first one after it, then those nearest to it in time. The
 * latest in time comes first in `found`. */
static size_t find_candidates(const struct joiner *j, const struct mp_history_entry *entry, uint32_t *found)
{
    if (!entry->bytes) return 0;
    size_t before = place_from(j, entry->address, entry->time_ns), after = after_first_later(j, before, entry);
    size_t count = 0;
    if (after > before) found[count++] = j->places[after - 1].alloc;
    for (int looks = 0; looks < LOOKS && count < CANDIDATES; looks++) {
        const struct mp_history_alloc *left = before ? near(j, before - 1, entry, MP_HISTORY_EARLY_NS) : NULL;
        const struct mp_history_alloc *right = near(j, after, entry, MP_HISTORY_LATE_NS);
        if (!left && !right) break;
        bool goes_left = left && (!right || distance(left, entry) < distance(right, entry));
        uint32_t alloc = j->places[goes_left ? before - 1 : after].alloc;
        *(goes_left ? &before : &after) += goes_left ? (size_t)-1 : 1;
        if (entry->bytes > j->allocs[alloc].bytes) continue;
        size_t at = count++;
        for (; at && found[at - 1] < alloc; at--)
            found[at] = found[at - 1];
        found[at] = alloc;
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

/* Adds the chains that end with this entry. Candidates are added from the latest to the earliest, so that no chain uses
 * the entry twice. */
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

/* Follows the best chain backwards; `first`: the first pair of each entry. */
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
                       .places = malloc((alloc_count + 1) * sizeof *j.places),
                       .best = calloc(alloc_count + 1, sizeof *j.best),
                       .best_pair = malloc((alloc_count + 1) * sizeof *j.best_pair)};
    size_t *first = malloc((entry_count + 1) * sizeof *first);
    bool done = j.places && j.best && j.best_pair && first;
    if (done) sort_places(&j);
    for (size_t i = 0; done && i < entry_count; i++) {
        first[i] = j.pairs.count;
        done = add_entry(&j, &entries[i]);
    }
    if (done) *pairs = follow(&j, first, entry_count, alloc_of);
    mp_vec_free(&j.pairs);
    free(j.places);
    free(j.best);
    free(j.best_pair);
    free(first);
    return done;
}
