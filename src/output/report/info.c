#include "output/report/info.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/device/samples.h"
#include "base/clock.h"
#include "base/memory.h"
#include "model/steps_infer.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/device_use.h"
#include "output/report/peak.h"
#include "output/report/plan.h"
#include "output/report/view.h"

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
    uint64_t rest = model->file.bytes;
    for (size_t i = 0; i < MP_CHUNK_KINDS; i++)
        rest -= model->file.chunks[i].bytes;
    return rest;
}

static void get_kind(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_model *model = of;
    value->text = kinds[(const struct mp_model_chunks *)row - model->file.chunks];
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
        if (model->file.chunks[i].chunks) found[count++] = i;
    return count;
}

/* Bytes of the file by kind of chunk: under the key "sizes", as a table. For recordings only. */
static void sizes_json(struct mp_json *json, const struct mp_model *model)
{
    uint32_t found[MP_CHUNK_KINDS];
    size_t count = find_kinds(model, found);
    mp_json_object(json, "sizes");
    mp_rows_json(json, "chunks", &MP_ROWS(columns, model->file.chunks, count, .of = model, .order = found));
    mp_json_number(json, "other_bytes", other_bytes(model));
    mp_json_end_object(json);
}

static void sizes_text(struct mp_text *text, const struct mp_model *model)
{
    uint32_t found[MP_CHUNK_KINDS];
    size_t count = find_kinds(model, found);
    mp_rows_text(text, &MP_ROWS(columns, model->file.chunks, count, .of = model, .order = found));
    mp_say(text, "  start, index, end: %s", mp_bytes(other_bytes(model)));
    if (model->events.count)
        mp_say(text, "; in all %.2f bytes an event", (double)model->file.bytes / (double)model->events.count);
    mp_say(text, "\n");
}

/* Counts stacks of blocks, not the nodes that only lead to them. Node 0 is the empty stack. */
static uint64_t count_stacks(const struct mp_model *model)
{
    unsigned char *used = mp_alloc_zeroed(model->stacks.count + 1, 1);
    uint64_t count = 0;
    for (size_t i = 0; i < model->blocks.count; i++) {
        count += model->blocks.stack[i] && !used[model->blocks.stack[i]];
        used[model->blocks.stack[i]] = 1;
    }
    free(used);
    return count;
}

/* How the process ended, in words; NULL: not known. */
static const char *how_it_ended(const struct mp_model *model)
{
    const char *text = mp_model_text(model, model->how.text);
    return *text ? text : NULL;
}

static void command_text(struct mp_buffer *out, const struct mp_model *model)
{
    struct mp_buffer command = {0};
    mp_model_command(model, &command);
    mp_text_clean(out, mp_buffer_text(&command));
    mp_buffer_free(&command);
}

/* An imported file does not name its process. */
static uint64_t known_or_none(uint64_t number)
{
    return number ? number : MP_BYTES_UNKNOWN;
}

static void member_json(struct mp_json *json, const struct mp_member *member)
{
    for (enum mp_member_number i = 0; i < MP_MEMBER_NUMBERS; i++)
        mp_json_known(json, mp_member_number_name(i), mp_member_number(member, i));
    mp_json_text(json, "role", *member->role ? member->role : NULL);
    mp_json_text(json, "job", *member->job ? member->job : NULL);
}

/* "rank 3 of 8 (local rank 1, node 1), trainer, job 4711"; empty if nothing is known. */
static void member_text(struct mp_buffer *out, const struct mp_member *member)
{
    static const struct {
        enum mp_member_number which;
        const char *name;
    } inner[] = {{MP_MEMBER_LOCAL_RANK, "local rank"}, {MP_MEMBER_NODE, "node"}};
    if (*member->role) mp_text_clean(out, member->role);
    if (mp_member_knows(member, MP_MEMBER_RANK)) {
        const char *before = !*member->role ? "" : mp_member_is_helper(member) ? " of " : ", ";
        mp_buffer_printf(out, "%srank %u", before, member->number[MP_MEMBER_RANK]);
        if (mp_member_knows(member, MP_MEMBER_WORLD_SIZE))
            mp_buffer_printf(out, " of %u", member->number[MP_MEMBER_WORLD_SIZE]);
        const char *between = " (";
        for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
            if (mp_member_knows(member, inner[i].which)) {
                mp_buffer_printf(out, "%s%s %u", between, inner[i].name, member->number[inner[i].which]);
                between = ", ";
            }
        if (*between == ',') mp_buffer_append_text(out, ")");
    }
    if (*member->job) {
        mp_buffer_append_text(out, out->size ? ", job " : "job ");
        mp_text_clean(out, member->job);
    }
    if (mp_member_knows(member, MP_MEMBER_PARENT))
        mp_buffer_printf(out, "%sstarted by process %u", out->size ? ", " : "", member->number[MP_MEMBER_PARENT]);
}

static void process_json(struct mp_json *json, const struct mp_model *model)
{
    struct mp_buffer command = {0};
    command_text(&command, model);
    mp_json_object(json, "process");
    mp_json_known(json, "pid", known_or_none(model->start.pid));
    if (command.size)
        mp_json_bytes_of_text(json, "command", (const char *)command.data, command.size);
    else
        mp_json_null(json, "command");
    mp_json_text(json, "host", *model->start.host ? model->start.host : NULL);
    mp_json_known(json, "start_unix_ns", known_or_none(model->start.realtime_ns));
    mp_json_number(json, "duration_ns", model->duration_ns);
    mp_json_text(json, "exit", how_it_ended(model));
    member_json(json, &model->start.member);
    mp_json_end_object(json);
    mp_buffer_free(&command);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

#define DEVICE(member)  MP_MEMBER(struct mp_device, member)
#define SUM(member)     MP_MEMBER(struct mp_model_track_sum, member)
#define SAMPLED(member) MP_MEMBER(struct mp_sampled, member)

const struct mp_column mp_device_columns[] = {
    {"device", "id", MP_STRING, DEVICE(name)},
    {"uuid", "uuid", MP_STRING_OR_NONE, DEVICE(uuid), .place = 3},
    {"model", "name", MP_STRING_OR_NONE, DEVICE(model), .place = 2},
    {"memory", "total_bytes", MP_BYTES, DEVICE(total_bytes), .place = 1},
    {NULL},
};

static uint16_t track_of(const struct mp_model *model, const void *row)
{
    return (uint16_t)((const struct mp_model_track_sum *)row - model->sums.at);
}

static void get_id(struct mp_value *value, const void *of, const void *row)
{
    char id[MP_TRACK_ID_MAX];
    mp_buffer_append_text(&value->made, mp_track_id(of, track_of(of, row), id));
}

static void get_basis(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_model *model = of;
    value->text = mp_size_basis_name(model->tracks.at[track_of(model, row)].size_basis);
}

MP_GETTER(get_base, struct mp_model_track_sum, sum,
          value->number = sum->unknown_blocks ? MP_BYTES_UNKNOWN : sum->base_bytes)
/* The requested bytes of the blocks live at the peak. */
static void get_requested(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_model_track_sum *sum = row;
    struct mp_rounding rounding = {0};
    uint32_t moment = sum->peak_event == MP_NONE ? 0 : sum->peak_event + 1;
    if (!sum->peak_in_past) mp_rounding_at(of, track_of(of, row), moment, &rounding);
    value->number = mp_rounding_requested(&rounding);
}

const struct mp_column mp_track_columns[] = {
    {"track", "id", MP_NAME, .get = get_id},
    {"sizes", "size_basis", MP_NAME, .get = get_basis, .place = 6},
    {NULL, "events", MP_COUNT, SUM(events)},
    {"allocs", "allocs", MP_COUNT, SUM(allocs), .place = 5},
    {"frees", "frees", MP_COUNT, SUM(frees), .place = 5},
    {NULL, "ooms", MP_COUNT, SUM(ooms)},
    {"base", "base_bytes", MP_BYTES, .get = get_base, .place = 2},
    {"peak", "peak_bytes", MP_BYTES, SUM(peak_bytes), .style = MP_BOLD},
    {NULL, "requested_peak_bytes", MP_BYTES, .get = get_requested},
    {"at", "peak_ns", MP_DURATION, SUM(peak_ns), .place = 1},
    {"end", "end_bytes", MP_BYTES, SUM(end_bytes), .place = 3},
    {"reserved", "reserved_peak_bytes", MP_BYTES, SUM(reserved_peak_bytes), .place = 4},
    {NULL},
};

const struct mp_column mp_sample_columns[] = {
    {"sampled", "counter", MP_STRING, SAMPLED(counter)},
    {"highest", "peak_bytes", MP_BYTES, SAMPLED(peak_bytes), .style = MP_BOLD},
    {"at", "peak_ns", MP_DURATION, SAMPLED(peak_ns)},
    {"end", "end_bytes", MP_BYTES, SAMPLED(end_bytes)},
    {NULL},
};

void mp_info_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_view *view)
{
    struct mp_sampled_list samples = {0};
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.info/1");
    mp_json_object(json, "file");
    mp_json_text(json, "path", view->path);
    mp_json_number(json, "bytes", model->file.bytes);
    mp_json_text(json, "format", model->file.format);
    mp_json_end_object(json);
    process_json(json, model);
    mp_samples_sum(model, &samples);
    mp_rows_json(json, "devices", &MP_ROWS(mp_device_columns, model->devices.at, model->devices.count, .model = model));
    mp_rows_json(json, "tracks", &MP_ROWS(mp_track_columns, model->sums.at, model->sums.count, .of = model));
    mp_rows_json(json, "samples", &MP_ROWS(mp_sample_columns, samples.at, samples.count, .model = model));
    mp_samples_free(&samples);
    mp_device_uses_json(json, model);
    struct mp_steps steps = {0};
    mp_steps_find(model, &steps);
    mp_json_number(json, "stacks", count_stacks(model));
    mp_json_object(json, "steps");
    mp_json_number(json, "count", steps.count);
    mp_json_text(json, "source", mp_steps_source(&steps));
    mp_json_end_object(json);
    mp_plan_json(json, model);
    if (view->sizes && !strcmp(model->file.format, "mp")) sizes_json(json, model);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
    mp_steps_free(&steps);
}

static void process_text(struct mp_buffer *out, const struct mp_model *model)
{
    char when[32] = "?";
    time_t seconds = (time_t)(model->start.realtime_ns / MP_NS_PER_SECOND);
    struct tm moment;
    if (seconds && gmtime_r(&seconds, &moment)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &moment);
    const char *lasted = mp_time(model->duration_ns), *host = model->start.host, *end = how_it_ended(model);
    if (model->start.pid)
        mp_buffer_printf(out, "%u%s%s, started %s, ran %s, %s", model->start.pid, *host ? " on " : "", host, when,
                         lasted, end ? end : "end not seen");
    else if (model->start.realtime_ns)
        mp_buffer_printf(out, "%s from %s", lasted, when);
    else
        mp_buffer_append_text(out, "one moment: the file has no times");
}

static void recorded_text(struct mp_buffer *out, const struct mp_model *model)
{
    struct mp_steps steps = {0};
    uint64_t count = model->events.count, past = model->past.events;
    mp_steps_find(model, &steps);
    bool inferred = steps.count && !strcmp(mp_steps_source(&steps), "inferred");
    mp_buffer_printf(out, "%s%s ", past ? "the newest " : "", mp_count(count));
    if (past) mp_buffer_printf(out, "of %s ", mp_count(past + count));
    mp_buffer_printf(out, "events, %s stacks, %s steps%s", mp_count(count_stacks(model)), mp_count(steps.count),
                     inferred ? " (inferred)" : "");
    for (uint32_t i = 0; i < model->coverage.source_count; i++)
        mp_buffer_printf(out, "%s%s", i ? ", " : "; from ", mp_model_text(model, model->coverage.sources[i]));
    mp_steps_free(&steps);
}

static void put_fact(struct mp_text *text, const char *name, struct mp_buffer *fact)
{
    if (fact->size)
        mp_say(text, "  ^%s^%s%.*s\n", name, "          " + strlen(name), (int)fact->size, (char *)fact->data);
    mp_buffer_clear(fact);
}

static void put_process(struct mp_text *text, const struct mp_model *model)
{
    struct mp_buffer fact = {0};
    command_text(&fact, model);
    put_fact(text, "command", &fact);
    process_text(&fact, model);
    put_fact(text, model->start.pid ? "process" : "covers", &fact);
    member_text(&fact, &model->start.member);
    put_fact(text, "member", &fact);
    recorded_text(&fact, model);
    put_fact(text, "recorded", &fact);
    mp_buffer_free(&fact);
}

void mp_info_text(struct mp_text *text, const struct mp_model *model, const struct mp_view *view)
{
    struct mp_sampled_list samples = {0};
    mp_say(text, "`%s`   %s, format %s\n", view->path, mp_bytes(model->file.bytes), model->file.format);
    put_process(text, model);
    mp_samples_sum(model, &samples);
    const struct mp_rows devices =
        MP_ROWS(mp_device_columns, model->devices.at, model->devices.count, .model = model, .heading = "");
    const struct mp_rows tracks =
        MP_ROWS(mp_track_columns, model->sums.at, model->sums.count, .of = model, .heading = "");
    const struct mp_rows sampled = MP_ROWS(mp_sample_columns, samples.at, samples.count, .model = model, .heading = "");
    const struct mp_rows *const tables[] = {&tracks, &devices, &sampled};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        mp_rows_text(text, tables[i]);
    mp_samples_free(&samples);
    mp_device_uses_text(text, model);
    mp_plan_text(text, model);
    if (view->sizes && !strcmp(model->file.format, "mp")) {
        mp_say(text, "\n");
        sizes_text(text, model);
    }
    mp_coverage_end(text, model);
}
