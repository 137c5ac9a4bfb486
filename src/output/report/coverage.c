#include "output/report/coverage.h"

#include <stdio.h>
#include <string.h>

#include "analysis/device/device_use.h"
#include "base/units.h"
#include "output/report/plan.h"
#include "output/report/view.h"

static void append_fact(struct mp_buffer *out, const char *format, const char *number)
{
    if (out->size) mp_buffer_append_text(out, "; ");
    mp_buffer_printf(out, format, number);
}

/* The time of the last event. Samples of the process may be later. */
static uint64_t extent(const struct mp_model *model)
{
    size_t count = model->events.count;
    return count ? model->events.time_ns[count - 1] : 0;
}

void mp_coverage_sentence(struct mp_buffer *out, const struct mp_model *model)
{
    const struct mp_damage *damage = &model->file.damage;
    char number[MP_UNIT_TEXT];
    struct mp_buffer facts = {0};
    if (damage->cut && mp_model_is_job(model))
        append_fact(&facts, "the file is cut: rows of the job are missing%s", "");
    else if (damage->cut)
        append_fact(&facts, "the file is cut: it holds the first %s", mp_format_duration(number, extent(model)));
    if (damage->lost_bytes)
        append_fact(&facts, "%s of the file cannot be read", mp_format_bytes(number, damage->lost_bytes));
    if (damage->lost_chunks)
        append_fact(&facts, damage->lost_chunks == 1 ? "%s chunk of it is lost" : "%s chunks of it are lost",
                    mp_format_count(number, damage->lost_chunks));
    if (model->coverage.dropped)
        append_fact(&facts, model->coverage.dropped == 1 ? "%s event was dropped" : "%s events were dropped",
                    mp_format_count(number, model->coverage.dropped));
    mp_buffer_append(out, facts.data, facts.size);
    mp_buffer_free(&facts);
}

const char *mp_coverage_hedge(const struct mp_model *model)
{
    if (model->file.damage.lost_chunks || model->coverage.dropped) return "about ";
    return mp_model_incomplete(model) ? "at least " : "";
}

/* Collects notes: derived ones, then the recorder's own. */
struct note_sink {
    struct mp_json *json;
    struct mp_text *text;
};

static void put_note(const struct note_sink *sink, const char *note)
{
    if (sink->json)
        mp_json_text(sink->json, NULL, note);
    else
        mp_say(sink->text, "  note: %s\n", note);
}

static void put_counted(const struct note_sink *sink, uint64_t count, const char *format)
{
    struct mp_buffer note = {0};
    if (!count) return;
    mp_buffer_printf(&note, format, mp_count(count));
    put_note(sink, mp_buffer_text(&note));
    mp_buffer_free(&note);
}

static void put_sample(const struct note_sink *sink, const struct mp_model *model)
{
    char note[256];
    if (!model->sample_bytes) return;
    snprintf(note, sizeof note,
             "sampled, one in %s: bytes of the layers torch and app are estimates from the blocks in the sample, and "
             "counts are of these; blocks from before the recording are not in it",
             mp_bytes(model->sample_bytes));
    put_note(sink, note);
}

static void put_host(const struct note_sink *sink, const struct mp_model *model)
{
    char note[256];
    bool tensors = false;
    if (!model->host_bytes) return;
    for (size_t i = 0; i < model->tracks.count; i++)
        tensors |= model->tracks.at[i].layer == MP_LAYER_TORCH;
    snprintf(note, sizeof note,
             "cpu/malloc is sampled, one in %s: its bytes are estimates and its counts are of blocks in the sample; "
             "%swhat lived before the first 8 MiB %s not in it",
             mp_bytes(model->host_bytes), tensors ? "tensors of cpu/torch and " : "", tensors ? "are" : "is");
    put_note(sink, note);
}

static void put_notes(const struct note_sink *sink, const struct mp_model *model)
{
    const struct mp_coverage *coverage = &model->coverage;
    struct mp_buffer missing = {0};
    mp_coverage_sentence(&missing, model);
    if (missing.size && sink->json) put_note(sink, mp_buffer_text(&missing));
    mp_buffer_free(&missing);
    struct mp_buffer planned = {0};
    bool is_plan = mp_plan_sentence(&planned, model);
    if (is_plan) put_note(sink, mp_buffer_text(&planned));
    mp_buffer_free(&planned);
    uint64_t unknown = 0;
    for (size_t i = 0; i < model->sums.count; i++)
        unknown += model->sums.at[i].unknown_blocks;
    put_counted(sink, unknown,
                "blocks of unknown size that were live before the recording began: %s; base and peak are at least what "
                "they say");
    put_counted(sink, coverage->missed_frees,
                "frees that were not seen: %s; each counted at the next allocation at its address");
    put_counted(sink, coverage->totals_wrong, "times the allocator's own total differed from this recording's: %s");
    put_counted(sink, coverage->truncated_stacks, "stacks cut at the depth limit: %s");
    put_counted(sink, coverage->unmatched_stacks, "stacks in which Python and native frames could not be paired: %s");
    put_counted(
        sink, model->past.events,
        "%s older events were left out; live blocks are those of the whole run, and so are the peaks, with their "
        "sites");
    put_sample(sink, model);
    put_host(sink, model);
    for (uint32_t i = 0; i < coverage->limit_count; i++)
        put_note(sink, mp_model_text(model, coverage->limits[i]));
    for (uint32_t i = 0; i < coverage->note_count; i++)
        put_note(sink, mp_model_text(model, coverage->notes[i]));
}

void mp_coverage_json(struct mp_json *json, const struct mp_model *model)
{
    const struct mp_coverage *coverage = &model->coverage;
    mp_json_object(json, "coverage");
    mp_json_bool(json, "complete", !mp_model_incomplete(model) && !mp_model_limited(model));
    mp_json_number(json, "events", mp_model_event_count(model));
    mp_json_number(json, "folded_events", model->past.events);
    mp_json_number(json, "dropped", coverage->dropped);
    mp_json_number(json, "lost_file_bytes", model->file.damage.lost_bytes);
    mp_json_number(json, "truncated_stacks", coverage->truncated_stacks);
    mp_json_number(json, "unmatched_stacks", coverage->unmatched_stacks);
    mp_json_number(json, "totals_checked", coverage->totals_checked);
    mp_json_number(json, "totals_wrong", coverage->totals_wrong);
    mp_json_number(json, "unknown_frees", coverage->unknown_frees);
    mp_json_number(json, "missed_frees", coverage->missed_frees);
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    mp_json_known(json, "unattributed_bytes", mp_device_unattributed(&uses));
    mp_device_uses_free(&uses);
    MP_JSON_LIST(json, "sources", i, coverage->source_count,
                 mp_json_text(json, NULL, mp_model_text(model, coverage->sources[i])));
    mp_json_array(json, "notes");
    put_notes(&(struct note_sink){.json = json}, model);
    mp_json_end_array(json);
    mp_json_end_object(json);
}

void mp_coverage_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_buffer missing = {0};
    mp_coverage_sentence(&missing, model);
    const char *events = mp_counted(mp_model_event_count(model), "event");
    if (missing.size)
        mp_say(text, "`INCOMPLETE: %s (%s)`\n", mp_buffer_text(&missing), events);
    else if (mp_model_limited(model))
        mp_say(text, "`PARTIAL: %s, none dropped; the recording had limits`\n", events);
    else
        mp_say(text, "^complete: %s, none dropped^\n", events);
    mp_buffer_free(&missing);
    put_notes(&(struct note_sink){.text = text}, model);
}

void mp_coverage_end(struct mp_text *text, const struct mp_model *model)
{
    if (text->document)
        mp_heading(text, "Coverage");
    else
        mp_say(text, "\n");
    mp_coverage_text(text, model);
}
