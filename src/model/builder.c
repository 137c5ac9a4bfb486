#include "model/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "base/sampling.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "model/builder_state.h"
#include "model/stack_facts.h"
#include "model/steps_infer.h"

#define DEPTH_MAX 10000 /* nodes of a path: twice the recorder's most, since backward adds its forward's path */
#define TEXT_MAX  65536 /* bytes of a name; longer names are cut, because many rows repeat them */
#define LINES_MAX 256   /* source lines of one native frame */

uint32_t mp_builder_string(const struct mp_builder *builder, uint32_t id)
{
    return id < builder->string_ids.count ? builder->string_ids.at[id] : 0;
}

static const char *own_text(struct mp_model *model, const char *text)
{
    char *copy = mp_text_copy(text ? text : "");
    mp_vec_add(&model->owned, copy);
    return copy;
}

static void copy_start(struct mp_model *model, const struct mp_recording_start *from)
{
    size_t words = 0;
    while (from->command && from->command[words])
        words++;
    const char **command = mp_alloc_zeroed(words + 1, sizeof *command);
    mp_vec_add(&model->owned, (void *)command);
    for (size_t i = 0; i < words; i++)
        command[i] = own_text(model, from->command[i]);
    model->start = *from;
    model->start.command = command;
    model->start.host = own_text(model, from->host);
    model->start.configuration = own_text(model, from->configuration);
    model->start.spool = own_text(model, from->spool);
    char sample[16], host[16], job[4];
    mp_setting(job, sizeof job, from->configuration, MP_JOB_KEY);
    model->is_job = *job;
    mp_setting(sample, sizeof sample, from->configuration, MP_SAMPLE_KEY);
    model->sample_bytes = strtoul(sample, NULL, 10) & UINT32_MAX;
    mp_setting(host, sizeof host, from->configuration, MP_HOST_KEY);
    model->host_bytes = strtoul(host, NULL, 10) & UINT32_MAX;
}

void mp_builder_new(const struct mp_recording_start *start, struct mp_builder **builder)
{
    struct mp_builder *made = mp_alloc_zeroed(1, sizeof *made);
    made->model = mp_alloc_zeroed(1, sizeof *made->model);
    copy_start(made->model, start);
    mp_intern_add_text(&made->model->strings, "");
    made->model->format = "mp";
    made->model->facts = mp_known_facts_new();
    made->model->steps = mp_model_steps_new();
    *builder = made;
}

/* The length to which a text that is too long is cut: not inside a UTF-8 character. */
static size_t cut_text(const char *text)
{
    size_t length = TEXT_MAX;
    while (length > TEXT_MAX - 3 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static void add_strings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        size_t length = chunk->strings[i].length;
        if (length > TEXT_MAX) length = cut_text(chunk->strings[i].text);
        uint32_t id = mp_intern_add(&b->model->strings, chunk->strings[i].text, length);
        mp_vec_add(&b->string_ids, id);
    }
}

static void add_facts(struct mp_device *known, const struct mp_device *more)
{
    if (more->uuid) known->uuid = more->uuid;
    if (more->model) known->model = more->model;
    if (more->total_bytes != MP_BYTES_UNKNOWN) known->total_bytes = more->total_bytes;
}

static void add_devices(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_device device = chunk->devices[i];
        device.name = mp_builder_string(b, device.name);
        device.uuid = mp_builder_string(b, device.uuid);
        device.model = mp_builder_string(b, device.model);
        uint32_t at = (uint32_t)model->devices.count;
        if (device.name) { /* devices whose names were lost are not joined */
            bool fresh;
            uint64_t *known = mp_map_at(&b->devices, device.name, &fresh);
            if (fresh) *known = at;
            at = (uint32_t)*known;
        }
        if (at == model->devices.count) mp_vec_add(&model->devices, device);
        add_facts(&model->devices.at[at], &device);
        mp_vec_add(&b->device_ids, at);
    }
}

static void add_tracks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_track track = chunk->tracks[i];
        track.name = mp_builder_string(b, track.name);
        track.device = b->device_ids.at[track.device];
        struct mp_model_track_sum sum = {.peak_event = MP_NONE, .reserved_peak_bytes = MP_BYTES_UNKNOWN};
        struct mp_builder_level level = {0};
        mp_vec_add(&b->model->tracks, track);
        mp_vec_add(&b->model->sums, sum);
        mp_vec_add(&b->levels, level);
    }
}

static void add_threads(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_thread_info thread = chunk->threads[i];
        thread.name = mp_builder_string(b, thread.name);
        mp_vec_add(&b->model->threads, thread);
    }
}

static void add_modules(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_module module = chunk->modules[i];
        module.path = mp_builder_string(b, module.path);
        mp_vec_add(&b->model->modules, module);
    }
}

static void add_frames(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_model_frame frame = {.raw = chunk->frames[i]};
        frame.raw.function = mp_builder_string(b, frame.raw.function);
        frame.raw.file = mp_builder_string(b, frame.raw.file);
        frame.raw.more = mp_builder_string(b, frame.raw.more);
        if (frame.raw.language != MP_NATIVE) {
            struct mp_model_line line = {frame.raw.function, frame.raw.file, frame.raw.line};
            frame.first_line = (uint32_t)model->lines.count;
            frame.line_count = 1;
            mp_vec_add(&model->lines, line);
        }
        mp_vec_add(&model->frames, frame);
    }
}

/* Adds stacks. Cuts a path that is deeper than any recorder's, so that following it to its root ends soon. */
static void add_stacks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_stack_node node = chunk->stacks[i];
        uint16_t depth = node.parent < b->depths.count ? (uint16_t)(b->depths.at[node.parent] + 1) : 0;
        if (depth > DEPTH_MAX) {
            node = (struct mp_stack_node){0, MP_FRAME_CUT};
            depth = 1;
        }
        mp_vec_add(&b->model->stacks, node);
        mp_vec_add(&b->depths, depth);
    }
}

static void add_symbols(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_symbol *symbol = &chunk->symbols[i];
        struct mp_model_frame *frame = &model->frames.at[symbol->frame];
        struct mp_model_line line = {mp_builder_string(b, symbol->function), mp_builder_string(b, symbol->file),
                                     symbol->line};
        if (!frame->line_count) frame->first_line = (uint32_t)model->lines.count;
        if (frame->line_count == LINES_MAX) continue;
        if (frame->first_line + frame->line_count != model->lines.count) continue; /* resolved twice */
        mp_vec_add(&model->lines, line);
        frame->line_count++;
    }
}

static void add_samples(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_sample sample = chunk->samples[i];
        sample.counter = mp_builder_string(b, sample.counter);
        mp_vec_add(&b->model->samples, sample);
    }
}

static void add_segments(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->segments, chunk->segments, chunk->count);
}

static void add_parts(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->parts, chunk->parts, chunk->count);
}

static void add_calls(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->calls, chunk->calls, chunk->count);
}

static void add_asides(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_aside aside = chunk->asides[i];
        if (aside.kind != MP_ASIDE_SETTINGS) continue;
        aside.text = mp_builder_string(b, aside.text);
        mp_vec_add(&b->model->asides, aside);
    }
}

static void copy_ids(const struct mp_builder *b, uint32_t **to, const uint32_t *from, size_t count)
{
    uint32_t *ids = mp_alloc((count ? count : 1) * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = mp_builder_string(b, from[i]);
    free(*to);
    *to = ids;
}

static void add_coverage(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_coverage next = *chunk->coverage;
    next.sources = b->model->coverage.sources;
    next.notes = b->model->coverage.notes;
    next.limits = b->model->coverage.limits;
    copy_ids(b, &next.sources, chunk->coverage->sources, next.source_count);
    b->model->coverage.sources = next.sources;
    copy_ids(b, &next.notes, chunk->coverage->notes, next.note_count);
    b->model->coverage.notes = next.notes;
    copy_ids(b, &next.limits, chunk->coverage->limits, next.limit_count);
    b->model->coverage = next;
}

static void add_exit(struct mp_builder *b, const struct mp_chunk *chunk)
{
    b->model->how = *chunk->how;
    b->model->how.text = mp_builder_string(b, chunk->how->text);
}

static enum mp_status bad_entry(const struct mp_chunk *chunk, const char *reason, struct mp_error *error)
{
    return mp_fail(error, MP_DAMAGED, "%s names an entry that is not in the recording (chunk at byte %llu)", reason,
                   (unsigned long long)chunk->offset);
}

/* True if a stack exists. The empty stack exists even without a table. */
static bool known_stack(const struct mp_model *model, uint32_t stack)
{
    return stack < model->stacks.count || !stack;
}

/* Checks the ids that later code uses without a check. */
static enum mp_status check_table(const struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_model *model = b->model;
    if (chunk->lost) return MP_OK;
    for (size_t i = 0; i < chunk->count; i++) {
        if (chunk->kind == MP_CHUNK_TRACKS && chunk->tracks[i].device >= b->device_ids.count)
            return bad_entry(chunk, "a track", error);
        if (chunk->kind == MP_CHUNK_FRAMES && chunk->frames[i].module &&
            chunk->frames[i].module >= model->modules.count)
            return bad_entry(chunk, "a frame", error);
        if (chunk->kind == MP_CHUNK_SYMBOLS && chunk->symbols[i].frame >= model->frames.count)
            return bad_entry(chunk, "a symbol", error);
        if (chunk->kind == MP_CHUNK_SEGMENTS &&
            (chunk->segments[i].track >= model->tracks.count || !known_stack(model, chunk->segments[i].stack)))
            return bad_entry(chunk, "a segment", error);
        if (chunk->kind == MP_CHUNK_SEGMENT_PARTS && chunk->parts[i].segment >= model->segments.count)
            return bad_entry(chunk, "a part of a segment", error);
        if ((chunk->kind == MP_CHUNK_CALLS || chunk->kind == MP_CHUNK_TRACE) &&
            chunk->calls[i].track >= model->tracks.count)
            return bad_entry(chunk, "a call of the allocator", error);
        if (chunk->kind == MP_CHUNK_PAST_PEAKS && chunk->past_peaks[i].track >= model->tracks.count)
            return bad_entry(chunk, "a peak", error);
        if (chunk->kind == MP_CHUNK_PAST_SITES &&
            (chunk->past_sites[i].track >= model->tracks.count || chunk->past_sites[i].stack > model->stacks.count))
            return bad_entry(chunk, "a site", error);
        if (chunk->kind != MP_CHUNK_STACKS) continue;
        size_t id = model->stacks.count + i;
        const struct mp_stack_node *node = &chunk->stacks[i];
        if (id && (node->parent >= id || (node->frame >= model->frames.count && node->frame != MP_FRAME_CUT)))
            return bad_entry(chunk, "a stack", error);
    }
    return MP_OK;
}

static void note_sequence(struct mp_builder *b, const struct mp_chunk *chunk)
{
    b->gap_chunks = b->any_chunk && chunk->sequence > b->next_sequence ? chunk->sequence - b->next_sequence : 0;
    b->next_sequence = chunk->sequence + 1;
    b->any_chunk = true;
}

enum mp_status mp_builder_add(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    static void (*const adders[])(struct mp_builder *, const struct mp_chunk *) = {
        [MP_CHUNK_STRINGS] = add_strings,
        [MP_CHUNK_DEVICES] = add_devices,
        [MP_CHUNK_TRACKS] = add_tracks,
        [MP_CHUNK_THREADS] = add_threads,
        [MP_CHUNK_MODULES] = add_modules,
        [MP_CHUNK_FRAMES] = add_frames,
        [MP_CHUNK_STACKS] = add_stacks,
        [MP_CHUNK_SYMBOLS] = add_symbols,
        [MP_CHUNK_SAMPLES] = add_samples,
        [MP_CHUNK_COVERAGE] = add_coverage,
        [MP_CHUNK_EXIT] = add_exit,
        [MP_CHUNK_SEGMENTS] = add_segments,
        [MP_CHUNK_SEGMENT_PARTS] = add_parts,
        [MP_CHUNK_CALLS] = add_calls,
        [MP_CHUNK_TRACE] = add_calls,
        [MP_CHUNK_ASIDES] = add_asides,
        [MP_CHUNK_LABELS] = mp_builder_add_labels,
        [MP_CHUNK_HOLDERS] = mp_builder_add_holders,
        [MP_CHUNK_METADATA] = mp_builder_add_metadata,
        [MP_CHUNK_USES] = mp_builder_add_uses,
        [MP_CHUNK_REQUESTS] = mp_builder_add_requests,
        [MP_CHUNK_PAST] = mp_builder_add_past,
        [MP_CHUNK_PAST_PEAKS] = mp_builder_add_past_peaks,
        [MP_CHUNK_PAST_SITES] = mp_builder_add_past_sites,
    };
    note_sequence(b, chunk);
    if (chunk->kind < MP_CHUNK_KINDS && chunk->bytes) {
        struct mp_model_chunks *chunks = &b->model->chunks[chunk->kind];
        chunks->chunks++;
        chunks->entries += chunk->kind == MP_CHUNK_EVENTS_KIND ? chunk->events.count : chunk->count;
        chunks->bytes += chunk->bytes;
    }
    if (chunk->kind == MP_CHUNK_EVENTS_KIND) return mp_builder_add_events(b, chunk, error);
    if (chunk->kind == MP_CHUNK_BASE) return mp_builder_add_base(b, chunk, error);
    if (chunk->kind >= MP_CHUNK_JOB_PROCESSES && chunk->kind <= MP_CHUNK_JOB_TROUBLES) {
        if (!mp_builder_knows_job(b, chunk)) return bad_entry(chunk, "a row of a job", error);
        mp_builder_add_job(b, chunk);
        return MP_OK;
    }
    if ((size_t)chunk->kind >= sizeof adders / sizeof *adders || !adders[chunk->kind]) return MP_OK;
    enum mp_status status = check_table(b, chunk, error);
    if (status != MP_OK) return status;
    adders[chunk->kind](b, chunk);
    return MP_OK;
}

MP_ORDER(by_block_then_event, struct mp_model_resize, MP_RISING(block) ?: MP_RISING(event))

void mp_builder_finish(struct mp_builder *b, const struct mp_damage *damage, uint64_t file_bytes,
                       struct mp_model **result)
{
    struct mp_model *model = b->model;
    mp_builder_end_base(b);
    mp_builder_end_labels(b);
    mp_builder_end_requests(b);
    mp_builder_end_holders(b);
    mp_builder_end_metadata(b);
    mp_builder_end_uses(b);
    mp_builder_end_past(b);
    if (model->resizes.count)
        qsort(model->resizes.at, model->resizes.count, sizeof *model->resizes.at, by_block_then_event);
    for (size_t i = 0; i < model->sums.count; i++) {
        model->sums.at[i].end_bytes = b->levels.at[i].bytes;
        model->sums.at[i].end_blocks = b->levels.at[i].blocks;
    }
    mp_vec_each (const uint32_t, noted, &model->noted)
        if (model->events.type[*noted] == MP_EVENT_MARK)
            mp_member_take_mark(&model->start.member,
                                mp_model_text(model, model->notes.at[model->events.subject[*noted]].name));
    model->damage = *damage;
    model->file_bytes = file_bytes;
    uint64_t end = b->last_ns;
    if (model->samples.count && model->samples.at[model->samples.count - 1].time_ns > end)
        end = model->samples.at[model->samples.count - 1].time_ns;
    model->duration_ns = model->how.time_ns > end ? model->how.time_ns : end;
    char each[8]; /* a running program's file has only some of its events, and the number of all */
    mp_setting(each, sizeof each, model->start.configuration, "live_each");
    if (*each) model->part_of = model->coverage.events;
    if (!damage->cut && model->put_in > model->coverage.missed_frees) model->put_in = model->coverage.missed_frees;
    *result = model;
    b->model = NULL;
    mp_builder_free(b);
}

void mp_builder_free(struct mp_builder *b)
{
    if (!b) return;
    mp_model_free(b->model);
    mp_vec_free(&b->string_ids);
    mp_vec_free(&b->device_ids);
    mp_vec_free(&b->depths);
    mp_vec_free(&b->by_number);
    mp_vec_free(&b->levels);
    mp_vec_free(&b->base_parts);
    mp_vec_free(&b->labels);
    mp_vec_free(&b->holders);
    mp_vec_free(&b->metadata);
    mp_vec_free(&b->uses);
    mp_vec_free(&b->requests);
    mp_map_free(&b->devices);
    mp_map_free(&b->resized);
    mp_map_free(&b->job_tracks);
    mp_map_free(&b->far_numbers);
    free(b);
}
