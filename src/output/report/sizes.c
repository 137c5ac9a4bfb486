#include "output/report/columns.h"
#include "output/report/view.h"
#include "output/report/sizes.h"

static const char *const kinds[MP_CHUNK_KINDS] = {
    [MP_CHUNK_STRINGS] = "strings",
    [MP_CHUNK_DEVICES] = "devices",
    [MP_CHUNK_TRACKS] = "tracks",
    [MP_CHUNK_THREADS] = "threads",
    [MP_CHUNK_MODULES] = "modules",
    [MP_CHUNK_FRAMES] = "frames",
    [MP_CHUNK_STACKS] = "stacks",
    [MP_CHUNK_SYMBOLS] = "symbols",
    [MP_CHUNK_EVENTS_KIND] = "events",
    [MP_CHUNK_BASE] = "base",
    [MP_CHUNK_SAMPLES] = "samples",
    [MP_CHUNK_COVERAGE] = "coverage",
    [MP_CHUNK_EXIT] = "exit",
    [MP_CHUNK_INDEX] = "index",
    [MP_CHUNK_SEGMENTS] = "segments",
    [MP_CHUNK_SEGMENT_PARTS] = "segment_parts",
    [MP_CHUNK_CALLS] = "calls",
    [MP_CHUNK_TRACE] = "trace",
    [MP_CHUNK_ASIDES] = "asides",
    [MP_CHUNK_LABELS] = "labels",
    [MP_CHUNK_HOLDERS] = "holders",
    [MP_CHUNK_METADATA] = "metadata",
    [MP_CHUNK_USES] = "operators",
    [MP_CHUNK_REQUESTS] = "requests",
    [MP_CHUNK_PAST] = "past",
    [MP_CHUNK_PAST_PEAKS] = "past_peaks",
    [MP_CHUNK_PAST_SITES] = "past_sites",
    [MP_CHUNK_JOB_PROCESSES] = "job_processes",
    [MP_CHUNK_JOB_TRACKS] = "job_tracks",
    [MP_CHUNK_JOB_SITES] = "job_sites",
    [MP_CHUNK_JOB_HOLDINGS] = "job_holdings",
    [MP_CHUNK_JOB_FINDINGS] = "job_findings",
    [MP_CHUNK_JOB_POINTS] = "job_points",
    [MP_CHUNK_JOB_TROUBLES] = "job_troubles",
};

/* Bytes outside the chunks that were read: the first object, the index, the end, damaged parts. */
static uint64_t other_bytes(const struct mp_model *model)
{
    uint64_t rest = model->file_bytes;
    for (size_t i = 0; i < MP_CHUNK_KINDS; i++)
        rest -= model->chunks[i].bytes;
    return rest;
}

static void get_kind(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_model *model = of;
    value->text = kinds[(const struct mp_model_chunks *)row - model->chunks];
}

MP_GETTER(get_each, struct mp_model_chunks, chunks,
          mp_buffer_printf(&value->made, "%.1f",
                           chunks->entries ? (double)chunks->bytes / (double)chunks->entries : 0.0))

#define CHUNKS(member) MP_MEMBER(struct mp_model_chunks, member)

static const struct mp_column columns[] = {
    {"holds", "kind", MP_NAME, .get = get_kind},
    {"chunks", "chunks", MP_COUNT, CHUNKS(chunks), .place = 2},
    {"entries", "entries", MP_COUNT, CHUNKS(entries), .place = 3},
    {"bytes", "bytes", MP_BYTES, CHUNKS(bytes), .place = 1},
    {"bytes each", NULL, MP_COUNT, .get = get_each, .place = 4},
    {NULL},
};

/* The kinds that the file has. */
static size_t find_kinds(const struct mp_model *model, uint32_t found[MP_CHUNK_KINDS])
{
    size_t count = 0;
    for (uint32_t i = 0; i < MP_CHUNK_KINDS; i++)
        if (model->chunks[i].chunks) found[count++] = i;
    return count;
}

void mp_sizes_json(struct mp_json *json, const struct mp_model *model)
{
    uint32_t found[MP_CHUNK_KINDS];
    size_t count = find_kinds(model, found);
    mp_json_object(json, "sizes");
    mp_rows_json(json, "chunks", &MP_ROWS(columns, model->chunks, count, .of = model, .order = found));
    mp_json_number(json, "other_bytes", other_bytes(model));
    mp_json_end_object(json);
}

void mp_sizes_text(struct mp_text *text, const struct mp_model *model)
{
    uint32_t found[MP_CHUNK_KINDS];
    size_t count = find_kinds(model, found);
    mp_rows_text(text, &MP_ROWS(columns, model->chunks, count, .of = model, .order = found));
    mp_say(text, "  start, index, end: %s", mp_bytes(other_bytes(model)));
    if (model->events.count)
        mp_say(text, "; in all %.2f bytes an event", (double)model->file_bytes / (double)model->events.count);
    mp_say(text, "\n");
}
