#include "base/units.h"
#include "output/report/reports.h"

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
    [MP_CHUNK_PEAKS] = "peaks",
    [MP_CHUNK_BOUNDARIES] = "boundaries",
    [MP_CHUNK_OPEN_REGIONS] = "open_regions",
    [MP_CHUNK_LABELS] = "labels",
    [MP_CHUNK_HOLDERS] = "holders",
    [MP_CHUNK_METADATA] = "metadata",
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

void mp_sizes_json(struct mp_json *json, const struct mp_model *model)
{
    mp_json_object(json, "sizes");
    mp_json_array(json, "chunks");
    for (size_t i = 0; i < MP_CHUNK_KINDS; i++) {
        if (!model->chunks[i].chunks) continue;
        mp_json_object(json, NULL);
        mp_json_text(json, "kind", kinds[i]);
        mp_json_number(json, "chunks", model->chunks[i].chunks);
        mp_json_number(json, "entries", model->chunks[i].entries);
        mp_json_number(json, "bytes", model->chunks[i].bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_number(json, "other_bytes", other_bytes(model));
    mp_json_end_object(json);
}

void mp_sizes_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    mp_table_start_titled(&table, "lrrrr", NULL, "holds", "bytes", "chunks", "entries", "bytes each", NULL);
    for (size_t i = 0; i < MP_CHUNK_KINDS; i++) {
        const struct mp_model_chunks *chunks = &model->chunks[i];
        if (!chunks->chunks) continue;
        mp_table_cell(&table, MP_PLAIN, "%s", kinds[i]);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, chunks->bytes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, chunks->chunks));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, chunks->entries));
        mp_table_cell(&table, MP_PLAIN, "%.1f",
                      chunks->entries ? (double)chunks->bytes / (double)chunks->entries : 0.0);
        mp_table_end_row(&table);
    }
    mp_table_cell(&table, MP_PLAIN, "start, index, end");
    mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, other_bytes(model)));
    mp_table_end_row(&table);
    mp_table_finish(&table, text);
    if (!model->events.count) return;
    mp_text_put(text, MP_PLAIN, "  in all %.2f bytes an event\n",
                (double)model->file_bytes / (double)model->events.count);
}
