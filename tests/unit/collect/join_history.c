/* mp_history_join() for check_history_join.py. Input: two counts, then of each allocation and of each entry time,
 * address and bytes. Output: for each entry the number of its allocation, or -1. */
#include "collect/history/history_join.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/words.h"

int main(void)
{
    size_t allocs, entries, pairs = 0, counted = 0;
    if (scanf("%zu %zu", &allocs, &entries) != 2) return EXIT_FAILURE;
    struct mp_history_alloc *ours = calloc(allocs + 1, sizeof *ours);
    struct mp_history_entry *theirs = calloc(entries + 1, sizeof *theirs);
    uint32_t *alloc_of = calloc(entries + 1, sizeof *alloc_of);
    if (!ours || !theirs || !alloc_of) return EXIT_FAILURE;
    for (size_t i = 0; i < allocs; i++)
        if (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &ours[i].time_ns, &ours[i].address, &ours[i].bytes) != 3)
            return EXIT_FAILURE;
    for (size_t i = 0; i < entries; i++)
        if (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &theirs[i].time_ns, &theirs[i].address, &theirs[i].bytes) != 3)
            return EXIT_FAILURE;
    if (!mp_history_join(ours, allocs, theirs, entries, alloc_of, &pairs)) return EXIT_FAILURE;
    for (size_t i = 0; i < entries; i++) {
        counted += alloc_of[i] != MP_NONE;
        printf("%" PRId64 "\n", alloc_of[i] == MP_NONE ? -1 : (int64_t)alloc_of[i]);
    }
    free(ours);
    free(theirs);
    free(alloc_of);
    return counted == pairs ? EXIT_SUCCESS : EXIT_FAILURE;
}
