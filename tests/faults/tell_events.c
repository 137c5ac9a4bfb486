/*
 * tell_events FILE: counts the events of a recording of tests/e2e/programs/churn, chunk by chunk as the reader gives
 * them, so that duplicate events are noticed. Prints a line for each thread of the program, and for each event out of
 * order:
 *
 *     thread 1 allocs 4711 frees 2355 missing 0 twice 0
 */
#include <stdio.h>

#include "format/reader.h"

#define THREADS 65

static struct seen {
    uint64_t next_alloc, next_free, allocs, frees, missing, twice;
} seen[THREADS];

/* Takes an alloc or free of a thread. Both come in order of block numbers; the frees are of odd ones. */
static void take(struct seen *of, uint64_t number, uint64_t *next, uint64_t step, uint64_t *count)
{
    if (number < *next) {
        of->twice++;
        return;
    }
    of->missing += (number - *next) / step;
    *next = number + step;
    ++*count;
}

static void take_events(const struct mp_event_columns *events)
{
    for (size_t i = 0; i < events->count; i++) {
        uint64_t thread = events->address[i] >> 40, number = (events->address[i] & 0xffffffffff) / 64;
        bool is_alloc = events->type[i] == MP_EVENT_ALLOC;
        if ((!is_alloc && events->type[i] != MP_EVENT_FREE) || !thread || thread >= THREADS) continue;
        struct seen *of = &seen[thread];
        if (!of->next_free) of->next_free = 1;
        take(of, number, is_alloc ? &of->next_alloc : &of->next_free, is_alloc ? 1 : 2,
             is_alloc ? &of->allocs : &of->frees);
    }
}

int main(int argc, char **argv)
{
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    if (argc != 2) return 2;
    if (mp_reader_open(argv[1], &reader, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (!mp_reader_next(reader, &chunk, &error))
        if (chunk.kind == MP_CHUNK_EVENTS_KIND) take_events(&chunk.as.events);
    mp_reader_close(reader);
    for (size_t i = 0; i < THREADS; i++)
        if (seen[i].allocs + seen[i].frees + seen[i].twice)
            printf("thread %zu allocs %llu frees %llu missing %llu twice %llu\n", i, (unsigned long long)seen[i].allocs,
                   (unsigned long long)seen[i].frees, (unsigned long long)seen[i].missing,
                   (unsigned long long)seen[i].twice);
    return 0;
}
