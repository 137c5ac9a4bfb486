#include "collect/session/overview.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"

#define RATE_NS (10 * MP_NS_PER_SECOND) /* steps per second are an average over this time */

static void put_command(struct mp_json *json, const struct mp_spool_header *spool)
{
    const char *at = spool->command, *end = at + sizeof spool->command;
    mp_json_array(json, "command");
    while (at < end && *at) {
        size_t length = strnlen(at, (size_t)(end - at));
        mp_json_bytes_of_text(json, NULL, at, length);
        at += length + 1;
    }
    mp_json_end_array(json);
}

/* Steps per second over the last units of steps; negative: not known. The rate falls when a program stops doing
 * steps. */
static double steps_per_second(const struct mp_recording *recording)
{
    const struct mp_lives *lives = &recording->lives;
    size_t count = lives->begun_ns.count;
    if (count < 2) return -1;
    uint64_t now = mp_recording_time(recording, mp_clock_monotonic_ns()), last = lives->begun_ns.at[count - 1];
    size_t from = count - 2;
    while (from && now - lives->begun_ns.at[from - 1] <= RATE_NS)
        from--;
    uint64_t span = last - lives->begun_ns.at[from], each = span / (count - 1 - from);
    if (now > last + 2 * each) span = now - lives->begun_ns.at[from];
    return span ? (double)((uint64_t)(count - 1 - from) << lives->shift) * MP_NS_PER_SECOND / (double)span : -1;
}

static void put_steps(struct mp_json *json, const struct mp_recording *recording)
{
    double rate = steps_per_second(recording);
    bool any = recording->lives.source != MP_LIVES_NONE;
    mp_json_known(json, "steps", any ? recording->lives.steps : MP_BYTES_UNKNOWN);
    if (any && rate >= 0)
        mp_json_real(json, "steps_per_second", rate);
    else
        mp_json_null(json, "steps_per_second");
}

static void put_tracks(struct mp_json *json, const struct mp_recording *recording)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_track *wires = mp_spool_entries(spool, MP_TABLE_TRACKS);
    const struct mp_ledger *ledger = &recording->state.ledger;
    mp_json_array(json, "tracks");
    for (size_t i = 0; i < ledger->tracks.count && i < recording->tables.seen[MP_TABLE_TRACKS]; i++) {
        const struct mp_ledger_track *track = &ledger->tracks.at[i];
        char id[MP_ID_TEXT];
        size_t length;
        uint32_t name = mp_tables_spool_string(&recording->tables, wires[i].name);
        const char *pool = mp_intern_get(&recording->tables.strings, name, &length);
        mp_tables_track_id(&recording->tables, spool, i, id);
        mp_json_object(json, NULL);
        mp_json_text(json, "id", id);
        mp_json_number(json, "device_type", wires[i].device_type);
        mp_json_signed(json, "device_index", wires[i].device_index);
        mp_json_number(json, "layer", wires[i].layer);
        mp_json_bool(json, "memory", mp_track_holds_memory(wires[i].layer, pool));
        mp_json_number(json, "bytes", track->bytes);
        mp_json_number(json, "blocks", track->blocks);
        mp_json_number(json, "peak_bytes", track->peak_bytes);
        mp_json_known(json, "reserved_bytes", track->reserved_bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_devices(struct mp_json *json, const struct mp_recording *recording)
{
    const struct mp_gpus *gpus = mp_device_watch_gpus(recording->devices.watch);
    mp_json_array(json, "devices");
    for (unsigned i = 0; gpus && i < MP_DEVICES_SEEN; i++) {
        const struct mp_device_seen *device = &recording->devices.devices[i];
        if (!device->begun || device->gpu < 0) continue;
        mp_json_object(json, NULL);
        mp_json_number(json, "index", i);
        mp_json_known(json, "total_bytes", gpus->at[device->gpu].total_bytes);
        mp_json_known(json, "used_bytes", device->used_bytes);
        mp_json_known(json, "process_bytes", device->process_bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void put_member(struct mp_json *json, const struct mp_spool_header *spool)
{
    struct mp_member member = mp_member_copy(&spool->member);
    mp_json_known(json, "rank", mp_member_number(&member, MP_MEMBER_RANK));
    mp_json_text(json, "role", *member.role ? member.role : NULL);
    mp_json_bool(json, "helper", mp_member_is_helper(&member));
}

static void put_process(struct mp_json *json, const struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    mp_json_object(json, NULL);
    mp_json_number(json, "pid", recording->pid);
    mp_json_number(json, "recording", recording->id);
    put_command(json, spool);
    put_member(json, spool);
    mp_json_bool(json, "paused", !recording->window.is_open);
    mp_json_text(json, "failed", recording->file.failed ? recording->file.failure.text : NULL);
    put_steps(json, recording);
    mp_json_known(json, "resident_bytes",
                  recording->pages.resident_bytes ? recording->pages.resident_bytes : MP_BYTES_UNKNOWN);
    put_tracks(json, recording);
    put_devices(json, recording);
    mp_json_end_object(json);
}

void mp_overview_write(struct mp_buffer *out, const struct mp_collector *collector)
{
    struct mp_json json;
    mp_json_start(&json, out);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_number(&json, "memprof", (uint64_t)getpid());
    mp_json_number(&json, "command_pid", (uint64_t)collector->command);
    mp_json_array(&json, "processes");
    for (size_t i = 0; i < collector->processes.count; i++)
        put_process(&json, collector->processes.at[i].recording);
    mp_json_end_array(&json);
    mp_json_end_object(&json);
}
