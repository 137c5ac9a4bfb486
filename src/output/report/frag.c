#include <stdio.h>

#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/frag.h"
#include "output/report/site_rows.h"
#include "output/report/view.h"

static const char *moment_name(enum mp_frag_moment moment)
{
    static const char *const names[] = {"end", "oom", "peak"};
    return names[moment];
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void get_pool(struct mp_value *value, const void *of, const void *row)
{
    uint64_t pool = ((const struct mp_frag_segment *)row)->pool;
    if (pool != MP_BYTES_UNKNOWN) mp_buffer_printf(&value->made, "%u,%u", (unsigned)(pool >> 32), (unsigned)pool);
}

/* A stream is a name: a small number, or the address of a handle. */
static void put_stream(struct mp_value *value, uint64_t stream)
{
    if (stream != MP_BYTES_UNKNOWN)
        mp_buffer_printf(&value->made, stream < 4096 ? "%llu" : "%#llx", (unsigned long long)stream);
}

MP_GETTER(get_segment_stream, struct mp_frag_segment, segment, put_stream(value, segment->stream))
MP_GETTER(get_stream, struct mp_frag_stream, stream, put_stream(value, stream->stream))

#define SEGMENT(member) MP_MEMBER(struct mp_frag_segment, member)

const struct mp_column mp_segment_columns[] = {
    {"address", "address", MP_ADDRESS, SEGMENT(address)},
    {"bytes", "bytes", MP_BYTES, SEGMENT(bytes)},
    {"allocated", "allocated_bytes", MP_BYTES, SEGMENT(allocated)},
    {"largest free", "largest_free_bytes", MP_BYTES, SEGMENT(largest_free)},
    {NULL, "stream", MP_COUNT, SEGMENT(stream)},
    {"stream", NULL, MP_NAME, .get = get_segment_stream},
    {"pool", "pool", MP_NAME, .get = get_pool},
    {"expandable", "expandable", MP_FLAG, SEGMENT(expandable)},
    {NULL},
};

static uint64_t pin_free(const struct mp_frag_pin *pin)
{
    return pin->segment_bytes - pin->held_bytes;
}

static void get_free(struct mp_value *value, const void *of, const void *row)
{
    value->number = pin_free(row);
}

static void get_blocks(struct mp_value *value, const void *of, const void *row)
{
    value->number = ((const struct mp_frag_pin *)row)->sites.blocks;
    if (!value->number) value->text = "pending";
}

static void get_pin_site(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_frag_pin *pin = row;
    if (pin->sites.count)
        value->site = pin->sites.at[0];
    else
        value->text = "";
}

static void put_pin_sites(struct mp_json *json, const char *key, const void *of, const void *row)
{
    mp_sites_json(json, key, of, &((const struct mp_frag_pin *)row)->sites, &(const struct mp_site_view){0});
}

#define PIN(member) MP_MEMBER(struct mp_frag_pin, member)

const struct mp_column mp_pin_columns[] = {
    {NULL, "address", MP_ADDRESS, PIN(address)},
    {"free", NULL, MP_BYTES, .get = get_free, .style = MP_BOLD},
    {"segment", "segment_bytes", MP_BYTES, PIN(segment_bytes)},
    {"held", "held_bytes", MP_BYTES, PIN(held_bytes)},
    {"blocks", NULL, MP_COUNT, .get = get_blocks},
    {"site", NULL, MP_SITE, .get = get_pin_site},
    {NULL, "sites", .put = put_pin_sites},
    {NULL},
};

static void get_stream_pool(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_frag_stream *stream = row;
    get_pool(value, of, &(const struct mp_frag_segment){.pool = stream->pool});
}

#define STREAM(member) MP_MEMBER(struct mp_frag_stream, member)

const struct mp_column mp_stream_columns[] = {
    {"free", "free_bytes", MP_BYTES, STREAM(free_bytes), .style = MP_BOLD},
    {"reserved", "reserved_bytes", MP_BYTES, STREAM(reserved)},
    {"segments", "segments", MP_COUNT, STREAM(segments)},
    {NULL, "stream", MP_COUNT, STREAM(stream)},
    {"stream", NULL, MP_NAME, .get = get_stream},
    {"pool", "pool", MP_NAME, .get = get_stream_pool},
    {"site", "stack", MP_SITE, STREAM(stack)},
    {NULL},
};

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_would_fit(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_frag_oom *oom = row;
    if (!oom->tried) {
        mp_json_null(json, key);
        return;
    }
    MP_JSON_LIST(json, key, i, oom->would_fit.count, mp_json_text(json, NULL, oom->would_fit.at[i]));
}

#define OOM(member) MP_MEMBER(struct mp_frag_oom, member)

static const struct mp_column oom_members[] = {
    {NULL, "at_ns", MP_DURATION, OOM(ns)},
    {NULL, "requested_bytes", MP_BYTES, OOM(requested)},
    {NULL, "device_free_bytes", MP_BYTES, OOM(device_free)},
    {NULL, "cause", MP_WORD, OOM(cause), .word = mp_oom_cause_name},
    {NULL, "times", MP_COUNT, OOM(times)},
    {NULL, "first_ns", MP_DURATION, OOM(first_ns)},
    {NULL, "most_requested_bytes", MP_BYTES, OOM(most_requested)},
    {NULL, "would_fit", .put = put_would_fit},
    {NULL, "further_bytes", MP_BYTES, OOM(further)},
    {NULL, "stack", MP_SITE, OOM(stack)},
    {NULL},
};

#define ASKED(member)  MP_MEMBER(struct mp_torch_asked, member)
#define REPLAY(member) MP_MEMBER(struct mp_frag_replay, member)

static const struct mp_column asked_members[] = {
    {NULL, "allocations", MP_COUNT, ASKED(all)},
    {NULL, "told", MP_COUNT, ASKED(known)},
    {NULL, "as_site", MP_COUNT, ASKED(as_site)},
    {NULL},
};

static void put_asked_json(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_torch_asked *asked = &((const struct mp_frag_replay *)row)->asked;
    mp_object_json(json, key, &MP_ROWS(asked_members, asked, asked->all > 0));
}

MP_GETTER(get_differences, struct mp_frag_replay, replay,
          value->number = replay->recorded ? replay->result.differences : MP_BYTES_UNKNOWN)
MP_GETTER(get_first, struct mp_frag_replay, replay,
          value->text = replay->result.differences ? replay->result.first : NULL)

enum { AS_RECORDED = 1, OTHERWISE = 2 }; /* bits of members */

static const struct mp_column replay_members[] = {
    {NULL, "settings", MP_NAME, REPLAY(settings)},
    {NULL, "reserved_peak_bytes", MP_BYTES, REPLAY(result.reserved_peak)},
    {NULL, "allocated_peak_bytes", MP_BYTES, REPLAY(result.allocated_peak)},
    {NULL, "oom", MP_FLAG, REPLAY(result.ooms)},
    {NULL, "differences", MP_COUNT, .get = get_differences},
    {NULL, "differences_at_end", MP_COUNT, REPLAY(result.differences_at_end), .only = AS_RECORDED},
    {NULL, "unfreed_blocks", MP_COUNT, REPLAY(result.unfreed), .only = AS_RECORDED},
    {NULL, "first_difference", MP_NAME, .get = get_first, .only = AS_RECORDED},
    {NULL, "allocations", MP_COUNT, REPLAY(result.allocs), .only = AS_RECORDED},
    {NULL, "segment_events", MP_COUNT, REPLAY(result.segment_events), .only = AS_RECORDED},
    {NULL, "end_segments", MP_COUNT, REPLAY(result.segments), .only = AS_RECORDED},
    {NULL, "end_blocks", MP_COUNT, REPLAY(result.parts), .only = AS_RECORDED},
    {NULL, "capacity_bytes", MP_BYTES, REPLAY(capacity), .only = OTHERWISE},
    {NULL, "asked", .put = put_asked_json, .only = OTHERWISE},
    {NULL},
};

static void held_json(struct mp_json *json, const struct mp_model *model, const struct mp_frag *frag)
{
    static const char *const absent[] = {
        "reserved_bytes", "pending_bytes", "free_bytes", "whole_free_bytes", "largest_free_bytes",
        "unusable_ratio", "segments",      "pins",       "streams"};
    mp_json_number(json, "allocated_bytes", frag->allocated);
    for (size_t i = 0; !frag->known && i < sizeof absent / sizeof *absent; i++)
        mp_json_null(json, absent[i]);
    if (!frag->known) return;
    mp_json_number(json, "reserved_bytes", frag->reserved);
    mp_json_number(json, "pending_bytes", frag->pending);
    mp_json_number(json, "free_bytes", frag->free_bytes);
    mp_json_number(json, "whole_free_bytes", frag->whole_free);
    mp_json_number(json, "largest_free_bytes", frag->largest_free);
    mp_json_share(json, "unusable_ratio", frag->unusable, frag->free_bytes);
    mp_rows_json(json, "segments", &MP_ROWS(mp_segment_columns, frag->segments.at, frag->segments.count));
    mp_rows_json(json, "pins", &MP_ROWS(mp_pin_columns, frag->pins.at, frag->pins.count, .of = model));
    mp_rows_json(json, "streams", &MP_ROWS(mp_stream_columns, frag->streams.at, frag->streams.count, .model = model));
    if (frag->streams_peak) mp_json_number(json, "streams_reserved_peak_bytes", frag->streams_peak);
    if (frag->streams_peak) mp_json_number(json, "one_stream_reserved_peak_bytes", frag->one_stream_peak);
}

void mp_frag_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_frag *frag)
{
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.frag/1");
    mp_json_text(json, "track", mp_track_id(model, frag->track, id));
    mp_json_text(json, "moment", moment_name(frag->moment));
    mp_json_number(json, "at_ns", frag->ns);
    mp_json_bool(json, "exact", frag->known && frag->layout.source != MP_LAYOUT_PLACED);
    held_json(json, model, frag);
    mp_object_json(json, "oom", &MP_ROWS(oom_members, &frag->oom, frag->oom.event != MP_NONE, .model = model));
    mp_object_json(json, "replay",
                   &MP_ROWS(replay_members, &frag->replay, frag->replay.settings != NULL,
                            .never = frag->replay.recorded ? OTHERWISE : AS_RECORDED));
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

const char *mp_frag_when(const struct mp_frag *frag)
{
    static const char *const when[] = {"at the end", "when memory ran out", "when most was reserved"};
    return when[frag->moment];
}

/* True if a saving is large enough to advise a change. */
static bool is_worth(uint64_t saved, uint64_t of)
{
    return saved >= (uint64_t)64 << 20 && saved >= of / 50;
}

bool mp_frag_advice(const struct mp_frag *frag, struct mp_advice *advice)
{
    const struct mp_frag_replay *replay = &frag->replay;
    *advice = (struct mp_advice){.saved = MP_BYTES_UNKNOWN};
    if (frag->oom.would_fit.count) {
        snprintf(advice->text, sizeof advice->text,
                 "%s would have fitted the request that found no memory (replayed)%s%s%s", frag->oom.would_fit.at[0],
                 frag->oom.further == MP_BYTES_UNKNOWN ? "" : ", and leaves at most ",
                 frag->oom.further == MP_BYTES_UNKNOWN ? "" : mp_bytes(frag->oom.further),
                 frag->oom.scarce ? ", too little for another such request" : "");
        snprintf(advice->evidence, sizeof advice->evidence, "replay of all requests up to that one");
        return true;
    }
    const struct mp_torch_replay *result = &replay->result;
    if (!replay->settings || replay->recorded || result->ooms || result->reserved_peak > replay->compare_reserved ||
        !is_worth(replay->compare_reserved - result->reserved_peak, replay->compare_reserved))
        return false;
    advice->saved = replay->compare_reserved - result->reserved_peak;
    snprintf(advice->text, sizeof advice->text, "%s would have reserved %s instead of %s (replayed)", replay->settings,
             mp_bytes(result->reserved_peak), mp_bytes(replay->compare_reserved));
    int length =
        snprintf(advice->evidence, sizeof advice->evidence, "replay of %s allocations", mp_count(result->allocs));
    if (replay->base_bytes)
        snprintf(advice->evidence + length, sizeof advice->evidence - (size_t)length,
                 "; the %s from before them were placed anew", mp_bytes(replay->base_bytes));
    return true;
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static void put_held(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag)
{
    char id[MP_TRACK_ID_MAX];
    mp_track_id(model, frag->track, id);
    if (!frag->known) {
        mp_say(text, "`%s` allocated on %s %s; the recording does not say what the allocator held\n",
               mp_bytes(frag->allocated), id, mp_frag_when(frag));
        return;
    }
    mp_say(text, "`%s` reserved on %s %s, %s of it in use", mp_bytes(frag->reserved), id, mp_frag_when(frag),
           mp_bytes(frag->allocated));
    if (frag->reserved) mp_say(text, " (%.1f %%)", 100.0 * (double)frag->allocated / (double)frag->reserved);
    mp_say(text, ", in %s\n", mp_counted(frag->segments.count, "segment"));
    if (frag->pending)
        mp_say(text, "%s were freed and are pending: a stream that was recorded on them still uses them\n",
               mp_bytes(frag->pending));
    if (!frag->holes) return;
    mp_say(text, "%s free in %s, the largest %s; %s of that in segments that are wholly free\n",
           mp_bytes(frag->free_bytes), mp_counted(frag->holes, "hole"), mp_bytes(frag->largest_free),
           mp_bytes(frag->whole_free));
    if (frag->wanted)
        mp_say(text, "%.0f %% of the free memory lies in holes smaller than %s, %s\n",
               100.0 * (double)frag->unusable / (double)frag->free_bytes, mp_bytes(frag->wanted),
               frag->oom.event == MP_NONE ? "the largest block of the recording" : "the request that failed");
}

const char *mp_oom_cause_text(const struct mp_frag_oom *oom)
{
    static const char *const causes[] = {
        [MP_OOM_CAPACITY] = "capacity: the used memory left too little room, however it is arranged",
        [MP_OOM_FRAGMENTATION] =
            "fragmentation: free memory adds up to the request, but no piece of its stream and pool was large enough",
        [MP_OOM_LEAK] = "leak: growing sites hold more than was missing; see memprof leaks",
        [MP_OOM_OTHER_PROCESS] = "other_process: other processes on the device hold more than was missing",
        [MP_OOM_UNKNOWN] = "not known: the recording does not show the free memory",
        [MP_OOM_LIMIT] =
            "limit: a limit of the program (set_per_process_memory_fraction, expandable_segments_reserve) forbade it",
    };
    if (oom->exceeds_device) return "capacity: the request alone is larger than the device's memory";
    if (oom->full && oom->cause == MP_OOM_CAPACITY) return "capacity: live blocks alone fill the memory, or soon would";
    if (oom->cause == MP_OOM_UNKNOWN && oom->scarce)
        return "not known, fragmentation or capacity: free memory adds up to this request, but not to another like it";
    return causes[oom->cause];
}

void mp_oom_times_text(struct mp_text *text, const struct mp_frag_oom *oom)
{
    if (oom->times > 1)
        mp_say(text, "  %s requests failed from %s on; the largest asked for %s, and this is the last\n",
               mp_count(oom->times), mp_time(oom->first_ns), mp_bytes(oom->most_requested));
}

static void put_oom(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag)
{
    const struct mp_frag_oom *oom = &frag->oom;
    if (oom->event == MP_NONE) return;
    mp_heading(text, "OUT OF MEMORY");
    mp_say(text, " at %s: asked for %s", mp_time(oom->ns), mp_bytes(oom->requested));
    if (oom->device_free != MP_BYTES_UNKNOWN) mp_say(text, ", %s free on the device", mp_bytes(oom->device_free));
    mp_say(text, "\n");
    mp_oom_times_text(text, oom);
    if (oom->stack) mp_say_site(text, model, oom->stack);
    mp_say(text, "  cause: %s\n", mp_oom_cause_text(oom));
    if (oom->full)
        mp_say(text, "  no setting helps: after this request each leaves at most %s for the rest of the program\n",
               mp_bytes(oom->further));
    if (oom->would_fit.count) mp_say(text, "  %s would have fitted it (replayed)\n", oom->would_fit.at[0]);
    for (size_t i = 1; i < oom->would_fit.count; i++)
        mp_say(text, "%s%s", i > 1 ? ", " : "  so would ", oom->would_fit.at[i]);
    if (oom->would_fit.count > 1) mp_say(text, "\n");
    if (oom->would_fit.count && oom->further != MP_BYTES_UNKNOWN)
        mp_say(text, "  after it, at most %s are left for the rest of the program%s\n", mp_bytes(oom->further),
               oom->scarce ? ", too little for another such request" : "");
    if (oom->tried && !oom->would_fit.count)
        mp_say(text, "  no tried setting of the allocator would have fitted it (replayed)\n");
}

static void put_pins(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                     const struct mp_view *view)
{
    uint64_t kept = 0, by = 0;
    if (!frag->pins.count) return;
    for (size_t i = 0; i < frag->pins.count; i++) {
        kept += pin_free(&frag->pins.at[i]);
        by += frag->pins.at[i].held_bytes;
    }
    mp_heading(text, "PINNED  %s", mp_bytes(kept));
    mp_say(text, " free in %s that %s of blocks keep reserved; most first\n", mp_counted(frag->pins.count, "segment"),
           mp_bytes(by));
    mp_rows_text(text, &MP_ROWS(mp_pin_columns, frag->pins.at, mp_shown(frag->pins.count, view->limit), .model = model,
                                .not_apart = true));
}

/* Streams and private pools, if there are several, and what one stream would have reserved. */
static void put_streams(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                        const struct mp_view *view)
{
    size_t shown = mp_shown(frag->streams.count, view->limit);
    if (frag->streams.count < 2) return;
    mp_heading(text, "STREAMS");
    mp_say(text, "  no stream or private pool may use another's segments; most free first\n");
    mp_rows_text(text, &MP_ROWS(mp_stream_columns, frag->streams.at, shown, .model = model, .not_apart = true));
    mp_say_more(text, frag->streams.count - shown, view->limit);
    if (frag->one_stream_peak < frag->streams_peak)
        mp_say(text,
               "  on one stream the program would have reserved %s at most instead of %s (replayed); or call "
               "torch.cuda.empty_cache() once a stream's work is over\n",
               mp_bytes(frag->one_stream_peak), mp_bytes(frag->streams_peak));
}

/* Writes the table of segments in documents, and in text if the user chose its columns. */
static void put_segments(struct mp_text *text, const struct mp_frag *frag, const struct mp_view *view)
{
    size_t shown = mp_shown(frag->segments.count, view->limit);
    if (!text->document && !text->columns) return;
    if (mp_rows_text(text, &MP_ROWS(mp_segment_columns, frag->segments.at, shown, .heading = "SEGMENTS")))
        mp_say_more(text, frag->segments.count - shown, view->limit);
}

/* The assumptions of a replay about sizes that PyTorch did not record. */
static void put_asked(struct mp_text *text, const struct mp_torch_asked *asked)
{
    bool any = asked->known || asked->as_site;
    if (asked->known == asked->all) return;
    if (!any) {
        mp_say(text, "  requested sizes are not known: block sizes were replayed\n");
        return;
    }
    mp_say(text, "  requested sizes are known for %s of %s allocations", mp_count(asked->known), mp_count(asked->all));
    if (asked->as_site) mp_say(text, ", for %s more from others of their site", mp_count(asked->as_site));
    if (asked->known + asked->as_site < asked->all) mp_say(text, "; for the rest, block sizes were replayed");
    mp_say(text, "\n");
}

/* Writes the results of a replay with other settings than the recorded ones. */
static void put_otherwise(struct mp_text *text, const struct mp_frag_replay *replay)
{
    const struct mp_torch_replay *result = &replay->result;
    bool less = replay->recorded_reserved > replay->compare_reserved;
    mp_say(text, "  %s reserved at most, instead of %s %s%s; %s allocated at most\n", mp_bytes(result->reserved_peak),
           mp_bytes(replay->compare_reserved), less ? "replayed under its own settings; recorded were " : "as recorded",
           less ? mp_bytes(replay->recorded_reserved) : "", mp_bytes(result->allocated_peak));
    if (result->ooms) mp_say(text, "  out of memory %s\n", mp_counted(result->ooms, "time"));
    if (replay->base_bytes)
        mp_say(text, "  the %s from before the trace were placed anew, close together\n", mp_bytes(replay->base_bytes));
    put_asked(text, &replay->asked);
}

static void put_replay(struct mp_text *text, const struct mp_frag_replay *replay)
{
    const struct mp_torch_replay *result = &replay->result;
    if (!replay->settings) return;
    mp_heading(text, "REPLAY  ");
    mp_say(text, "%s\n", replay->settings);
    if (!replay->recorded) {
        put_otherwise(text, replay);
        return;
    }
    if (result->differences)
        mp_say(text, "  %s from what was recorded; the first:\n  %s\n", mp_counted(result->differences, "difference"),
               result->first);
    if (result->differences && result->differences == result->differences_at_end && result->unfreed)
        mp_say(text,
               "  every call is as recorded; at the end the record contradicts itself: blocks that the trace never "
               "frees, but the segments lack: %s\n",
               mp_count(result->unfreed));
    if (!result->differences) mp_say(text, "  exact: every address and every segment is as recorded\n");
    mp_say(text, "  %s allocations, %s segment events; at the end %s segments, %s blocks\n", mp_count(result->allocs),
           mp_count(result->segment_events), mp_count(result->segments), mp_count(result->parts));
}

void mp_frag_text(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                  const struct mp_view *view)
{
    put_held(text, model, frag);
    put_oom(text, model, frag);
    put_replay(text, &frag->replay);
    if (mp_is_csv(text)) put_segments(text, frag, view);
    if (frag->known) put_streams(text, model, frag, view);
    if (frag->known) put_pins(text, model, frag, view);
    if (frag->known) put_segments(text, frag, view);
    if (frag->known && frag->layout.source == MP_LAYOUT_PLACED)
        mp_say(text, "\nThe recording does not say how the allocator divided its segments: blocks may take up to 1 MiB "
                     "more than shown.\n");
    mp_coverage_end(text, model);
}
