#include "output/page/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sites/growth.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "model/track.h"
#include "output/form/html.h"
#include "output/page/page_advice.h"
#include "output/page/page_data.h"
#include "output/page/page_file.h"
#include "output/page/page_template.h"
#include "output/report/holders.h"
#include "output/report/reports.h"

/* ---- the page's header: one JSON object inside a <script> element, read before any column is unpacked ---- */

/* The index of the track shown first; 0 if there are no tracks. */
static unsigned page_first_track(const struct mp_model *model, const struct mp_page_options *options)
{
    if (options->track >= 0 && (size_t)options->track < model->tracks.count) return (unsigned)options->track;
    uint16_t track = mp_track_default(model);
    return track == MP_TRACK_NONE ? 0 : track;
}

/* "(0, 1)": a pool's two numbers. */
static const char *pool_text(uint64_t pool, char text[32])
{
    snprintf(text, 32, "(%" PRIu32 ", %" PRIu32 ")", (uint32_t)(pool >> 32), (uint32_t)pool);
    return text;
}

static void put_pools(struct mp_json *json, const struct mp_pool_lines *pools, uint64_t time_unit_ns)
{
    char text[32];
    mp_json_array(json, "pools");
    mp_vec_each (const struct mp_pool_line, line, &pools->all) {
        mp_json_object(json, NULL);
        mp_json_text(json, "pool", pool_text(line->pool, text));
        mp_json_number(json, "most", line->most);
        MP_JSON_LIST(json, "time", k, line->points.count,
                     mp_json_number(json, NULL, line->points.at[k].time_ns / time_unit_ns));
        MP_JSON_LIST(json, "bytes", k, line->points.count, mp_json_number(json, NULL, line->points.at[k].bytes));
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_track(struct mp_json *json, const struct mp_model *model, const struct mp_page_data *data, size_t index)
{
    const struct mp_track *track = &model->tracks.at[index];
    const struct mp_model_track_sum *sum = &model->sums.at[index];
    const struct mp_page_track *counts = &data->tracks.at[index];
    const struct mp_device *device = &model->devices.at[track->device];
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "id", mp_track_id(model, (uint16_t)index, id));
    mp_json_text(json, "size_basis", mp_size_basis_name(track->size_basis));
    mp_json_known(json, "capacity_bytes", device->total_bytes);
    mp_json_number(json, "peak_bytes", counts->peak_bytes);
    mp_json_number(json, "peak_ns", counts->peak_ns);
    mp_json_number(json, "end_bytes", counts->bytes);
    mp_json_number(json, "whole_peak_bytes", counts->whole_peak_bytes);
    mp_json_number(json, "unknown_blocks", counts->unknown_blocks);
    mp_json_number(json, "left_out", counts->left_out);
    mp_json_known(json, "reserved_peak_bytes", sum->reserved_peak_bytes);
    mp_json_number(json, "events", counts->events);
    mp_json_number(json, "blocks", counts->blocks);
    mp_json_number(json, "base_blocks", counts->base_blocks);
    mp_json_number(json, "growth_events", counts->growth_events);
    mp_json_number(json, "step_events", counts->step_events);
    put_pools(json, &data->pools.at[index], data->time_unit_ns);
    mp_json_end_object(json);
}

static void put_process(struct mp_json *json, const struct mp_model *model)
{
    const struct mp_recording_start *start = &model->start;
    mp_json_array(json, "command");
    for (size_t i = 0; start->command && start->command[i]; i++)
        mp_json_text(json, NULL, start->command[i]);
    mp_json_end_array(json);
    mp_json_text(json, "host", start->host ? start->host : "");
    mp_json_number(json, "pid", start->pid);
    mp_json_number(json, "start_unix_ms", start->realtime_ns / MP_NS_PER_MS);
    mp_json_number(json, "duration_ns", model->duration_ns);
    mp_json_text(json, "exit", model->how.known ? mp_model_text(model, model->how.text) : "");
    mp_json_array(json, "threads");
    for (size_t i = 0; i < model->threads.count; i++) {
        mp_json_object(json, NULL);
        mp_json_number(json, "tid", model->threads.at[i].tid);
        mp_json_text(json, "name", mp_model_text(model, model->threads.at[i].name));
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

/* Writes the periods (mp_birth_period()) that group births if there are no steps. */
static void put_periods(struct mp_json *json, const struct mp_model *model)
{
    size_t count = model->events.count;
    uint64_t first = count ? model->events.time_ns[0] : 0, last = count ? model->events.time_ns[count - 1] : 0;
    mp_json_object(json, "births");
    mp_json_number(json, "first_ns", first);
    mp_json_number(json, "part_ns", (last - first) / MP_TIME_PARTS + 1);
    mp_json_end_object(json);
}

/* Writes the part of the recording that the page shows. */
static void put_cut(struct mp_json *json, const struct mp_page_options *options, const struct mp_page_data *data)
{
    mp_json_number(json, "from_ns", data->from_ns);
    mp_json_number(json, "to_ns", data->to_ns);
    mp_json_bool(json, "cut", options->cut && !options->cut->window.whole);
    mp_json_text(json, "filter", options->cut && options->cut->filter_text ? options->cut->filter_text : "");
}

#define HOLDERS_SHOWN 3 /* holders shown of a finding */

static void put_leaks(struct mp_json *json, const struct mp_model *model, const struct mp_page_data *data)
{
    const struct mp_leaks *leaks = &data->leaks;
    mp_json_object(json, "leaks");
    mp_json_text(json, "verdict", mp_verdict_name(leaks->verdict));
    mp_json_text(json, "reason", leaks->reason);
    mp_json_number(json, "count", leaks->leaks);
    mp_json_array(json, "findings");
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        mp_json_object(json, NULL);
        mp_json_number(json, "track", finding->track);
        mp_json_number(json, "site", data->leak_sites.at[i]);
        mp_json_text(json, "class", mp_leak_class_name(finding->class));
        mp_json_text(json, "advice", mp_leak_advice(finding->class));
        mp_json_bool(json, "leak", mp_leak_is_leak(finding));
        mp_json_bool(json, "certain", finding->confidence == MP_LEAK_CERTAIN);
        mp_json_number(json, "bytes", finding->bytes);
        mp_json_number(json, "blocks", finding->blocks);
        mp_json_number(json, "bytes_per_step", (uint64_t)(finding->bytes_per_step + 0.5));
        mp_json_number(json, "first_step", finding->first_step);
        mp_json_known(json, "steps_left", mp_leak_steps_left(finding));
        mp_json_number(json, "cause", finding->cause);
        mp_holders_site_json(json, model, &leaks->holders, finding->held, HOLDERS_SHOWN);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_end_object(json);
}

/* Writes the lanes: PyTorch's number of a stream, and its pair of numbers of a pool. */
static void put_lanes(struct mp_json *json, const struct mp_page_lanes *lanes)
{
    mp_json_array(json, "lanes");
    for (size_t i = 0; i < lanes->count; i++) {
        uint64_t stream = lanes->at[i].stream, pool = lanes->at[i].pool;
        char text[32];
        mp_json_object(json, NULL);
        snprintf(text, sizeof text, "0x%" PRIx64, stream);
        mp_json_text(json, "stream", stream ? text : "");
        mp_json_text(json, "pool", pool ? pool_text(pool, text) : "");
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_data(struct mp_json *json, const struct mp_page_data *data)
{
    mp_json_number(json, "time_unit_ns", data->time_unit_ns);
    mp_json_number(json, "address_shift", data->address_shift);
    MP_JSON_LIST(json, "kinds", i, MP_KINDS, mp_json_text(json, NULL, mp_kind_name(i)));
    mp_page_put_columns(json, &data->columns);
}

static void page_header(const struct mp_model *model, const struct mp_page_options *options,
                        const struct mp_page_data *data, struct mp_buffer *to)
{
    struct mp_json json;
    mp_json_start(&json, to);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_text(&json, "schema", "memprof.page/1");
    mp_json_text(&json, "version", PACKAGE_VERSION);
    mp_json_text(&json, "title", options->title ? options->title : "");
    mp_json_text(&json, "view", options->view ? options->view : "");
    mp_json_number(&json, "track", page_first_track(model, options));
    put_process(&json, model);
    mp_coverage_json(&json, model);
    mp_device_uses_json(&json, model);
    mp_json_array(&json, "tracks");
    for (size_t i = 0; i < model->tracks.count; i++)
        put_track(&json, model, data, i);
    mp_json_end_array(&json);
    mp_json_text(&json, "step_source", data->step_source);
    mp_json_bool(&json, "metadata", model->metadata.count > 0);
    mp_json_number(&json, "steps_before", data->steps_before);
    mp_json_number(&json, "steps_end_ns", data->steps_end_ns);
    put_cut(&json, options, data);
    put_periods(&json, model);
    put_leaks(&json, model, data);
    put_lanes(&json, &data->lanes);
    mp_page_categories_json(&json, &data->categories);
    mp_page_advice_json(&json, model, options->advise);
    put_data(&json, data);
    mp_json_end_object(&json);
}

/* "run.mp: python3 train.py, cuda:0/torch, peak 61.4 GiB": the title in a browser's tab and history. */
static void append_title(struct mp_buffer *to, const struct mp_model *model, const struct mp_page_options *options,
                         const struct mp_page_data *data)
{
    mp_html_text(to, options->title ? options->title : "memprof");
    for (size_t i = 0; model->start.command && model->start.command[i]; i++) {
        mp_buffer_append_text(to, i ? " " : ": ");
        mp_html_text(to, model->start.command[i]);
    }
    unsigned track = page_first_track(model, options);
    if (track >= model->tracks.count) return;
    char id[MP_TRACK_ID_MAX], peak[MP_UNIT_TEXT];
    mp_buffer_append_text(to, ", ");
    mp_html_text(to, mp_track_id(model, (uint16_t)track, id));
    mp_buffer_printf(to, ", peak %s", mp_format_bytes(peak, data->tracks.at[track].peak_bytes));
}

enum mp_status mp_page_write(const struct mp_model *model, const struct mp_page_options *options, FILE *out,
                             struct mp_error *error)
{
    struct mp_page_data data;
    enum mp_status status = mp_page_data_make(model, options->cut, options->rules, &data, error);
    if (status) return status;
    struct mp_buffer title = {0}, header = {0};
    status = mp_page_advice_add(model, options->advise, &data.columns, error);
    append_title(&title, model, options, &data);
    page_header(model, options, &data, &header);
    if (!status) status = mp_page_file_write(mp_page_template, &title, &header, &data.columns, out, error);
    mp_buffer_free(&title);
    mp_buffer_free(&header);
    mp_page_data_free(&data);
    return status;
}
