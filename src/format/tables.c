#include "format/tables.h"

#include <string.h>

#define COLUMN(name, type, member, rule, encoding, optional)                                                           \
    {                                                                                                                  \
        name, offsetof(struct type, member), sizeof(((struct type *)0)->member), rule, MP_ENCODING_##encoding,         \
            optional                                                                                                   \
    }
#define NAMED(name, type, member, rule, encoding) COLUMN(name, type, member, rule, encoding, false)
#define FIELD(type, member, rule, encoding)       COLUMN(#member, type, member, rule, encoding, false)
#define OPTIONAL(type, member, rule, encoding)    COLUMN(#member, type, member, rule, encoding, true)
#define LIST(...)                                                                                                      \
    (const struct mp_field[])                                                                                          \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define FIELDS(...) .fields = LIST(__VA_ARGS__), .field_count = sizeof(LIST(__VA_ARGS__)) / sizeof(struct mp_field)

#define CALL_FIELDS                                                                                                    \
    FIELDS(FIELD(mp_allocator_call, address, MP_FIELD_ANY, DELTA),                                                     \
           FIELD(mp_allocator_call, bytes, MP_FIELD_ANY, VARINT),                                                      \
           FIELD(mp_allocator_call, stream, MP_FIELD_ANY, DELTA), FIELD(mp_allocator_call, pool, MP_FIELD_ANY, DELTA), \
           FIELD(mp_allocator_call, track, MP_CHUNK_TRACKS, VARINT),                                                   \
           FIELD(mp_allocator_call, action, MP_FIELD_ACTION, PLANES),                                                  \
           OPTIONAL(mp_allocator_call, keys, MP_FIELD_ANY, VARINT))

static const struct mp_table_layout tables[] = {
    {.kind = MP_CHUNK_DEVICES,
     .name = "device",
     .row = sizeof(struct mp_device),
     FIELDS(FIELD(mp_device, name, MP_CHUNK_STRINGS, VARINT), FIELD(mp_device, uuid, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_device, model, MP_CHUNK_STRINGS, VARINT), FIELD(mp_device, total_bytes, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_TRACKS,
     .name = "track",
     .row = sizeof(struct mp_track),
     FIELDS(FIELD(mp_track, device, MP_CHUNK_DEVICES, VARINT), FIELD(mp_track, layer, MP_FIELD_ANY, VARINT),
            FIELD(mp_track, size_basis, MP_FIELD_ANY, VARINT), FIELD(mp_track, name, MP_CHUNK_STRINGS, VARINT))},
    {.kind = MP_CHUNK_THREADS,
     .name = "thread",
     .row = sizeof(struct mp_thread_info),
     FIELDS(FIELD(mp_thread_info, tid, MP_FIELD_ANY, DELTA), FIELD(mp_thread_info, name, MP_CHUNK_STRINGS, VARINT))},
    {.kind = MP_CHUNK_MODULES,
     .name = "module",
     .row = sizeof(struct mp_module),
     FIELDS(FIELD(mp_module, path, MP_CHUNK_STRINGS, VARINT), FIELD(mp_module, start, MP_FIELD_ANY, DELTA),
            FIELD(mp_module, end, MP_FIELD_ANY, DELTA), FIELD(mp_module, bias, MP_FIELD_ANY, DELTA),
            NAMED("size", mp_module, file.size, MP_FIELD_ANY, VARINT),
            NAMED("inode", mp_module, file.inode, MP_FIELD_ANY, DELTA),
            NAMED("mtime", mp_module, file.mtime_ns, MP_FIELD_ANY, DELTA),
            NAMED("build_id_size", mp_module, file.build_id_size, MP_FIELD_BUILD_ID, VARINT),
            NAMED("build_id", mp_module, file.build_id, MP_FIELD_ANY, BYTES))},
    {.kind = MP_CHUNK_FRAMES,
     .name = "frame",
     .row = sizeof(struct mp_frame),
     FIELDS(FIELD(mp_frame, language, MP_FIELD_ANY, PLANES), FIELD(mp_frame, module, MP_CHUNK_MODULES, VARINT),
            FIELD(mp_frame, address, MP_FIELD_ANY, DELTA), FIELD(mp_frame, function, MP_CHUNK_STRINGS, DELTA),
            FIELD(mp_frame, file, MP_CHUNK_STRINGS, DELTA), FIELD(mp_frame, line, MP_FIELD_ANY, VARINT),
            OPTIONAL(mp_frame, more, MP_CHUNK_STRINGS, VARINT))},
    {.kind = MP_CHUNK_STACKS,
     .name = "stack",
     .row = sizeof(struct mp_stack_node),
     FIELDS(FIELD(mp_stack_node, parent, MP_FIELD_PARENT, DELTA),
            FIELD(mp_stack_node, frame, MP_FIELD_STACK_FRAME, DELTA))},
    {.kind = MP_CHUNK_SYMBOLS,
     .name = "symbol",
     .row = sizeof(struct mp_symbol),
     FIELDS(FIELD(mp_symbol, frame, MP_CHUNK_FRAMES, DELTA), FIELD(mp_symbol, function, MP_CHUNK_STRINGS, DELTA),
            FIELD(mp_symbol, file, MP_CHUNK_STRINGS, DELTA), FIELD(mp_symbol, line, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_BASE,
     .name = "base block",
     .row = sizeof(struct mp_base_block),
     FIELDS(FIELD(mp_base_block, block, MP_FIELD_ANY, DELTA), FIELD(mp_base_block, address, MP_FIELD_ANY, DELTA),
            FIELD(mp_base_block, bytes, MP_FIELD_ANY, VARINT),
            NAMED("birth", mp_base_block, birth_ns, MP_FIELD_ANY, DELTA),
            FIELD(mp_base_block, stack, MP_CHUNK_STACKS, VARINT), FIELD(mp_base_block, track, MP_CHUNK_TRACKS, VARINT),
            FIELD(mp_base_block, kind, MP_FIELD_ANY, PLANES), OPTIONAL(mp_base_block, module, MP_CHUNK_STRINGS, VARINT),
            OPTIONAL(mp_base_block, role, MP_FIELD_ANY, PLANES),
            OPTIONAL(mp_base_block, label, MP_CHUNK_STRINGS, VARINT),
            COLUMN("requested", mp_base_block, request.bytes, MP_FIELD_ANY, VARINT, true),
            COLUMN("stream", mp_base_block, request.stream, MP_FIELD_ANY, DELTA, true),
            COLUMN("pool", mp_base_block, request.pool, MP_FIELD_ANY, DELTA, true))},
    {.kind = MP_CHUNK_SAMPLES,
     .name = "sample",
     .row = sizeof(struct mp_sample),
     FIELDS(NAMED("time", mp_sample, time_ns, MP_FIELD_ANY, DELTA), FIELD(mp_sample, counter, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_sample, value, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_SEGMENTS,
     .name = "segment",
     .row = sizeof(struct mp_segment),
     FIELDS(FIELD(mp_segment, address, MP_FIELD_ANY, DELTA), FIELD(mp_segment, bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_segment, stream, MP_FIELD_ANY, DELTA), FIELD(mp_segment, pool, MP_FIELD_ANY, DELTA),
            FIELD(mp_segment, track, MP_CHUNK_TRACKS, VARINT), FIELD(mp_segment, small, MP_FIELD_BOOL, VARINT),
            FIELD(mp_segment, expandable, MP_FIELD_BOOL, VARINT), OPTIONAL(mp_segment, keys, MP_FIELD_ANY, VARINT),
            OPTIONAL(mp_segment, stack, MP_CHUNK_STACKS, VARINT))},
    {.kind = MP_CHUNK_SEGMENT_PARTS,
     .name = "part of a segment",
     .row = sizeof(struct mp_segment_part),
     FIELDS(FIELD(mp_segment_part, bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_segment_part, requested, MP_FIELD_ANY, VARINT),
            FIELD(mp_segment_part, segment, MP_FIELD_SEGMENT, DELTA),
            FIELD(mp_segment_part, state, MP_FIELD_STATE, PLANES))},
    {.kind = MP_CHUNK_CALLS, .name = "call of the allocator", .row = sizeof(struct mp_allocator_call), CALL_FIELDS},
    /* Not written any more. Readers pass over its other columns. */
    {.kind = MP_CHUNK_TRACE,
     .name = "entry of an allocator's trace",
     .row = sizeof(struct mp_allocator_call),
     CALL_FIELDS},
    {.kind = MP_CHUNK_ASIDES,
     .name = "aside",
     .row = sizeof(struct mp_aside),
     FIELDS(FIELD(mp_aside, text, MP_CHUNK_STRINGS, VARINT), FIELD(mp_aside, kind, MP_FIELD_ANY, PLANES))},
    {.kind = MP_CHUNK_LABELS,
     .name = "label",
     .row = sizeof(struct mp_label),
     FIELDS(NAMED("time", mp_label, time_ns, MP_FIELD_ANY, DELTA), FIELD(mp_label, block, MP_FIELD_ANY, DELTA),
            FIELD(mp_label, role, MP_FIELD_ANY, PLANES), FIELD(mp_label, name, MP_CHUNK_STRINGS, DELTA))},
    {.kind = MP_CHUNK_HOLDERS,
     .name = "holder",
     .row = sizeof(struct mp_block_holder),
     FIELDS(
         NAMED("time", mp_block_holder, time_ns, MP_FIELD_ANY, DELTA),
         FIELD(mp_block_holder, block, MP_FIELD_ANY, DELTA), FIELD(mp_block_holder, kind, MP_FIELD_ANY, PLANES),
         FIELD(mp_block_holder, certain, MP_FIELD_BOOL, VARINT), FIELD(mp_block_holder, path, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_block_holder, file, MP_CHUNK_STRINGS, VARINT), FIELD(mp_block_holder, line, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_USES,
     .name = "use of a block",
     .row = sizeof(struct mp_block_use),
     FIELDS(NAMED("time", mp_block_use, time_ns, MP_FIELD_ANY, DELTA), FIELD(mp_block_use, block, MP_FIELD_ANY, DELTA),
            FIELD(mp_block_use, operator, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_block_use, node, MP_CHUNK_STRINGS, VARINT), FIELD(mp_block_use, shape, MP_CHUNK_STRINGS, VARINT),
            OPTIONAL(mp_block_use, module, MP_CHUNK_STRINGS, DELTA), FIELD(mp_block_use, how, MP_FIELD_ANY, PLANES))},
    {.kind = MP_CHUNK_METADATA,
     .name = "metadata of a block",
     .row = sizeof(struct mp_block_metadata),
     FIELDS(NAMED("time", mp_block_metadata, time_ns, MP_FIELD_ANY, DELTA),
            FIELD(mp_block_metadata, block, MP_FIELD_ANY, DELTA), FIELD(mp_block_metadata, kind, MP_FIELD_ANY, PLANES),
            FIELD(mp_block_metadata, text, MP_CHUNK_STRINGS, DELTA))},
    {.kind = MP_CHUNK_REQUESTS,
     .name = "request",
     .row = sizeof(struct mp_block_request),
     FIELDS(FIELD(mp_block_request, block, MP_FIELD_ANY, DELTA),
            NAMED("requested", mp_block_request, request.bytes, MP_FIELD_ANY, VARINT),
            NAMED("stream", mp_block_request, request.stream, MP_FIELD_ANY, DELTA),
            NAMED("pool", mp_block_request, request.pool, MP_FIELD_ANY, DELTA))},
    {.kind = MP_CHUNK_PAST,
     .name = "past",
     .row = sizeof(struct mp_past),
     FIELDS(FIELD(mp_past, events, MP_FIELD_ANY, VARINT), FIELD(mp_past, steps, MP_FIELD_ANY, VARINT),
            NAMED("time", mp_past, time_ns, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_PAST_PEAKS,
     .name = "past peak",
     .row = sizeof(struct mp_past_peak),
     FIELDS(FIELD(mp_past_peak, track, MP_CHUNK_TRACKS, VARINT), FIELD(mp_past_peak, bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_past_peak, blocks, MP_FIELD_ANY, VARINT),
            NAMED("time", mp_past_peak, time_ns, MP_FIELD_ANY, VARINT), FIELD(mp_past_peak, step, MP_FIELD_ANY, VARINT),
            NAMED("reserved", mp_past_peak, reserved_bytes, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_PAST_SITES,
     .name = "past site",
     .row = sizeof(struct mp_past_site),
     FIELDS(FIELD(mp_past_site, track, MP_CHUNK_TRACKS, VARINT), FIELD(mp_past_site, stack, MP_CHUNK_STACKS, DELTA),
            FIELD(mp_past_site, kind, MP_FIELD_ANY, PLANES), FIELD(mp_past_site, module, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_past_site, bytes, MP_FIELD_ANY, VARINT), FIELD(mp_past_site, blocks, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_JOB_PROCESSES,
     .name = "process of a job",
     .row = sizeof(struct mp_job_process),
     FIELDS(
         FIELD(mp_job_process, start_unix_ns, MP_FIELD_ANY, DELTA),
         FIELD(mp_job_process, duration_ns, MP_FIELD_ANY, DELTA), FIELD(mp_job_process, events, MP_FIELD_ANY, VARINT),
         FIELD(mp_job_process, dropped, MP_FIELD_ANY, VARINT), FIELD(mp_job_process, steps, MP_FIELD_ANY, VARINT),
         FIELD(mp_job_process, growth, MP_FIELD_ANY, VARINT), FIELD(mp_job_process, path, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_job_process, command, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_process, host, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_job_process, role, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_process, job, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_job_process, exit, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_process, missing, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_job_process, reason, MP_CHUNK_STRINGS, DELTA),
         FIELD(mp_job_process, step_source, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_process, pid, MP_FIELD_ANY, DELTA),
         FIELD(mp_job_process, parent, MP_FIELD_ANY, DELTA), FIELD(mp_job_process, rank, MP_FIELD_ANY, DELTA),
         FIELD(mp_job_process, local_rank, MP_FIELD_ANY, DELTA), FIELD(mp_job_process, world_size, MP_FIELD_ANY, DELTA),
         FIELD(mp_job_process, node, MP_FIELD_ANY, DELTA), FIELD(mp_job_process, verdict, MP_FIELD_ANY, VARINT),
         FIELD(mp_job_process, limited, MP_FIELD_BOOL, VARINT), FIELD(mp_job_process, helper, MP_FIELD_BOOL, VARINT))},
    {.kind = MP_CHUNK_JOB_TRACKS,
     .name = "track of a job",
     .row = sizeof(struct mp_job_track),
     FIELDS(FIELD(mp_job_track, events, MP_FIELD_ANY, VARINT), FIELD(mp_job_track, peak_bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, peak_ns, MP_FIELD_ANY, DELTA), FIELD(mp_job_track, peak_blocks, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, peak_step, MP_FIELD_ANY, VARINT), FIELD(mp_job_track, end_bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, end_blocks, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, reserved_bytes, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, device_bytes, MP_FIELD_ANY, VARINT), FIELD(mp_job_track, process, MP_FIELD_ANY, DELTA),
            FIELD(mp_job_track, id, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_track, kind, MP_CHUNK_STRINGS, DELTA),
            FIELD(mp_job_track, device, MP_CHUNK_STRINGS, DELTA), FIELD(mp_job_track, uuid, MP_CHUNK_STRINGS, DELTA),
            FIELD(mp_job_track, layer, MP_FIELD_ANY, VARINT), FIELD(mp_job_track, size_basis, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_track, chosen, MP_FIELD_BOOL, VARINT), FIELD(mp_job_track, memory, MP_FIELD_BOOL, VARINT))},
    {.kind = MP_CHUNK_JOB_SITES,
     .name = "site of a job",
     .row = sizeof(struct mp_job_site),
     FIELDS(FIELD(mp_job_site, bytes, MP_FIELD_ANY, VARINT), FIELD(mp_job_site, blocks, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_site, least, MP_FIELD_ANY, VARINT), FIELD(mp_job_site, most, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_site, stack, MP_CHUNK_STACKS, DELTA), FIELD(mp_job_site, kind, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_job_site, processes, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_site, least_process, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_site, most_process, MP_FIELD_ANY, VARINT), FIELD(mp_job_site, sense, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_JOB_HOLDINGS,
     .name = "holding of a process",
     .row = sizeof(struct mp_job_holding),
     FIELDS(FIELD(mp_job_holding, bytes, MP_FIELD_ANY, VARINT), FIELD(mp_job_holding, blocks, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_holding, process, MP_FIELD_ANY, DELTA), FIELD(mp_job_holding, stack, MP_CHUNK_STACKS, DELTA))},
    {.kind = MP_CHUNK_JOB_FINDINGS,
     .name = "finding of a process",
     .row = sizeof(struct mp_job_finding),
     FIELDS(FIELD(mp_job_finding, bytes, MP_FIELD_ANY, VARINT), FIELD(mp_job_finding, blocks, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_finding, bytes_per_step, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_finding, eta_oom_steps, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_finding, process, MP_FIELD_ANY, DELTA), FIELD(mp_job_finding, track, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_job_finding, stack, MP_CHUNK_STACKS, DELTA),
            FIELD(mp_job_finding, first_step, MP_FIELD_ANY, VARINT), FIELD(mp_job_finding, class, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_finding, certain, MP_FIELD_ANY, VARINT),
            OPTIONAL(mp_job_finding, holder, MP_CHUNK_STRINGS, VARINT))},
    {.kind = MP_CHUNK_JOB_POINTS,
     .name = "point of a curve",
     .row = sizeof(struct mp_job_point),
     FIELDS(FIELD(mp_job_point, at, MP_FIELD_ANY, DELTA), FIELD(mp_job_point, most, MP_FIELD_ANY, DELTA),
            FIELD(mp_job_point, last, MP_FIELD_ANY, DELTA), FIELD(mp_job_point, process, MP_FIELD_ANY, DELTA),
            FIELD(mp_job_point, track, MP_CHUNK_STRINGS, VARINT), FIELD(mp_job_point, shift, MP_FIELD_ANY, VARINT),
            FIELD(mp_job_point, curve, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_JOB_TROUBLES,
     .name = "trouble of a job",
     .row = sizeof(struct mp_job_trouble),
     FIELDS(FIELD(mp_job_trouble, path, MP_CHUNK_STRINGS, VARINT),
            FIELD(mp_job_trouble, text, MP_CHUNK_STRINGS, VARINT),
            OPTIONAL(mp_job_trouble, kind, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_COVERAGE,
     .name = "coverage",
     .row = sizeof(struct mp_coverage),
     FIELDS(FIELD(mp_coverage, events, MP_FIELD_ANY, VARINT), FIELD(mp_coverage, dropped, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, truncated_stacks, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, unmatched_stacks, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, totals_checked, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, totals_wrong, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, unknown_frees, MP_FIELD_ANY, VARINT),
            FIELD(mp_coverage, missed_frees, MP_FIELD_ANY, VARINT))},
    {.kind = MP_CHUNK_INDEX,
     .name = "index entry",
     .row = sizeof(struct mp_index_entry),
     FIELDS(FIELD(mp_index_entry, offset, MP_FIELD_ANY, DELTA), FIELD(mp_index_entry, kind, MP_FIELD_ANY, PLANES),
            FIELD(mp_index_entry, sequence, MP_FIELD_ANY, DELTA), FIELD(mp_index_entry, count, MP_FIELD_ANY, VARINT),
            NAMED("time", mp_index_entry, time_ns, MP_FIELD_ANY, DELTA),
            NAMED("end", mp_index_entry, end_ns, MP_FIELD_ANY, DELTA))},
    {.kind = MP_CHUNK_EXIT,
     .name = "exit",
     .row = sizeof(struct mp_exit),
     FIELDS(FIELD(mp_exit, known, MP_FIELD_BOOL, VARINT), FIELD(mp_exit, by_signal, MP_FIELD_BOOL, VARINT),
            FIELD(mp_exit, status, MP_FIELD_ANY, VARINT), NAMED("time", mp_exit, time_ns, MP_FIELD_ANY, VARINT),
            FIELD(mp_exit, text, MP_CHUNK_STRINGS, VARINT))},
};

const struct mp_table_layout *mp_table_of(enum mp_chunk_kind kind)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].kind == kind) return &tables[i];
    return NULL;
}

uint64_t mp_table_most(enum mp_chunk_kind kind)
{
    static const uint32_t most[] = {
        [MP_CHUNK_STRINGS] = 1u << 24, [MP_CHUNK_DEVICES] = 512,      [MP_CHUNK_TRACKS] = 4096,
        [MP_CHUNK_THREADS] = 1u << 24, [MP_CHUNK_MODULES] = 1u << 18, [MP_CHUNK_FRAMES] = 1u << 24,
        [MP_CHUNK_STACKS] = 1u << 26,
    };
    return most[kind];
}

#define EACH_WIDTH(width, ACTION)                                                                                      \
    switch (width) {                                                                                                   \
    case 1:                                                                                                            \
        ACTION(uint8_t);                                                                                               \
        break;                                                                                                         \
    case 2:                                                                                                            \
        ACTION(uint16_t);                                                                                              \
        break;                                                                                                         \
    case 4:                                                                                                            \
        ACTION(uint32_t);                                                                                              \
        break;                                                                                                         \
    default:                                                                                                           \
        ACTION(uint64_t);                                                                                              \
        break;                                                                                                         \
    }

void mp_table_gather(const struct mp_field *field, const void *rows, size_t row, size_t count, uint64_t *to)
{
    if (!count) return; /* without rows there is no pointer */
    const char *at = (const char *)rows + field->offset;
#define GATHER(type)                                                                                                   \
    for (size_t i = 0; i < count; i++, at += row) {                                                                    \
        type value;                                                                                                    \
        memcpy(&value, at, sizeof value);                                                                              \
        to[i] = value;                                                                                                 \
    }
    EACH_WIDTH(field->width, GATHER)
}

void mp_table_scatter(const struct mp_field *field, void *rows, size_t row, size_t count, const uint64_t *from)
{
    char *at = (char *)rows + field->offset;
#define SCATTER(type)                                                                                                  \
    for (size_t i = 0; i < count; i++, at += row) {                                                                    \
        type value = (type)from[i];                                                                                    \
        memcpy(at, &value, sizeof value);                                                                              \
    }
    EACH_WIDTH(field->width, SCATTER)
}

static bool keeps_rule(unsigned rule, uint64_t value, uint64_t id, const struct mp_table_counts *counts)
{
    switch (rule) {
    case MP_FIELD_ANY:
        return true;
    case MP_FIELD_BOOL:
        return value <= 1;
    case MP_FIELD_BUILD_ID:
        return value <= MP_BUILD_ID_MAX;
    case MP_FIELD_ACTION:
        return value < MP_TORCH_ACTIONS;
    case MP_FIELD_SEGMENT:
        return value < counts->segments;
    case MP_FIELD_STATE:
        return value < MP_TORCH_STATES;
    case MP_FIELD_PARENT:
        return value < id || (!id && !value);
    case MP_FIELD_STACK_FRAME:
        return value == MP_FRAME_CUT || mp_id_known(counts, MP_CHUNK_FRAMES, value) || (!id && !value);
    default:
        return mp_id_known(counts, (enum mp_chunk_kind)rule, value);
    }
}

bool mp_table_check(const struct mp_field *field, const uint64_t *values, size_t count, uint64_t first,
                    const struct mp_table_counts *counts, size_t *bad)
{
    if (field->rule == MP_FIELD_ANY) return true;
    for (size_t i = 0; i < count; i++) {
        if (keeps_rule(field->rule, values[i], first + i, counts)) continue;
        *bad = i;
        return false;
    }
    return true;
}
