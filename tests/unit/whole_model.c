/* Models compared; rows are in whole.c. */
#include "unit/whole.h"

#include <stdio.h>
#include <string.h>

#pragma GCC diagnostic error "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wmissing-braces" /* {0} for an array of structures */

#define ZERO(...)     0,
#define ZEROES(field) {0},

#define FIELDS_mp_model(V, N)                                                                                          \
    N(file)                                                                                                            \
    N(start)                                                                                                           \
    N(owned)                                                                                                           \
    N(derived)                                                                                                         \
    N(strings)                                                                                                         \
    N(devices)                                                                                                         \
    N(tracks) N(threads) N(modules) N(frames) N(lines) N(stacks) N(notes) N(noted) N(resizes) N(labels) N(holders)     \
        N(looks) N(uses) N(metadata) N(requests) N(samples) N(segments) N(parts) N(calls) N(asides) N(events)          \
            N(blocks) N(sums) N(past) N(past_sites) V(sample_bytes) V(host_bytes) N(job) N(coverage) N(how) N(skipped) \
                V(facts) V(steps) V(duration_ns)
#define FIELDS_mp_model_file(V, N)   V(bytes) N(chunks) V(format) N(damage) V(is_job) V(put_in) V(part_of)
#define FIELDS_mp_model_events(V, N) V(count) V(time_ns) V(subject) V(thread) V(track) V(type)
#define FIELDS_mp_model_blocks(V, N) V(count) MP_BLOCK_FIELDS(V) V(alloc_event) V(free_event) V(module) V(freed_at)
#define FIELDS_mp_model_frame(V, N)  N(raw) V(first_line) V(line_count)
#define FIELDS_mp_coverage(V, N)                                                                                       \
    V(events)                                                                                                          \
    V(dropped)                                                                                                         \
    V(truncated_stacks)                                                                                                \
    V(unmatched_stacks)                                                                                                \
    V(totals_checked)                                                                                                  \
    V(totals_wrong)                                                                                                    \
    V(unknown_frees) V(missed_frees) V(sources) V(source_count) V(notes) V(note_count) V(limits) V(limit_count)
#define FIELDS_mp_exit(V, N) V(known) V(by_signal) V(status) V(time_ns) V(text)
#define FIELDS_mp_recording_start(V, N)                                                                                \
    V(realtime_ns)                                                                                                     \
    V(monotonic_ns) V(pid) V(host) N(member) V(command) V(configuration) V(spool) V(spool_id) V(starts_late)
/* Fields that the functions below must compare. When one of these no longer compiles, add the field there, too. */
#define MODEL_LISTED(type)                                                                                             \
    __attribute__((unused)) static const struct type every_##type = {FIELDS_##type(ZERO, ZEROES)};
MODEL_LISTED(mp_model)
MODEL_LISTED(mp_model_file)
MODEL_LISTED(mp_model_events)
MODEL_LISTED(mp_model_blocks)
MODEL_LISTED(mp_model_frame)
MODEL_LISTED(mp_coverage)
MODEL_LISTED(mp_exit)
MODEL_LISTED(mp_recording_start)

struct pair {
    const struct mp_model *got, *wanted;
    char said[768];
};

static bool differ(struct pair *pair, const char *what, uint64_t got, uint64_t wanted)
{
    if (got == wanted) return false;
    snprintf(pair->said, sizeof pair->said, "%s is %llu (%#llx), should be %llu (%#llx)", what, (unsigned long long)got,
             (unsigned long long)got, (unsigned long long)wanted, (unsigned long long)wanted);
    return true;
}

static bool differ_text(struct pair *pair, const char *what, const char *got, const char *wanted)
{
    if (!strcmp(got, wanted)) return false;
    snprintf(pair->said, sizeof pair->said, "%s is \"%.300s\", should be \"%.300s\"", what, got, wanted);
    return true;
}

static const char *got_text(const struct pair *pair, uint32_t id)
{
    return mp_model_text(pair->got, id);
}

static const char *wanted_text(const struct pair *pair, uint32_t id)
{
    return mp_model_text(pair->wanted, id);
}

static bool differ_rows(struct pair *pair, const char *what, const struct whole_type *type, const void *got,
                        size_t got_count, const void *wanted, size_t wanted_count)
{
    for (size_t i = 0; i < got_count && i < wanted_count; i++) {
        const char *said =
            whole_difference(type, (const char *)got + i * type->bytes, (const char *)wanted + i * type->bytes,
                             &pair->got->strings, &pair->wanted->strings);
        if (!said) continue;
        snprintf(pair->said, sizeof pair->said, "%s[%zu]: %s", what, i, said);
        return true;
    }
    char counted[64];
    snprintf(counted, sizeof counted, "count of %s", what);
    return differ(pair, counted, got_count, wanted_count);
}
#define ROWS(type, member)                                                                                             \
    differ_rows(pair, #member, whole_##type(), pair->got->member.at, pair->got->member.count, pair->wanted->member.at, \
                pair->wanted->member.count)

static bool differ_frames(struct pair *pair)
{
    if (differ(pair, "count of frames", pair->got->frames.count, pair->wanted->frames.count)) return true;
    for (size_t i = 0; i < pair->got->frames.count; i++) {
        const struct mp_model_frame *a = &pair->got->frames.at[i], *b = &pair->wanted->frames.at[i];
        if (differ_rows(pair, "frames", whole_mp_frame(), &a->raw, 1, &b->raw, 1) ||
            differ_rows(pair, "lines of a frame", whole_mp_model_line(), pair->got->lines.at + a->first_line,
                        a->line_count, pair->wanted->lines.at + b->first_line, b->line_count))
            return true;
    }
    return false;
}

static bool differ_tables(struct pair *pair)
{
    return ROWS(mp_device, devices) || ROWS(mp_track, tracks) || ROWS(mp_thread_info, threads) ||
           ROWS(mp_module, modules) || differ_frames(pair) || ROWS(mp_stack_node, stacks);
}

static bool differ_jobs(struct pair *pair)
{
    return ROWS(mp_job_process, job.processes) || ROWS(mp_job_track, job.tracks) || ROWS(mp_job_site, job.sites) ||
           ROWS(mp_job_holding, job.holdings) || ROWS(mp_job_finding, job.findings) || ROWS(mp_job_point, job.points) ||
           ROWS(mp_job_trouble, job.troubles);
}

/* The columns of events and blocks, by name. */
static bool differ_events(struct pair *pair)
{
    const struct mp_model_events *got = &pair->got->events, *wanted = &pair->wanted->events;
    char what[64];
    for (size_t i = 0; i < got->count && i < wanted->count; i++) {
        snprintf(what, sizeof what, "event %zu's", i);
#define COLUMN(name)                                                                                                   \
    if (got->name[i] != wanted->name[i]) {                                                                             \
        snprintf(what, sizeof what, "event %zu's " #name, i);                                                          \
        return differ(pair, what, got->name[i], wanted->name[i]);                                                      \
    }
        COLUMN(type)
        COLUMN(time_ns)
        COLUMN(subject)
        COLUMN(thread)
        COLUMN(track)
#undef COLUMN
    }
    return differ(pair, "count of events", got->count, wanted->count) ||
           differ_rows(pair, "notes", whole_mp_model_note(), pair->got->notes.at, pair->got->notes.count,
                       pair->wanted->notes.at, pair->wanted->notes.count) ||
           differ(pair, "count of noted", pair->got->noted.count, pair->wanted->noted.count) ||
           (pair->got->noted.count && differ(pair, "the events with notes differ: 1",
                                             !memcmp(pair->got->noted.at, pair->wanted->noted.at,
                                                     pair->got->noted.count * sizeof *pair->got->noted.at),
                                             1));
}

static bool differ_blocks(struct pair *pair, unsigned but)
{
    const struct mp_model_blocks *got = &pair->got->blocks, *wanted = &pair->wanted->blocks;
    char what[64];
    for (uint32_t i = 0; i < got->count && i < wanted->count; i++) {
#define COLUMN(name, ...)                                                                                              \
    if (got->name[i] != wanted->name[i] && !(but & WHOLE_BUT_ADDRESSES && !strcmp(#name, "address"))) {                \
        snprintf(what, sizeof what, "block %u's " #name, i);                                                           \
        return differ(pair, what, got->name[i], wanted->name[i]);                                                      \
    }
        MP_BLOCK_FIELDS(COLUMN)
        COLUMN(alloc_event)
        COLUMN(free_event)
#undef COLUMN
        snprintf(what, sizeof what, "block %u's module", i);
        if (differ_text(pair, what, got_text(pair, mp_model_module(pair->got, i)),
                        wanted_text(pair, mp_model_module(pair->wanted, i))))
            return true;
        snprintf(what, sizeof what, "block %u's freed_at", i);
        if (differ(pair, what, mp_model_freed_at(pair->got, i), mp_model_freed_at(pair->wanted, i))) return true;
    }
    return differ(pair, "count of blocks", got->count, wanted->count) || ROWS(mp_model_resize, resizes) ||
           ROWS(mp_model_label, labels) || ROWS(mp_model_request, requests) || ROWS(mp_model_holder, holders) ||
           ROWS(mp_model_look, looks) || ROWS(mp_model_metadata, metadata) || ROWS(mp_model_use, uses);
}

static bool differ_texts(struct pair *pair, const char *what, const uint32_t *got, uint32_t got_count,
                         const uint32_t *wanted, uint32_t wanted_count)
{
    for (uint32_t i = 0; i < got_count && i < wanted_count; i++)
        if (differ_text(pair, what, got_text(pair, got[i]), wanted_text(pair, wanted[i]))) return true;
    return differ(pair, what, got_count, wanted_count);
}

static bool differ_coverage(struct pair *pair)
{
    const struct mp_coverage *got = &pair->got->coverage, *wanted = &pair->wanted->coverage;
#define COUNTER(name) differ(pair, "coverage." #name, got->name, wanted->name)
    return COUNTER(events) || COUNTER(dropped) || COUNTER(truncated_stacks) || COUNTER(unmatched_stacks) ||
           COUNTER(totals_checked) || COUNTER(totals_wrong) || COUNTER(unknown_frees) || COUNTER(missed_frees) ||
           differ_texts(pair, "sources", got->sources, got->source_count, wanted->sources, wanted->source_count) ||
           differ_texts(pair, "notes of coverage", got->notes, got->note_count, wanted->notes, wanted->note_count) ||
           differ_texts(pair, "limits", got->limits, got->limit_count, wanted->limits, wanted->limit_count);
#undef COUNTER
}

static bool differ_exit(struct pair *pair)
{
    const struct mp_exit *got = &pair->got->how, *wanted = &pair->wanted->how;
    return differ(pair, "exit known", got->known, wanted->known) ||
           differ(pair, "exit by signal", got->by_signal, wanted->by_signal) ||
           differ(pair, "exit status", got->status, wanted->status) ||
           differ(pair, "exit time", got->time_ns, wanted->time_ns) ||
           differ_text(pair, "exit text", got_text(pair, got->text), wanted_text(pair, wanted->text)) ||
           differ(pair, "duration", pair->got->duration_ns, pair->wanted->duration_ns);
}

static bool differ_start(struct pair *pair)
{
    const struct mp_recording_start *got = &pair->got->start, *wanted = &pair->wanted->start;
    if (differ(pair, "start realtime", got->realtime_ns, wanted->realtime_ns) ||
        differ(pair, "start monotonic", got->monotonic_ns, wanted->monotonic_ns) ||
        differ(pair, "start pid", got->pid, wanted->pid) || differ_text(pair, "host", got->host, wanted->host) ||
        differ(pair, "start: members are the same: 1", !memcmp(&got->member, &wanted->member, sizeof got->member), 1) ||
        differ_text(pair, "configuration", got->configuration, wanted->configuration) ||
        differ_text(pair, "spool", got->spool, wanted->spool) ||
        differ(pair, "spool_id", got->spool_id, wanted->spool_id) ||
        differ(pair, "starts_late", got->starts_late, wanted->starts_late))
        return true;
    for (size_t i = 0; got->command && wanted->command && (got->command[i] || wanted->command[i]); i++)
        if (!got->command[i] || !wanted->command[i] || strcmp(got->command[i], wanted->command[i]))
            return differ_text(pair, "command", got->command[i] ? got->command[i] : "(its end)",
                               wanted->command[i] ? wanted->command[i] : "(its end)");
    return false;
}

static bool differ_file(struct pair *pair)
{
    for (unsigned kind = 0; kind < MP_CHUNK_KINDS; kind++)
        if (differ(pair, "chunks of a kind", pair->got->file.chunks[kind].chunks,
                   pair->wanted->file.chunks[kind].chunks) ||
            differ(pair, "entries of a kind", pair->got->file.chunks[kind].entries,
                   pair->wanted->file.chunks[kind].entries) ||
            differ(pair, "bytes of a kind", pair->got->file.chunks[kind].bytes, pair->wanted->file.chunks[kind].bytes))
            return true;
    return differ(pair, "file_bytes", pair->got->file.bytes, pair->wanted->file.bytes) ||
           differ_text(pair, "format", pair->got->file.format, pair->wanted->file.format);
}

const char *whole_model_difference(const struct mp_model *got, const struct mp_model *wanted, unsigned but)
{
    static struct pair both;
    struct pair *pair = &both;
    both = (struct pair){.got = got, .wanted = wanted};
    bool differs =
        differ_tables(pair) || differ_jobs(pair) || differ_events(pair) || differ_blocks(pair, but) ||
        ROWS(mp_sample, samples) || ROWS(mp_segment, segments) || ROWS(mp_segment_part, parts) ||
        ROWS(mp_allocator_call, calls) || ROWS(mp_aside, asides) || ROWS(mp_model_track_sum, sums) ||
        differ_rows(pair, "past", whole_mp_past(), &got->past, 1, &wanted->past, 1) || ROWS(mp_past_site, past_sites) ||
        differ(pair, "sample_bytes", got->sample_bytes, wanted->sample_bytes) ||
        differ(pair, "host_bytes", got->host_bytes, wanted->host_bytes) ||
        differ(pair, "is_job", got->file.is_job, wanted->file.is_job) ||
        differ(pair, "part_of", got->file.part_of, wanted->file.part_of) ||
        differ(pair, "cut", got->file.damage.cut, wanted->file.damage.cut) ||
        differ(pair, "lost bytes", got->file.damage.lost_bytes, wanted->file.damage.lost_bytes) ||
        differ(pair, "lost chunks", got->file.damage.lost_chunks, wanted->file.damage.lost_chunks) ||
        (!(but & WHOLE_BUT_FILE) && differ_file(pair)) || (!(but & WHOLE_BUT_START) && differ_start(pair)) ||
        (!(but & WHOLE_BUT_COVERAGE) && differ_coverage(pair)) || (!(but & WHOLE_BUT_EXIT) && differ_exit(pair));
    return differs ? both.said : NULL;
}
