#include <stdio.h>

#include "base/units.h"
#include "output/report/reports.h"

static const char *moment_name(enum mp_frag_moment moment)
{
    static const char *const names[] = {"end", "oom", "peak"};
    return names[moment];
}

static void segments_json(struct mp_json *json, const struct mp_frag *frag)
{
    char text[48];
    mp_json_array(json, "segments");
    for (size_t i = 0; i < frag->segments.count; i++) {
        const struct mp_frag_segment *segment = &frag->segments.at[i];
        mp_json_object(json, NULL);
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)segment->address);
        mp_json_text(json, "address", text);
        mp_json_number(json, "bytes", segment->bytes);
        mp_json_number(json, "allocated_bytes", segment->allocated);
        mp_json_number(json, "largest_free_bytes", segment->largest_free);
        mp_json_known(json, "stream", segment->stream);
        snprintf(text, sizeof text, "%u,%u", (unsigned)(segment->pool >> 32), (unsigned)segment->pool);
        mp_json_text(json, "pool", segment->pool == MP_BYTES_UNKNOWN ? NULL : text);
        mp_json_bool(json, "expandable", segment->expandable);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void pins_json(struct mp_json *json, const struct mp_model *model, const struct mp_frag *frag)
{
    const struct mp_site_view view = {0};
    char text[32];
    mp_json_array(json, "pins");
    for (size_t i = 0; i < frag->pins.count; i++) {
        const struct mp_frag_pin *pin = &frag->pins.at[i];
        mp_json_object(json, NULL);
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)pin->address);
        mp_json_text(json, "address", text);
        mp_json_number(json, "segment_bytes", pin->segment_bytes);
        mp_json_number(json, "held_bytes", pin->held_bytes);
        mp_sites_json(json, "sites", model, &pin->sites, &view);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void held_json(struct mp_json *json, const struct mp_model *model, const struct mp_frag *frag)
{
    static const char *const absent[] = {"reserved_bytes",     "pending_bytes",  "free_bytes", "whole_free_bytes",
                                         "largest_free_bytes", "unusable_ratio", "segments",   "pins"};
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
    segments_json(json, frag);
    pins_json(json, model, frag);
}

static void oom_json(struct mp_json *json, const struct mp_model *model, const struct mp_frag_oom *oom)
{
    if (oom->event == MP_NONE) {
        mp_json_null(json, "oom");
        return;
    }
    mp_json_object(json, "oom");
    mp_json_number(json, "at_ns", oom->ns);
    mp_json_number(json, "requested_bytes", oom->requested);
    mp_json_known(json, "device_free_bytes", oom->device_free);
    mp_json_text(json, "cause", mp_oom_cause_name(oom->cause));
    if (oom->tried) {
        mp_json_array(json, "would_fit");
        for (size_t i = 0; i < oom->would_fit.count; i++)
            mp_json_text(json, NULL, oom->would_fit.at[i]);
        mp_json_end_array(json);
    } else {
        mp_json_null(json, "would_fit");
    }
    mp_stack_json(json, model, oom->stack);
    mp_json_end_object(json);
}

static void replay_json(struct mp_json *json, const struct mp_frag_replay *replay)
{
    const struct mp_torch_replay *result = &replay->result;
    if (!replay->settings) {
        mp_json_null(json, "replay");
        return;
    }
    mp_json_object(json, "replay");
    mp_json_text(json, "settings", replay->settings);
    mp_json_number(json, "reserved_peak_bytes", result->reserved_peak);
    mp_json_number(json, "allocated_peak_bytes", result->allocated_peak);
    mp_json_bool(json, "oom", result->ooms);
    if (replay->recorded) {
        mp_json_number(json, "differences", result->differences);
        mp_json_number(json, "differences_at_end", result->differences_at_end);
        mp_json_number(json, "unfreed_blocks", result->unfreed);
        mp_json_text(json, "first_difference", result->differences ? result->first : NULL);
        mp_json_number(json, "allocations", result->allocs);
        mp_json_number(json, "segment_events", result->segment_events);
        mp_json_number(json, "end_segments", result->segments);
        mp_json_number(json, "end_blocks", result->parts);
    } else {
        mp_json_null(json, "differences");
        mp_json_known(json, "capacity_bytes", replay->capacity);
        if (replay->asked.all) {
            mp_json_object(json, "asked");
            mp_json_number(json, "allocations", replay->asked.all);
            mp_json_number(json, "told", replay->asked.told);
            mp_json_number(json, "as_site", replay->asked.as_site);
            mp_json_end_object(json);
        } else {
            mp_json_null(json, "asked");
        }
        mp_json_number(json, "as_recorded_reserved_bytes", replay->compare_reserved);
        mp_json_known(json, "recorded_reserved_bytes",
                      replay->recorded_reserved ? replay->recorded_reserved : MP_BYTES_UNKNOWN);
    }
    mp_json_end_object(json);
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
    oom_json(json, model, &frag->oom);
    replay_json(json, &frag->replay);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

const char *mp_frag_when(const struct mp_frag *frag)
{
    static const char *const when[] = {"at the end", "when memory ran out", "when most was reserved"};
    return when[frag->moment];
}

/* Whether a saving is worth a change. */
static bool is_worth(uint64_t saved, uint64_t of)
{
    return saved >= (uint64_t)64 << 20 && saved >= of / 50;
}

bool mp_frag_advice(const struct mp_frag *frag, struct mp_advice *advice)
{
    const struct mp_frag_replay *replay = &frag->replay;
    char would[MP_UNIT_TEXT], was[MP_UNIT_TEXT], base[MP_UNIT_TEXT], count[MP_UNIT_TEXT];
    *advice = (struct mp_advice){.saved = MP_BYTES_UNKNOWN};
    if (frag->oom.would_fit.count) {
        snprintf(advice->text, sizeof advice->text, "%s would have fitted the request that found no memory (replayed)",
                 frag->oom.would_fit.at[0]);
        snprintf(advice->evidence, sizeof advice->evidence, "replay of all requests up to that one");
        return true;
    }
    const struct mp_torch_replay *result = &replay->result;
    if (!replay->settings || replay->recorded || result->ooms || result->reserved_peak > replay->compare_reserved ||
        !is_worth(replay->compare_reserved - result->reserved_peak, replay->compare_reserved))
        return false;
    advice->saved = replay->compare_reserved - result->reserved_peak;
    snprintf(advice->text, sizeof advice->text, "%s would have reserved %s instead of %s (replayed)", replay->settings,
             mp_format_bytes(would, result->reserved_peak), mp_format_bytes(was, replay->compare_reserved));
    int length = snprintf(advice->evidence, sizeof advice->evidence, "replay of %s allocations",
                          mp_format_count(count, result->allocs));
    if (replay->base_bytes)
        snprintf(advice->evidence + length, sizeof advice->evidence - (size_t)length,
                 "; the %s from before them were placed anew", mp_format_bytes(base, replay->base_bytes));
    return true;
}

static void put_held(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag)
{
    char number[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    mp_track_id(model, frag->track, id);
    if (!frag->known) {
        mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(number, frag->allocated));
        mp_text_put(text, MP_PLAIN, " allocated on ");
        mp_text_clean(text->out, id);
        mp_text_put(text, MP_PLAIN, " %s; the recording does not say what the allocator held\n", mp_frag_when(frag));
        return;
    }
    mp_text_put(text, MP_BOLD, "%s", mp_format_bytes(number, frag->reserved));
    mp_text_put(text, MP_PLAIN, " reserved on ");
    mp_text_clean(text->out, id);
    mp_text_put(text, MP_PLAIN, " %s, %s of it in use", mp_frag_when(frag), mp_format_bytes(number, frag->allocated));
    if (frag->reserved)
        mp_text_put(text, MP_PLAIN, " (%.1f %%)", 100.0 * (double)frag->allocated / (double)frag->reserved);
    mp_text_put(text, MP_PLAIN, ", in ");
    mp_text_count(text, frag->segments.count, "segment");
    mp_text_put(text, MP_PLAIN, "\n");
    if (frag->pending)
        mp_text_put(text, MP_PLAIN,
                    "%s were freed and are pending: a stream that was recorded on them still uses them\n",
                    mp_format_bytes(number, frag->pending));
    if (!frag->holes) return;
    mp_text_put(text, MP_PLAIN, "%s free in ", mp_format_bytes(number, frag->free_bytes));
    mp_text_count(text, frag->holes, "hole");
    mp_text_put(text, MP_PLAIN, ", the largest %s; ", mp_format_bytes(number, frag->largest_free));
    mp_text_put(text, MP_PLAIN, "%s of that in segments that are wholly free\n",
                mp_format_bytes(number, frag->whole_free));
    if (frag->wanted)
        mp_text_put(text, MP_PLAIN, "%.0f %% of the free memory lies in holes smaller than %s, %s\n",
                    100.0 * (double)frag->unusable / (double)frag->free_bytes, mp_format_bytes(number, frag->wanted),
                    frag->oom.event == MP_NONE ? "the largest block of the recording" : "the request that failed");
}

const char *mp_oom_cause_text(enum mp_oom_cause cause)
{
    static const char *const causes[] = {
        [MP_OOM_CAPACITY] = "capacity: what was in use left too little, however it is arranged",
        [MP_OOM_FRAGMENTATION] = "fragmentation: enough was free, but not in one piece where it was needed",
        [MP_OOM_LEAK] = "leak: what keeps growing holds more than was missing; see memprof leaks",
        [MP_OOM_OTHER_PROCESS] = "other_process: others on the device hold more than was missing",
        [MP_OOM_UNKNOWN] = "not known: the recording does not say what the allocator held",
        [MP_OOM_LIMIT] = "limit: the device had room; a limit (set_per_process_memory_fraction) forbade it",
    };
    return causes[cause];
}

static void put_oom(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag)
{
    const struct mp_frag_oom *oom = &frag->oom;
    char asked[MP_UNIT_TEXT], left[MP_UNIT_TEXT], when[MP_UNIT_TEXT];
    if (oom->event == MP_NONE) return;
    mp_text_put(text, MP_BOLD, "\nOUT OF MEMORY");
    mp_text_put(text, MP_PLAIN, " at %s: asked for %s", mp_format_duration(when, oom->ns),
                mp_format_bytes(asked, oom->requested));
    if (oom->device_free != MP_BYTES_UNKNOWN)
        mp_text_put(text, MP_PLAIN, ", %s free on the device", mp_format_bytes(left, oom->device_free));
    mp_text_put(text, MP_PLAIN, "\n");
    if (oom->stack) mp_text_site(text, model, oom->stack);
    mp_text_put(text, MP_PLAIN, "  cause: %s\n", mp_oom_cause_text(oom->cause));
    if (oom->would_fit.count)
        mp_text_put(text, MP_PLAIN, "  %s would have fitted it (replayed)\n", oom->would_fit.at[0]);
    for (size_t i = 1; i < oom->would_fit.count; i++)
        mp_text_put(text, MP_PLAIN, "%s%s%s", i > 1 ? ", " : "  so would ", oom->would_fit.at[i],
                    i + 1 == oom->would_fit.count ? "\n" : "");
    if (oom->tried && !oom->would_fit.count)
        mp_text_put(text, MP_PLAIN, "  no setting of the allocator that was tried would have fitted it (replayed)\n");
}

static void put_pins(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                     const struct mp_view *view)
{
    char held[MP_UNIT_TEXT], segment[MP_UNIT_TEXT];
    struct mp_table table;
    if (!frag->pins.count) return;
    uint64_t kept = 0, by = 0;
    for (size_t i = 0; i < frag->pins.count; i++) {
        kept += frag->pins.at[i].segment_bytes - frag->pins.at[i].held_bytes;
        by += frag->pins.at[i].held_bytes;
    }
    mp_text_put(text, MP_BOLD, "\nPINNED  %s", mp_format_bytes(segment, kept));
    mp_text_put(text, MP_PLAIN, " free in ");
    mp_text_count(text, frag->pins.count, "segment");
    mp_text_put(text, MP_PLAIN, " kept by %s of blocks; most first\n", mp_format_bytes(held, by));
    mp_table_start(&table, "rrrl");
    for (size_t i = 0; i < frag->pins.count && (!view->limit || i < view->limit); i++) {
        const struct mp_frag_pin *pin = &frag->pins.at[i];
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(segment, pin->segment_bytes - pin->held_bytes));
        mp_table_cell(&table, MP_PLAIN, "of %s", mp_format_bytes(segment, pin->segment_bytes));
        if (pin->sites.blocks)
            mp_table_cell(&table, MP_PLAIN, "by %s in %llu block%s", mp_format_bytes(held, pin->held_bytes),
                          (unsigned long long)pin->sites.blocks, pin->sites.blocks == 1 ? "" : "s");
        else
            mp_table_cell(&table, MP_PLAIN, "by %s pending", mp_format_bytes(held, pin->held_bytes));
        if (pin->sites.count) mp_site_cell(&table, model, &pin->sites, &pin->sites.at[0], NULL);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

/* What a replay counts on beyond what PyTorch said. */
static void put_asked(struct mp_text *text, const struct mp_torch_asked *asked)
{
    char all[MP_UNIT_TEXT], told[MP_UNIT_TEXT], as_site[MP_UNIT_TEXT];
    bool any = asked->told || asked->as_site;
    if (asked->told == asked->all) return;
    if (any)
        mp_text_put(text, MP_PLAIN, "  what was asked for is known of %s of %s allocations",
                    mp_format_count(told, asked->told), mp_format_count(all, asked->all));
    if (asked->as_site)
        mp_text_put(text, MP_PLAIN, ", of %s more by others of their site", mp_format_count(as_site, asked->as_site));
    if (!any)
        mp_text_put(text, MP_PLAIN, "  what was asked for is not known: what was handed out was replayed");
    else if (asked->told + asked->as_site < asked->all)
        mp_text_put(text, MP_PLAIN, "; of the rest what was handed out was replayed");
    mp_text_put(text, MP_PLAIN, "\n");
}

static void put_replay(struct mp_text *text, const struct mp_frag *frag)
{
    const struct mp_frag_replay *replay = &frag->replay;
    const struct mp_torch_replay *result = &replay->result;
    char one[MP_UNIT_TEXT], two[MP_UNIT_TEXT], three[MP_UNIT_TEXT], four[MP_UNIT_TEXT];
    if (!replay->settings) return;
    mp_text_put(text, MP_BOLD, "\nREPLAY  ");
    mp_text_clean(text->out, replay->settings);
    if (!replay->recorded) {
        bool less = replay->recorded_reserved > replay->compare_reserved;
        mp_text_put(text, MP_PLAIN, "\n  %s reserved at most, instead of %s %s",
                    mp_format_bytes(one, result->reserved_peak), mp_format_bytes(two, replay->compare_reserved),
                    less ? "replayed as it was set; recorded were " : "as recorded");
        if (less) mp_text_put(text, MP_PLAIN, "%s", mp_format_bytes(one, replay->recorded_reserved));
        mp_text_put(text, MP_PLAIN, "; %s allocated at most\n", mp_format_bytes(three, result->allocated_peak));
        if (result->ooms)
            mp_text_put(text, MP_PLAIN, "  out of memory %s time%s\n", mp_format_count(one, result->ooms),
                        result->ooms == 1 ? "" : "s");
        if (replay->base_bytes)
            mp_text_put(text, MP_PLAIN, "  the %s from before the trace were placed anew, close together\n",
                        mp_format_bytes(one, replay->base_bytes));
        put_asked(text, &replay->asked);
        return;
    }
    if (result->differences)
        mp_text_put(text, MP_PLAIN, "\n  %s difference%s to what was recorded; the first:\n  %s\n",
                    mp_format_count(one, result->differences), result->differences == 1 ? "" : "s", result->first);
    if (result->differences && result->differences == result->differences_at_end && result->unfreed)
        mp_text_put(
            text, MP_PLAIN,
            "  every call is as recorded; at the end the record contradicts itself: blocks that its trace never "
            "frees and its segments do not have: %s\n",
            mp_format_count(one, result->unfreed));
    if (!result->differences)
        mp_text_put(text, MP_PLAIN, "\n  exact: every address and every segment is as recorded\n");
    mp_text_put(text, MP_PLAIN, "  %s allocations, %s segment events; at the end %s segments, %s blocks\n",
                mp_format_count(one, result->allocs), mp_format_count(two, result->segment_events),
                mp_format_count(three, result->segments), mp_format_count(four, result->parts));
}

void mp_frag_text(struct mp_text *text, const struct mp_model *model, const struct mp_frag *frag,
                  const struct mp_view *view)
{
    put_held(text, model, frag);
    put_oom(text, model, frag);
    put_replay(text, frag);
    if (frag->known) put_pins(text, model, frag, view);
    if (frag->known && frag->layout.source == MP_LAYOUT_PLACED)
        mp_text_put(text, MP_PLAIN,
                    "\nThe recording does not say how the allocator divided its segments: blocks may take up to 1 MiB "
                    "more than shown.\n");
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
