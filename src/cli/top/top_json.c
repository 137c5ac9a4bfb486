#include "cli/top/top_json.h"

#include <math.h>

#include "base/words.h"
#include "output/report/categories.h"
#include "output/report/reports.h"

static const char *const states[] = {
    [MP_TOP_RUNS] = "running", [MP_TOP_SILENT] = "silent", [MP_TOP_ENDED] = "ended", [MP_TOP_ORPHAN] = "orphan"};

static void put_rate(struct mp_json *json, const char *key, bool known, double rate)
{
    if (known)
        mp_json_real(json, key, rate);
    else
        mp_json_null(json, key);
}

static void put_tracks(struct mp_json *json, const struct mp_top_process *process)
{
    mp_json_array(json, "tracks");
    for (size_t i = 0; i < process->tracks.count; i++) {
        const struct mp_top_track *track = &process->tracks.at[i];
        mp_json_object(json, NULL);
        mp_json_text(json, "id", track->id);
        mp_json_number(json, "bytes", track->bytes);
        mp_json_number(json, "blocks", track->blocks);
        mp_json_number(json, "peak_bytes", track->peak);
        mp_json_known(json, "reserved_bytes", track->reserved);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_devices(struct mp_json *json, const struct mp_top_process *process)
{
    mp_json_array(json, "devices");
    for (size_t i = 0; i < process->devices.count; i++) {
        const struct mp_top_device *device = &process->devices.at[i];
        const struct mp_top_growth *growth = mp_top_growth_of(process, device->label);
        mp_json_object(json, NULL);
        mp_json_text(json, "device", device->label);
        mp_json_text(json, "uuid", device->uuid);
        mp_json_text(json, "name", device->name);
        mp_json_number(json, "allocated_bytes", device->allocated);
        mp_json_known(json, "reserved_bytes", device->reserved);
        mp_json_known(json, "process_bytes", device->process);
        mp_json_known(json, "used_bytes", device->used);
        mp_json_known(json, "total_bytes", device->total);
        put_rate(json, "bytes_per_step", growth && growth->known, growth ? growth->bytes_per_step : 0);
        if (growth)
            mp_json_bool(json, "leak", growth->leak);
        else
            mp_json_null(json, "leak");
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_process(struct mp_json *json, const struct mp_top_process *process)
{
    mp_json_object(json, NULL);
    mp_json_number(json, "pid", (uint64_t)process->pid);
    mp_json_number(json, "memprof_pid", (uint64_t)process->memprof);
    mp_json_text(json, "state", states[process->state]);
    mp_json_text(json, "name", process->title);
    mp_json_text(json, "command", *process->command ? process->command : NULL);
    mp_json_text(json, "rank", process->rank);
    mp_json_text(json, "role", process->role);
    mp_json_bool(json, "paused", process->paused);
    mp_json_known(json, "steps", process->steps);
    put_rate(json, "steps_per_second", process->rate >= 0, process->rate);
    mp_json_number(json, "events", process->events);
    mp_json_number(json, "dropped", process->dropped);
    mp_json_known(json, "sample_bytes", process->sample_bytes ? process->sample_bytes : MP_BYTES_UNKNOWN);
    mp_json_known(json, "resident_bytes", process->resident);
    put_devices(json, process);
    put_tracks(json, process);
    mp_json_end_object(json);
}

static void put_site(struct mp_json *json, const struct mp_top_blocks *blocks, const struct mp_top_site *row)
{
    const struct mp_site *site = &blocks->leaks.outstanding.at[row->at];
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "track", mp_track_id(blocks->model, site->track, id));
    mp_json_known(json, "bytes", mp_site_bytes(site));
    mp_json_number(json, "blocks", site->blocks);
    mp_json_share(json, "share", site->bytes, blocks->leaks.outstanding.bytes);
    put_rate(json, "bytes_per_step", blocks->growth_known || row->leak, row->growth);
    mp_json_bool(json, "leak", row->leak);
    mp_stack_json(json, blocks->model, site->stack);
    mp_json_end_object(json);
}

void mp_top_json(struct mp_json *json, const struct mp_top_view *view, const struct mp_top_state *state, size_t limit)
{
    const struct mp_top_blocks *blocks = view->blocks;
    const struct mp_top_process *chosen = mp_top_chosen(view, state);
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.top/1");
    mp_json_number(json, "time_unix_ns", (uint64_t)view->now * 1000000000u);
    mp_json_array(json, "processes");
    for (size_t i = 0; i < state->processes.count; i++)
        put_process(json, &state->processes.at[i]);
    mp_json_end_array(json);
    mp_json_known(json, "sites_of", chosen ? (uint64_t)chosen->pid : MP_BYTES_UNKNOWN);
    mp_json_array(json, "sites");
    for (size_t i = 0; blocks && i < view->rows.count && (!limit || i < limit); i++)
        put_site(json, blocks, &blocks->sites[view->rows.at[i]]);
    mp_json_end_array(json);
    mp_json_text(json, "verdict", blocks ? mp_verdict_name(blocks->leaks.verdict) : NULL);
    if (blocks && mp_categories_any(&blocks->categories))
        mp_categories_json(json, &blocks->categories);
    else
        mp_json_null(json, "categories");
    if (blocks)
        mp_coverage_json(json, blocks->model);
    else
        mp_json_null(json, "coverage");
    mp_json_end_object(json);
    mp_buffer_append_text(json->out, "\n");
}
