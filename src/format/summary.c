#include "format/summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void mp_summary_start(struct mp_summary *summary, const char *configuration)
{
    *summary = (struct mp_summary){.exact = true};
    mp_step_rule_open_configured(&summary->rule, configuration);
}

void mp_summary_free(struct mp_summary *summary)
{
    mp_step_rule_close(&summary->rule);
    mp_vec_free(&summary->peaks);
    mp_vec_free(&summary->boundaries);
    mp_vec_free(&summary->open);
    mp_vec_free(&summary->may_begin);
    mp_vec_free(&summary->tracks);
}

void mp_summary_string(struct mp_summary *summary, const char *text, size_t length)
{
    char name[256];
    bool may = length >= sizeof name;
    if (!may) {
        memcpy(name, text, length);
        name[length] = '\0';
        may = mp_step_rule_may_match(&summary->rule, name);
    }
    if (!mp_vec_push(&summary->may_begin, may)) summary->exact = false;
}

/* Mixes a number, so that sums over different sets differ. */
static uint64_t mix(uint64_t number)
{
    return mp_hash_mix(number + 1);
}

static struct mp_summary_track *track_of(struct mp_summary *summary, uint16_t track)
{
    if (mp_vec_extend(&summary->tracks, (size_t)track + 1)) return &summary->tracks.at[track];
    summary->exact = false;
    return NULL;
}

/* The current chunk's row for a track. */
static struct mp_chunk_peak *row_of(struct mp_summary *summary, uint64_t sequence, uint16_t track)
{
    struct mp_summary_track *level = track_of(summary, track);
    if (!level) return NULL;
    if (!level->row) {
        struct mp_chunk_peak row = {.chunk = sequence, .track = track};
        if (!mp_vec_push(&summary->peaks, row)) {
            summary->exact = false;
            return NULL;
        }
        level->row = (uint32_t)summary->peaks.count;
    }
    return &summary->peaks.at[level->row - 1];
}

static void take_alloc(struct mp_summary *summary, struct mp_chunk_peak *row, const struct mp_event *event)
{
    struct mp_summary_track *level = &summary->tracks.at[event->track];
    if (event->block < summary->next_block || event->bytes == MP_BYTES_UNKNOWN) summary->exact = false;
    summary->next_block = event->block + 1;
    summary->live_blocks++;
    summary->live_sum += mix(event->block);
    level->bytes += event->bytes;
    if (level->bytes > row->bytes) row->bytes = level->bytes;
}

static void take_free(struct mp_summary *summary, const struct mp_event *event)
{
    if (event->block >= summary->next_block || event->bytes == MP_BYTES_UNKNOWN) summary->exact = false;
    summary->live_blocks--;
    summary->live_sum -= mix(event->block);
    summary->tracks.at[event->track].bytes -= event->bytes;
}

static void take_boundary(struct mp_summary *summary, const struct mp_event *event)
{
    struct mp_boundary boundary = {.time_ns = event->time_ns,
                                   .event = summary->events,
                                   .name = event->name,
                                   .thread = event->thread,
                                   .type = event->type};
    if (!mp_vec_push(&summary->boundaries, boundary)) summary->exact = false;
}

static void begin_region(struct mp_summary *summary, const struct mp_event *event)
{
    bool too_many = summary->open.count == MP_OPEN_SPANS_MAX;
    if (too_many || !mp_open_spans_begin(&summary->open, event)) summary->exact = false;
    bool known = event->name < summary->may_begin.count;
    if (known && summary->may_begin.at[event->name]) take_boundary(summary, event);
}

static void take(struct mp_summary *summary, uint64_t sequence, const struct mp_event *event)
{
    struct mp_chunk_peak *row;
    switch (event->type) {
    case MP_EVENT_ALLOC:
        row = row_of(summary, sequence, event->track);
        if (row) take_alloc(summary, row, event);
        break;
    case MP_EVENT_FREE:
        row = row_of(summary, sequence, event->track);
        if (row) take_free(summary, event);
        break;
    case MP_EVENT_RESIZE:
        summary->exact = false;
        break;
    case MP_EVENT_OOM:
    case MP_EVENT_RESERVED:
        row_of(summary, sequence, event->track);
        break;
    case MP_EVENT_STEP:
        take_boundary(summary, event);
        break;
    case MP_EVENT_REGION_BEGIN:
        begin_region(summary, event);
        break;
    case MP_EVENT_REGION_END:
        mp_open_spans_end(&summary->open, event);
        break;
    }
    summary->events++;
}

void mp_summary_events(struct mp_summary *summary, uint64_t sequence, const struct mp_event *events, size_t count)
{
    if (count && events[0].time_ns < summary->end_ns) summary->exact = false;
    for (size_t i = 0; i < count && summary->exact; i++)
        take(summary, sequence, &events[i]);
    if (count) summary->end_ns = events[count - 1].time_ns;
    for (size_t track = 0; track < summary->tracks.count; track++)
        summary->tracks.at[track].row = 0;
}

/* The base at the beginning of a recording says what is live; a later one must agree with the events. */
void mp_summary_base(struct mp_summary *summary, const struct mp_base_block *blocks, size_t count)
{
    bool first = !summary->events && !summary->live_blocks;
    uint64_t sum = 0;
    for (size_t i = 0; i < count && summary->exact; i++) {
        const struct mp_base_block *block = &blocks[i];
        sum += mix(block->block);
        if (block->bytes == MP_BYTES_UNKNOWN) summary->exact = false;
        if (!first) continue;
        struct mp_summary_track *level = track_of(summary, block->track);
        if (level) level->bytes += block->bytes;
        if (block->block >= summary->next_block) summary->next_block = block->block + 1;
    }
    if (first) {
        summary->live_blocks = count;
        summary->live_sum = sum;
    }
    if (summary->live_blocks != count || summary->live_sum != sum) summary->exact = false;
}
