/*
 * For check_torch_allocator.py: reads calls from stdin, one per line, passes them to the model of PyTorch's allocator,
 * and prints the results. Blocks are named by small numbers.
 *
 *   new CAPACITY TOTAL [SETTINGS]     a fresh allocator
 *   malloc NAME BYTES STREAM          free NAME       empty
 *   use NAME STREAM                   done STREAM     complete NAME
 *   begin POOL STREAM                 end POOL        release POOL
 *   pool POOL NO_SPLIT USE_ON_OOM     set SETTINGS    list
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_allocator.c" /* reaches into its state */

#define NAMES 4096

static struct mp_torch_allocator *allocator;
static struct mp_torch_settings settings;
static uint32_t blocks[NAMES];

static void tell(void *context, const struct mp_torch_event *event)
{
    static const char *const names[MP_TORCH_ACTIONS] = {
        [MP_TORCH_ALLOC] = "alloc",
        [MP_TORCH_FREE_REQUESTED] = "free_requested",
        [MP_TORCH_FREE_COMPLETED] = "free_completed",
        [MP_TORCH_SEGMENT_ALLOC] = "segment_alloc",
        [MP_TORCH_SEGMENT_FREE] = "segment_free",
        [MP_TORCH_SEGMENT_MAP] = "segment_map",
        [MP_TORCH_SEGMENT_UNMAP] = "segment_unmap",
        [MP_TORCH_OUT_OF_MEMORY] = "oom",
    };
    (void)context;
    printf("event %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n", names[event->action], event->address, event->bytes,
           event->stream, event->pool);
}

static void list(void)
{
    const struct mp_torch_stats *stats = mp_torch_stats(allocator);
    printf("stats %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, stats->allocated, stats->reserved,
           stats->active, stats->requested, stats->inactive_split);
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, stats->peak_allocated, stats->peak_reserved,
           stats->segments, stats->retries, stats->ooms);
    printf(" %" PRIu64 " %" PRIu64 "\n", stats->peak_active, stats->peak_requested);
    struct mp_torch_listing listing = {0};
    mp_torch_list(allocator, &listing);
    mp_vec_each (const struct mp_torch_segment, segment, &listing.segments) {
        printf("segment %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %d %d\n", segment->address, segment->bytes,
               segment->stream, segment->pool, segment->small, segment->expandable);
        for (size_t k = 0; k < segment->block_count; k++) {
            const struct mp_torch_block *block = &listing.blocks.at[segment->first_block + k];
            printf("block %" PRIu64 " %" PRIu64 " %" PRIu64 " %c\n", block->address, block->bytes, block->requested,
                   "iap"[block->state]);
        }
    }
    mp_torch_listing_free(&listing);
}

static void set(const char *text)
{
    struct mp_error error;
    if (mp_torch_settings_parse(&settings, text, &error)) {
        printf("refused %s\n", error.text);
        return;
    }
    if (allocator) mp_torch_set(allocator, &settings);
}

static void begin(const char *rest)
{
    uint64_t capacity, total;
    int length;
    if (sscanf(rest, "%" SCNu64 " %" SCNu64 "%n", &capacity, &total, &length) != 2) abort();
    mp_torch_allocator_free(allocator);
    allocator = NULL;
    mp_torch_settings_default(&settings);
    set(rest + length);
    const struct mp_torch_hooks hooks = {.event = tell};
    allocator = mp_torch_allocator_new(&settings, capacity, total, &hooks);
}

/* Effects on the allocator that no recording has; the test sets them directly in the model's state. */

static void stream_done(uint64_t stream)
{
    for (size_t i = 0; i < allocator->queues.count; i++)
        if (allocator->queues.at[i].stream == stream)
            allocator->queues.at[i].done = allocator->queues.at[i].blocks.count;
}

static uint32_t pool_for(uint64_t stream)
{
    for (size_t i = allocator->contexts.count; i--;)
        if (allocator->contexts.at[i].stream == MP_TORCH_ANY_STREAM || allocator->contexts.at[i].stream == stream)
            return allocator->contexts.at[i].pool;
    return 0;
}

/* MemPool(no_split=..., use_on_oom=...) */
static void pool_options(uint32_t pool, bool no_split, bool use_on_oom)
{
    mp_torch_pool_set(allocator, pool, (no_split ? MP_TORCH_NO_SPLIT : 0) | (use_on_oom ? MP_TORCH_USE_ON_OOM : 0));
}

static void call(const char *word, const char *rest)
{
    uint64_t at[3] = {0};
    sscanf(rest, "%" SCNu64 " %" SCNu64 " %" SCNu64, &at[0], &at[1], &at[2]);
    uint32_t *block = &blocks[at[0] % NAMES];
    if (!strcmp(word, "malloc")) {
        if (mp_torch_malloc(allocator, at[1], at[2], pool_for(at[2]), block) == MP_TORCH_DONE)
            printf("got %" PRIu64 " %" PRIu64 "\n", mp_torch_block_address(allocator, *block),
                   *block < allocator->blocks.count ? allocator->blocks.at[*block].bytes : 0);
        else
            puts("oom");
    } else if (!strcmp(word, "free"))
        mp_torch_free(allocator, *block);
    else if (!strcmp(word, "use"))
        mp_torch_record_stream(allocator, *block, at[1]);
    else if (!strcmp(word, "complete"))
        mp_torch_complete(allocator, *block);
    else if (!strcmp(word, "done"))
        stream_done(at[0]);
    else if (!strcmp(word, "empty"))
        mp_torch_empty_cache(allocator);
    else if (!strcmp(word, "begin"))
        mp_torch_pool_begin(allocator, (uint32_t)at[0], at[1]);
    else if (!strcmp(word, "end"))
        mp_torch_pool_end(allocator, (uint32_t)at[0]);
    else if (!strcmp(word, "release"))
        mp_torch_pool_release(allocator, (uint32_t)at[0]);
    else if (!strcmp(word, "pool"))
        pool_options((uint32_t)at[0], at[1], at[2]);
    else
        abort();
}

int main(void)
{
    char line[512], word[32];
    int length;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%31s%n", word, &length) != 1) continue;
        if (!strcmp(word, "new"))
            begin(line + length);
        else if (!strcmp(word, "set"))
            set(line + length + 1);
        else if (!strcmp(word, "list"))
            list();
        else
            call(word, line + length);
        puts(".");
    }
    mp_torch_allocator_free(allocator);
    return 0;
}
