/* The allocator's state in a snapshot, as rows of a recording, so that it can be replayed. */
#include "exchange/pytorch/pytorch_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "base/words.h"
#include "exchange/common/import_tables.h"
#include "model/builder.h"

/* A file's allocators as rows of a recording: their segments at the end, in the file's order, and their traces. The
 * functions below append to existing rows. The caller frees the rows. */
struct mp_pytorch_rows {
    MP_VEC(struct mp_segment) segments;
    MP_VEC(struct mp_segment_part) parts;
    MP_VEC(struct mp_allocator_call) calls;
    MP_VEC(struct mp_block_metadata) metadata;
};

/* Sentences, as text ids of the records' values: the file's gaps (`limits`) and other remarks (`notes`). `has_times`:
 * the trace has times. */
struct mp_pytorch_sentences {
    MP_VEC(uint32_t) limits, notes;
};

/* Adds the parts of a segment of the device; *part is the next part to add. */
static void add_parts(const struct mp_pytorch_device *device, size_t segment, size_t *part,
                      struct mp_pytorch_rows *rows)
{
    for (; *part < device->parts.count && device->parts.at[*part].segment == segment; ++*part) {
        struct mp_segment_part row = device->parts.at[*part];
        row.segment = (uint32_t)rows->segments.count - 1;
        mp_vec_add(&rows->parts, row);
    }
}

static void add_segment(const struct mp_pytorch_segment *from, uint16_t track, struct mp_pytorch_rows *rows)
{
    const struct mp_segment segment = {.address = from->address,
                                       .bytes = from->bytes,
                                       .stream = from->stream,
                                       .pool = from->pool,
                                       .track = track,
                                       .small = from->small,
                                       .expandable = from->expandable,
                                       .stack = from->stack};
    if (rows->segments.count >= UINT32_MAX - 1) mp_memory_lacks(0);
    mp_vec_add(&rows->segments, segment);
}

static void pytorch_segment_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *devices,
                                 const uint16_t *tracks, size_t count, struct mp_pytorch_rows *rows)
{
    struct {
        size_t segment, part;
    } *next = mp_alloc_zeroed(count + 1, sizeof *next);
    for (;;) {
        size_t device = count;
        for (size_t i = 0; i < count; i++)
            if (next[i].segment < devices[i].segments.count &&
                (device == count ||
                 devices[i].segments.at[next[i].segment] < devices[device].segments.at[next[device].segment]))
                device = i;
        if (device == count) break;
        const struct mp_pytorch_segment *from =
            &records->segments.at[devices[device].segments.at[next[device].segment]];
        if (!from->overlaps) {
            add_segment(from, tracks[device], rows);
            add_parts(&devices[device], next[device].segment, &next[device].part, rows);
        }
        next[device].segment++;
    }
    free(next);
}

/* The action of a trace's entry in a recording's terms. */
static enum mp_torch_action action_of(const struct mp_pytorch_device *device, const struct mp_pytorch_entry *entry)
{
    static const uint8_t actions[MP_ACTIONS] = {
        [MP_ACTION_ALLOC] = MP_TORCH_ALLOC,
        [MP_ACTION_FREE] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_FREE_REQUESTED] = MP_TORCH_FREE_REQUESTED,
        [MP_ACTION_FREE_COMPLETED] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_SEGMENT_ALLOC] = MP_TORCH_SEGMENT_ALLOC,
        [MP_ACTION_SEGMENT_FREE] = MP_TORCH_SEGMENT_FREE,
        [MP_ACTION_SEGMENT_MAP] = MP_TORCH_SEGMENT_MAP,
        [MP_ACTION_SEGMENT_UNMAP] = MP_TORCH_SEGMENT_UNMAP,
        [MP_ACTION_SNAPSHOT] = MP_TORCH_SNAPSHOT,
        [MP_ACTION_OOM] = MP_TORCH_OUT_OF_MEMORY,
        [MP_ACTION_USER_DEFINED] = MP_TORCH_OTHER,
        [MP_ACTION_ANNOTATE] = MP_TORCH_OTHER,
        [MP_ACTION_UNKNOWN] = MP_TORCH_OTHER,
    };
    return entry->action == device->free_action ? MP_TORCH_FREE_COMPLETED : actions[entry->action];
}

static void pytorch_trace_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device,
                               uint16_t track, struct mp_pytorch_rows *rows)
{
    mp_vec_room_for(&rows->calls, device->trace.count);
    for (size_t i = 0; i < device->trace.count; i++) {
        const struct mp_pytorch_entry *entry = &records->entries.at[device->trace.at[i]];
        struct mp_allocator_call call = {.address = entry->address,
                                         .bytes = entry->bytes,
                                         .stream = entry->stream,
                                         .pool = entry->pool,
                                         .track = track,
                                         .keys = entry->has_pool ? MP_ROW_POOL : 0,
                                         .action = (uint8_t)action_of(device, entry)};
        if (call.action == MP_TORCH_OUT_OF_MEMORY && !entry->has_address) call.address = MP_BYTES_UNKNOWN;
        rows->calls.at[rows->calls.count++] = call;
    }
}

/* Sentences about a snapshot's gaps and limits, and the snapshot's settings as a text. */
struct notes {
    struct mp_pytorch_snapshot *snapshot;
    struct mp_pytorch_sentences *to;
};

static void __attribute__((format(printf, 3, 4))) note(struct notes *t, bool limit, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = mp_text_make_of(format, arguments);
    va_end(arguments);
    uint32_t id = mp_intern_add_text(&t->snapshot->records.values.texts, text);
    free(text);
    if (limit)
        mp_vec_add(&t->to->limits, id);
    else
        mp_vec_add(&t->to->notes, id);
}

static const char *name_of(const struct mp_pytorch_device *device, char *to)
{
    mp_format_device_id(to, MP_ID_TEXT, device->host ? MP_DEVICE_CPU : MP_DEVICE_CUDA,
                        device->host ? -1 : (int)device->index);
    return to;
}

#define TURN_ON "torch.cuda.memory._record_memory_history() before the work turns PyTorch's history on"

/* If the trace does not reach back to the first allocation, PyTorch's recording began later or its ring overflowed.
 * Newer files say which of the two. */
static void note_beginning(struct notes *t, const struct mp_pytorch_device *device)
{
    const struct mp_pytorch_snapshot *s = t->snapshot;
    char name[MP_ID_TEXT], count[MP_UNIT_TEXT], bytes[MP_UNIT_TEXT];
    name_of(device, name);
    mp_format_count(count, device->base.count);
    mp_format_bytes(bytes, device->base_bytes);
    if (!device->allocs && !device->frees) {
        note(
            t, true,
            "the file has no trace of %s: it holds the %s blocks (%s) of one moment, not how they came about; " TURN_ON,
            name, count, bytes);
        return;
    }
    if (s->overflowed)
        note(t, true,
             "PyTorch's ring of trace entries overflowed: what happened on %s before its first entry is lost; the "
             "%s blocks (%s) that were live then are in the base",
             name, count, bytes);
    else if (device->base.count)
        note(t, !s->says_overflow,
             "the trace of %s does not reach back to the first allocation: %s blocks (%s) were live before it and are "
             "in the base%s",
             name, count, bytes,
             s->says_overflow ? "" : "; the recording began later, or its ring of entries overflowed");
}

static void note_differences(struct notes *t, const struct mp_pytorch_device *device)
{
    char name[MP_ID_TEXT], count[MP_UNIT_TEXT], bytes[MP_UNIT_TEXT];
    name_of(device, name);
    if (device->not_in_segments)
        note(t, true,
             "trace and segments of %s disagree: %s blocks (%s) are live at the end of the trace and not in the "
             "segments; memprof uses the trace, which may be cut",
             name, mp_format_count(count, device->not_in_segments),
             mp_format_bytes(bytes, device->not_in_segments_bytes));
    if (device->ranges_missing)
        note(t, false, "segments of %s that the trace took and the list of segments lacks: %s", name,
             mp_format_count(count, device->ranges_missing));
    if (device->overlapping)
        note(t, true,
             "segments of %s that overlap one listed before them: %s; no memory is in two, so they are left out, with "
             "what the file says lives in them (%s)",
             name, mp_format_count(count, device->overlapping), mp_format_bytes(bytes, device->overlapping_bytes));
    if (device->other_size)
        note(t, false, "blocks of %s with different sizes in trace and segments: %s; memprof uses those of the trace",
             name, mp_format_count(count, device->other_size));
    if (device->bad_entries)
        note(t, false, "entries of the trace of %s that were passed over, as they have no usable address or size: %s",
             name, mp_format_count(count, device->bad_entries));
    if (device->annotations_lost)
        note(t, false, "annotations of memory of %s that were passed over, as no block is known to live there: %s",
             name, mp_format_count(count, device->annotations_lost));
    if (device->free_action == MP_ACTION_FREE_REQUESTED)
        note(t, false, "the trace of %s has no free_completed entries: blocks count as freed when that was requested",
             name);
}

static void note_rounding(struct notes *t, const struct mp_pytorch_device *device)
{
    char name[MP_ID_TEXT], rounded[MP_UNIT_TEXT], requested[MP_UNIT_TEXT];
    mp_format_bytes(requested, device->live_requested);
    mp_format_bytes(rounded, device->live_rounded);
    if (strcmp(requested, rounded))
        note(t, false, "sizes are what was asked for: the %s live at the end on %s take %s in the allocator's blocks",
             requested, name_of(device, name), rounded);
}

static void note_ooms(struct notes *t, const struct mp_pytorch_device *device)
{
    char name[MP_ID_TEXT], asked[MP_UNIT_TEXT], left[MP_UNIT_TEXT];
    for (size_t i = device->trace.count; i--;) {
        const struct mp_pytorch_entry *entry = &t->snapshot->records.entries.at[device->trace.at[i]];
        if (entry->action != MP_ACTION_OOM || !entry->has_address) continue;
        note(t, false, "when %s last ran out of memory, %s were asked for (rounded) and the device had %s free",
             name_of(device, name), mp_format_bytes(asked, entry->bytes), mp_format_bytes(left, entry->address));
        return;
    }
}

static void note_unknown(struct notes *t)
{
    const struct mp_pytorch_snapshot *s = t->snapshot;
    uint64_t unknown = 0;
    uint32_t name = 0;
    char count[MP_UNIT_TEXT];
    for (size_t i = 0; i < s->devices.count; i++)
        for (size_t k = 0; k < s->devices.at[i].trace.count; k++) {
            const struct mp_pytorch_entry *entry = &s->records.entries.at[s->devices.at[i].trace.at[k]];
            bool known = entry->name >= MP_KEYS && entry->name - MP_KEYS < MP_ACTION_UNKNOWN;
            if (entry->action != MP_ACTION_UNKNOWN || !entry->name || known) continue;
            if (!unknown++) name = entry->name;
        }
    if (unknown)
        note(t, false,
             "entries that were passed over, as memprof does not know their actions: %s, the first is \"%.60s\"",
             mp_format_count(count, unknown), mp_intern_get(&s->records.values.texts, name, NULL));
    if (s->strange)
        note(t, false, "items of the file's lists that were passed over, as they are neither entries nor segments: %s",
             mp_format_count(count, s->strange));
    if (s->records.again)
        note(t, true,
             "traces and lists of blocks that stand in the file again after they were read, where they count "
             "as empty: %s",
             mp_format_count(count, s->records.again));
    if (s->records.too_long)
        note(t, false, "stacks that do not show their forward pass, as there is too much of it: %s",
             mp_format_count(count, s->records.too_long));
}

static void pytorch_sentences_make(struct mp_pytorch_snapshot *snapshot, bool has_times,
                                   struct mp_pytorch_sentences *sentences)
{
    struct notes t = {.snapshot = snapshot, .to = sentences};
    bool any_trace = false;
    mp_vec_each (const struct mp_pytorch_device, device, &snapshot->devices) {
        any_trace |= device->trace.count;
        note_beginning(&t, device);
        note_differences(&t, device);
        note_rounding(&t, device);
        note_ooms(&t, device);
    }
    if (!any_trace && !snapshot->any_segments) note(&t, true, "the snapshot is empty; " TURN_ON);
    if (!has_times) note(&t, false, "the file has no times: when something happened is not known, only in what order");
    if (any_trace && !snapshot->any_segments)
        note(&t, true,
             "the file lists no segments: blocks that were live before the trace and are never freed in it "
             "are not known, nor is what the allocator held");
    if (!snapshot->records.any_frames) note(&t, false, "the file has no stacks: PyTorch was told not to record them");
    note_unknown(&t);
}

static void put_setting(struct mp_buffer *out, const struct mp_values *values, uint64_t value)
{
    int64_t number;
    double real;
    switch (mp_value_tag(value)) {
    case MP_VALUE_TRUE:
    case MP_VALUE_FALSE:
        mp_buffer_append_text(out, value == MP_VALUE_TRUE ? "true" : "false");
        break;
    case MP_VALUE_FLOAT:
        memcpy(&real, &values->wide.at[mp_value_payload(value)], sizeof real);
        mp_buffer_printf(out, "%.17g", real);
        break;
    case MP_VALUE_TEXT:
        mp_buffer_printf(out, "%.1000s", mp_intern_get(&values->texts, (uint32_t)mp_value_payload(value), NULL));
        break;
    default:
        if (mp_values_signed(values, value, &number)) mp_buffer_printf(out, "%" PRId64, number);
    }
}

/* roundup_power2_divisions, a dictionary, in the form of PyTorch's setting. A dictionary whose entries round nothing
 * is information, too. */
static void put_divisions(struct mp_buffer *out, struct mp_values *values, uint64_t dict)
{
    struct mp_buffer list = {0};
    size_t count = 0;
    uint64_t divisions;
    const uint64_t *items = mp_values_items(values, dict, MP_OBJECT_DICT, &count);
    for (size_t i = 0; items && i + 1 < count && i < 64; i += 2) {
        if (mp_value_tag(items[i]) != MP_VALUE_TEXT || !mp_values_unsigned(values, items[i + 1], &divisions)) continue;
        mp_buffer_printf(&list, "%s%.20s:%" PRIu64, list.size ? "," : "",
                         mp_intern_get(&values->texts, (uint32_t)mp_value_payload(items[i]), NULL), divisions);
    }
    if (list.size)
        mp_buffer_printf(out, "%sroundup_power2_divisions=[%.*s]", out->size ? "," : "", (int)list.size,
                         (const char *)list.data);
    mp_buffer_free(&list);
}

/* Writes every setting that has a single value. A setting that is off or empty is information, too. */
char *mp_pytorch_settings(struct mp_values *values, uint64_t settings)
{
    struct mp_buffer out = {0};
    size_t count = 0;
    const uint64_t *items = mp_values_items(values, settings, MP_OBJECT_DICT, &count);
    for (size_t i = 0; items && i + 1 < count && out.size < 65536; i += 2) {
        if (mp_value_tag(items[i]) == MP_VALUE_TEXT && mp_value_tag(items[i + 1]) == MP_VALUE_OBJECT &&
            !strcmp(mp_intern_get(&values->texts, (uint32_t)mp_value_payload(items[i]), NULL),
                    "roundup_power2_divisions"))
            put_divisions(&out, values, items[i + 1]);
        bool plain = mp_value_tag(items[i + 1]) < MP_VALUE_OBJECT && items[i + 1] != MP_VALUE_NONE;
        if (mp_value_tag(items[i]) != MP_VALUE_TEXT || !plain) continue;
        mp_buffer_printf(&out, "%s%.200s=", out.size ? "," : "",
                         mp_intern_get(&values->texts, (uint32_t)mp_value_payload(items[i]), NULL));
        put_setting(&out, values, items[i + 1]);
    }
    return mp_buffer_take(&out);
}

#define LANES_MAX 64
#define OPEN      INT64_MAX

struct span {
    int64_t start, end;
    uint32_t name, below; /* the next outer open span of the same name, + 1 */
};

struct lane {
    MP_VEC(uint32_t) open; /* spans, outermost first */
    uint32_t order;
};

struct layout {
    MP_VEC(struct span) spans;
    struct lane lanes[LANES_MAX];
    struct mp_pytorch_marks *marks;
};

MP_ORDER_OF_POINTERS(by_time, struct mp_pytorch_annotation, MP_RISING(time_us) ?: MP_COMPARE(a, b))

/* An end closes the open span of its name that began last. An end without an open span is skipped. */
static void pair_up(const struct mp_pytorch_annotation *const *sorted, size_t count, int64_t start_us,
                    struct layout *layout)
{
    struct mp_map open = {0}; /* name + 1 to span + 1 */
    for (size_t i = 0; i < count; i++) {
        uint64_t *last = mp_map_at(&open, (uint64_t)sorted[i]->name + 1, NULL);
        if (sorted[i]->begins) {
            int64_t start = sorted[i]->time_us < start_us ? start_us : sorted[i]->time_us;
            struct span span = {start, OPEN, sorted[i]->name, (uint32_t)*last};
            mp_vec_add(&layout->spans, span);
            *last = layout->spans.count;
        } else if (*last) {
            struct span *span = &layout->spans.at[*last - 1];
            span->end = sorted[i]->time_us;
            *last = span->below;
        }
    }
    mp_map_free(&open);
}

MP_ORDER(by_start_longest_first, struct span, MP_RISING(start) ?: MP_FALLING(end))

static void put_mark(struct layout *layout, uint32_t lane, int64_t time_us, uint32_t name, unsigned type)
{
    struct mp_pytorch_mark mark = {time_us, name, lane, layout->lanes[lane].order++, (uint8_t)type};
    mp_vec_add(layout->marks, mark);
}

/* Ends the open spans of the lane that are over at `now`. */
static void close_spans(struct layout *layout, uint32_t lane, int64_t now)
{
    struct lane *at = &layout->lanes[lane];
    while (at->open.count) {
        const struct span *span = &layout->spans.at[at->open.at[at->open.count - 1]];
        if (span->end > now || span->end == OPEN) break;
        at->open.count--;
        put_mark(layout, lane, span->end, span->name, MP_EVENT_REGION_END);
    }
}

static void lay(struct layout *layout, uint32_t index)
{
    const struct span *span = &layout->spans.at[index];
    for (uint32_t lane = 0; lane < LANES_MAX; lane++) {
        struct lane *at = &layout->lanes[lane];
        close_spans(layout, lane, span->start);
        bool fits = !at->open.count || layout->spans.at[at->open.at[at->open.count - 1]].end >= span->end;
        if (!fits && lane + 1 < LANES_MAX) continue;
        if (lane >= layout->marks->lanes) layout->marks->lanes = lane + 1;
        mp_vec_add(&at->open, index);
        put_mark(layout, lane, span->start, span->name, MP_EVENT_REGION_BEGIN);
        return;
    }
}

/* Writes each step once, although every thread may have reported the step. */
static void lay_all(const struct mp_pytorch_records *records, int64_t start_us, struct layout *layout)
{
    static const char step[] = MP_PROFILER_STEP;
    uint32_t last_step = 0;
    for (size_t i = 0; i < layout->spans.count; i++) {
        const struct span *span = &layout->spans.at[i];
        if (span->end < start_us) continue;
        if (strncmp(mp_intern_get(&records->values.texts, span->name, NULL), step, sizeof step - 1)) {
            lay(layout, (uint32_t)i);
        } else if (span->name != last_step) {
            last_step = span->name;
            put_mark(layout, 0, span->start, span->name, MP_EVENT_STEP);
        }
    }
    for (uint32_t lane = 0; lane < LANES_MAX; lane++)
        close_spans(layout, lane, OPEN);
}

MP_ORDER(by_time_lane_order, struct mp_pytorch_mark, MP_RISING(time_us) ?: MP_RISING(lane) ?: MP_RISING(order))

/* Regions that ended before start_us are left out. Regions that are open at that time begin then. */
static void make_marks(struct mp_pytorch_records *records, int64_t start_us, struct mp_pytorch_marks *marks)
{
    *marks = (struct mp_pytorch_marks){.lanes = 1};
    size_t count = 0;
    const struct mp_pytorch_annotation **sorted = mp_alloc((records->annotations.count + 1) * sizeof *sorted);
    struct layout *layout = mp_alloc_zeroed(1, sizeof *layout);
    for (size_t i = 0; i < records->annotations.count; i++)
        if (records->annotations.at[i].time_us != MP_PYTORCH_NO_TIME) sorted[count++] = &records->annotations.at[i];
    layout->marks = marks;
    qsort(sorted, count, sizeof *sorted, by_time);
    pair_up(sorted, count, start_us, layout);
    if (layout->spans.count) {
        qsort(layout->spans.at, layout->spans.count, sizeof *layout->spans.at, by_start_longest_first);
        lay_all(records, start_us, layout);
        if (marks->count) qsort(marks->at, marks->count, sizeof *marks->at, by_time_lane_order);
    }
    for (size_t i = 0; i < LANES_MAX; i++)
        mp_vec_free(&layout->lanes[i].open);
    mp_vec_free(&layout->spans);
    free(layout);
    free(sorted);
}

/* How far a device's trace has been written. */
struct course {
    size_t next, next_range, next_missed, next_requested; /* next index in `trace`, `range_events`, `missed` and
                                                           * `requested` */
    int64_t time_us;                                      /* time of the next entry; never less than the previous
                                                           * entry's */
    uint64_t first_block;                                 /* number of the first block of the base */
    uint64_t *range_blocks;                               /* first number of each range */
    uint64_t reserved;
    uint16_t torch, driver; /* tracks */
};

struct maker {
    struct mp_pytorch_snapshot *snapshot;
    struct mp_builder *builder;
    struct mp_error *error;
    struct mp_import_events *events;
    struct course *courses; /* one for each device */
    uint64_t next_block;
    int64_t start_us;
    struct mp_pytorch_rows rows;
};

static uint64_t time_ns(const struct maker *m, int64_t time_us)
{
    return time_us > m->start_us ? (uint64_t)(time_us - m->start_us) * 1000 : 0;
}

static enum mp_status put_reserved(struct maker *m, const struct course *course, uint64_t when)
{
    struct mp_event event = {
        .time_ns = when, .bytes = course->reserved, .track = course->torch, .type = MP_EVENT_RESERVED};
    return mp_import_event(m->events, &event);
}

/* Writes the events of the layer below that the trace's next entry causes. */
static enum mp_status write_ranges(struct maker *m, const struct mp_pytorch_device *device, struct course *course,
                                   uint64_t when)
{
    enum mp_status status = MP_OK;
    for (; !status && course->next_range < device->range_events.count; course->next_range++) {
        const struct mp_pytorch_range_event *from = &device->range_events.at[course->next_range];
        if (from->entry != course->next) break;
        const struct mp_pytorch_range *range = &device->ranges.at[from->range];
        if (!from->frees) course->range_blocks[from->range] = m->next_block++;
        course->reserved += from->frees ? -range->bytes : range->bytes;
        struct mp_event event = {.time_ns = when,
                                 .address = range->address,
                                 .bytes = range->bytes,
                                 .block = course->range_blocks[from->range],
                                 .stack = range->stack,
                                 .track = course->driver,
                                 .type = from->frees ? MP_EVENT_FREE : MP_EVENT_ALLOC,
                                 .kind = range->kind};
        status = mp_import_event(m->events, &event);
    }
    return status ? status : put_reserved(m, course, when);
}

/* The stack that requested the free in the trace's next entry; 0: unknown. */
static uint32_t freed_at(const struct mp_pytorch_device *device, struct course *course,
                         const struct mp_pytorch_entry *entry)
{
    if (!device->free_stacks) return 0;
    if (course->next_requested >= device->requested.count ||
        device->requested.at[course->next_requested] != course->next)
        return entry->stack;
    course->next_requested += 2;
    return device->requested.at[course->next_requested - 1];
}

static enum mp_status write_free(struct maker *m, const struct course *course, const struct mp_pytorch_entry *entry,
                                 uint32_t stack, uint64_t block, uint64_t when)
{
    struct mp_event event = {.time_ns = when,
                             .address = entry->address,
                             .bytes = entry->bytes,
                             .block = block,
                             .stack = stack,
                             .track = course->torch,
                             .type = MP_EVENT_FREE};
    return mp_import_event(m->events, &event);
}

/* Adds a text about a block; text id 0 is none. */
static void add_metadata(struct maker *m, uint64_t when, uint64_t block, enum mp_metadata_kind kind, uint32_t text)
{
    const struct mp_block_metadata row = {when, block, (uint8_t)kind, text};
    if (text) mp_vec_add(&m->rows.metadata, row);
}

static void add_annotation(struct maker *m, const struct course *course, const struct mp_pytorch_entry *entry,
                           uint64_t when)
{
    const struct mp_pytorch_entry *entries = m->snapshot->records.entries.at;
    if (entry->block == MP_NONE) return;
    uint64_t block = entry->older ? course->first_block + entry->block : entries[entry->block].block;
    add_metadata(m, when, block, MP_METADATA_ANNOTATION, entry->metadata);
}

static enum mp_status write_alloc(struct maker *m, const struct mp_pytorch_device *device, struct course *course,
                                  struct mp_pytorch_entry *entry, uint64_t when)
{
    enum mp_status status = MP_OK;
    if (course->next_missed + 1 < device->missed.count && device->missed.at[course->next_missed] == course->next) {
        const struct mp_pytorch_entry *old =
            &m->snapshot->records.entries.at[device->missed.at[course->next_missed + 1]];
        course->next_missed += 2;
        status = write_free(m, course, old, 0, old->block, when);
    }
    entry->block = (uint32_t)m->next_block;
    add_metadata(m, when, m->next_block, MP_METADATA_USER, entry->metadata);
    add_metadata(m, when, m->next_block, MP_METADATA_INTERNAL, entry->internal);
    struct mp_event event = {.time_ns = when,
                             .address = entry->address,
                             .bytes = entry->bytes,
                             .block = m->next_block++,
                             .stack = entry->shown,
                             .track = course->torch,
                             .type = MP_EVENT_ALLOC,
                             .kind = device->host ? MP_KIND_PINNED : MP_KIND_DEVICE};
    return status ? status : mp_import_event(m->events, &event);
}

static enum mp_status write_note(struct maker *m, const struct course *course, const struct mp_pytorch_entry *entry,
                                 uint64_t when)
{
    bool oom = entry->action == MP_ACTION_OOM;
    struct mp_event event = {.time_ns = when,
                             .bytes = oom ? entry->bytes : 0,
                             .stack = entry->stack,
                             .name = oom ? 0 : MP_KEYS + MP_ACTION_SNAPSHOT,
                             .track = course->torch,
                             .type = oom ? MP_EVENT_OOM : MP_EVENT_MARK};
    return mp_import_event(m->events, &event);
}

static enum mp_status write_entry(struct maker *m, const struct mp_pytorch_device *device, struct course *course)
{
    const struct mp_pytorch_records *records = &m->snapshot->records;
    struct mp_pytorch_entry *entry = &m->snapshot->records.entries.at[device->trace.at[course->next]];
    uint64_t when = time_ns(m, course->time_us);
    if (mp_pytorch_is_segment_action(entry->action)) return write_ranges(m, device, course, when);
    if (entry->action == MP_ACTION_ALLOC) return write_alloc(m, device, course, entry, when);
    if (entry->action == MP_ACTION_FREE || entry->action == device->free_action)
        return write_free(m, course, entry, freed_at(device, course, entry),
                          entry->older ? course->first_block + entry->block : records->entries.at[entry->block].block,
                          when);
    if (entry->action == MP_ACTION_OOM || entry->action == MP_ACTION_SNAPSHOT)
        return write_note(m, course, entry, when);
    if (entry->action == MP_ACTION_ANNOTATE) add_annotation(m, course, entry, when);
    return MP_OK;
}

/* Finds the time of the next entry. An entry without a time, or with a time before that of the previous entry, gets the
 * previous entry's time. */
static void find_time(const struct maker *m, const struct mp_pytorch_device *device, struct course *course)
{
    if (course->next >= device->trace.count) return;
    int64_t time_us = m->snapshot->records.entries.at[device->trace.at[course->next]].time_us;
    if (time_us > course->time_us) course->time_us = time_us;
}

static enum mp_status write_mark(struct maker *m, const struct mp_pytorch_mark *mark)
{
    struct mp_event event = {
        .time_ns = time_ns(m, mark->time_us), .name = mark->name, .thread = mark->lane, .type = mark->type};
    return mp_import_event(m->events, &event);
}

/* At equal times, beginnings come before the trace's entries and ends after them. */
static bool mark_is_next(const struct mp_pytorch_mark *mark, const struct course *course)
{
    if (!course || mark->time_us != course->time_us) return !course || mark->time_us < course->time_us;
    return mark->type != MP_EVENT_REGION_END;
}

static enum mp_status write_all(struct maker *m)
{
    const struct mp_pytorch_snapshot *s = m->snapshot;
    enum mp_status status = MP_OK;
    size_t mark = 0;
    for (size_t i = 0; i < s->devices.count; i++)
        find_time(m, &s->devices.at[i], &m->courses[i]);
    while (!status) {
        size_t device = s->devices.count;
        for (size_t i = 0; i < s->devices.count; i++)
            if (m->courses[i].next < s->devices.at[i].trace.count &&
                (device == s->devices.count || m->courses[i].time_us < m->courses[device].time_us))
                device = i;
        struct course *course = device < s->devices.count ? &m->courses[device] : NULL;
        if (mark < s->marks.count && mark_is_next(&s->marks.at[mark], course)) {
            status = write_mark(m, &s->marks.at[mark++]);
        } else if (course) {
            status = write_entry(m, &s->devices.at[device], course);
            course->next++;
            find_time(m, &s->devices.at[device], course);
        } else {
            break;
        }
    }
    return status ? status : mp_import_events_flush(m->events);
}

/* Writes the base: its blocks, which have the first numbers, and its reserved memory. */
static enum mp_status write_base(struct maker *m)
{
    MP_VEC(struct mp_base_block) base = {0};
    const struct mp_pytorch_snapshot *s = m->snapshot;
    for (size_t i = 0; i < s->devices.count; i++) {
        const struct mp_pytorch_device *device = &s->devices.at[i];
        struct course *course = &m->courses[i];
        course->first_block = m->next_block;
        for (size_t k = 0; k < device->base.count; k++) {
            const struct mp_pytorch_block *from = &device->base.at[k];
            struct mp_base_block block = {.block = m->next_block++,
                                          .address = from->address,
                                          .bytes = from->requested,
                                          .stack = from->stack,
                                          .track = course->torch,
                                          .kind = device->host ? MP_KIND_PINNED : MP_KIND_DEVICE};
            mp_vec_add(&base, block);
            add_metadata(m, 0, block.block, MP_METADATA_USER, from->metadata);
            add_metadata(m, 0, block.block, MP_METADATA_INTERNAL, from->internal);
        }
        for (size_t k = 0; k < device->base_ranges; k++) {
            const struct mp_pytorch_range *from = &device->ranges.at[k];
            struct mp_base_block block = {.block = course->range_blocks[k] = m->next_block++,
                                          .address = from->address,
                                          .bytes = from->bytes,
                                          .stack = from->stack,
                                          .track = course->driver,
                                          .kind = from->kind};
            mp_vec_add(&base, block);
        }
        course->reserved = device->base_range_bytes;
    }
    struct mp_chunk chunk = {.kind = MP_CHUNK_BASE, .count = base.count, .as.base = base.at, .base_total = base.count};
    enum mp_status status = base.count ? mp_builder_add(m->builder, &chunk, m->error) : MP_OK;
    mp_vec_free(&base);
    for (size_t i = 0; !status && i < s->devices.count; i++)
        if (s->devices.at[i].ranges.count) status = put_reserved(m, &m->courses[i], 0);
    return status;
}

static bool is_python(const char *file)
{
    size_t length = strlen(file);
    return (length > 3 && !strcmp(file + length - 3, ".py")) || (*file == '<' && length > 1);
}

/* A frame whose file is no Python file is native; a native frame's names are stored in a symbol. */
static enum mp_status add_frames(struct maker *m)
{
    const struct mp_stack_table *table = &m->snapshot->records.stacks;
    const struct mp_intern *texts = &m->snapshot->records.values.texts;
    struct mp_frame *frames = mp_alloc_zeroed(table->frames.count + 1, sizeof *frames);
    struct mp_symbol *symbols = mp_alloc_zeroed(table->frames.count + 1, sizeof *symbols);
    enum mp_status status = MP_OK;
    size_t native = 0;
    for (size_t i = 0; !status && i < table->frames.count; i++) {
        const struct mp_symbol *from = &table->frames.at[i];
        if (i == m->snapshot->records.border)
            frames[i] = (struct mp_frame){.language = MP_BACKWARD, .function = from->function};
        else if (is_python(mp_intern_get(texts, from->file, NULL)))
            frames[i] = (struct mp_frame){
                .language = MP_PYTHON, .function = from->function, .file = from->file, .line = from->line};
        else if (from->function || from->file)
            symbols[native++] = *from;
        frames[i].more = table->more.at[i];
    }
    struct mp_chunk chunk = {.kind = MP_CHUNK_FRAMES, .count = table->frames.count, .as.frames = frames};
    if (!status) status = mp_builder_add(m->builder, &chunk, m->error);
    chunk = (struct mp_chunk){.kind = MP_CHUNK_SYMBOLS, .count = native, .as.symbols = symbols};
    if (!status) status = mp_builder_add(m->builder, &chunk, m->error);
    free(frames);
    free(symbols);
    if (status) return status;
    chunk = (struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = table->nodes.count, .as.stacks = table->nodes.at};
    return mp_builder_add(m->builder, &chunk, m->error);
}

static enum mp_status add_threads(struct maker *m)
{
    uint32_t lanes = m->snapshot->marks.lanes;
    struct mp_thread_info *threads = mp_alloc_zeroed(lanes, sizeof *threads);
    struct mp_chunk chunk = {.kind = MP_CHUNK_THREADS, .count = lanes, .as.threads = threads};
    enum mp_status status = mp_builder_add(m->builder, &chunk, m->error);
    free(threads);
    return status;
}

static uint32_t device_name(struct maker *m, const struct mp_pytorch_device *device)
{
    char name[MP_ID_TEXT];
    mp_format_device_id(name, sizeof name, device->host ? MP_DEVICE_CPU : MP_DEVICE_CUDA,
                        device->host ? -1 : (int)device->index);
    return mp_intern_add_text(&m->snapshot->records.values.texts, name);
}

/* Adds devices. Each has a track for its allocator's blocks. If its segments are known, they have a second track. */
static enum mp_status add_tracks(struct maker *m, const uint32_t *names)
{
    struct mp_pytorch_snapshot *s = m->snapshot;
    MP_VEC(struct mp_device) devices = {0};
    MP_VEC(struct mp_track) tracks = {0};
    for (size_t i = 0; i < s->devices.count; i++) {
        struct mp_device device = {.name = names[i], .total_bytes = MP_BYTES_UNKNOWN};
        struct mp_track torch = {.device = (uint32_t)i, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_REQUESTED};
        struct mp_track driver = {.device = (uint32_t)i, .layer = MP_LAYER_DRIVER, .size_basis = MP_BASIS_EXACT};
        mp_vec_add(&devices, device);
        mp_vec_add(&tracks, torch);
        if (s->devices.at[i].ranges.count) mp_vec_add(&tracks, driver);
    }
    struct mp_chunk chunk = {.kind = MP_CHUNK_DEVICES, .count = devices.count, .as.devices = devices.at};
    enum mp_status status = mp_builder_add(m->builder, &chunk, m->error);
    chunk = (struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = tracks.count, .as.tracks = tracks.at};
    if (!status) status = mp_builder_add(m->builder, &chunk, m->error);
    mp_vec_free(&devices);
    mp_vec_free(&tracks);
    return status;
}

static enum mp_status add_strings(struct maker *m)
{
    const struct mp_intern *texts = &m->snapshot->records.values.texts;
    struct mp_string_entry *strings = mp_alloc(texts->count * sizeof *strings);
    for (uint32_t i = 0; i < texts->count; i++)
        strings[i].text = mp_intern_get(texts, i, &strings[i].length);
    struct mp_chunk chunk = {.kind = MP_CHUNK_STRINGS, .count = texts->count, .as.strings = strings};
    enum mp_status status = mp_builder_add(m->builder, &chunk, m->error);
    free(strings);
    return status;
}

/* Makes the rows. Must run before the strings are written, because rows add strings. */
static void make_rows(struct maker *m)
{
    struct mp_pytorch_snapshot *s = m->snapshot;
    struct mp_pytorch_rows *rows = &m->rows;
    uint16_t *tracks = mp_alloc_zeroed(s->devices.count + 1, sizeof *tracks);
    for (size_t i = 0; i < s->devices.count; i++) {
        tracks[i] = m->courses[i].torch;
        pytorch_trace_rows(&s->records, &s->devices.at[i], tracks[i], rows);
    }
    pytorch_segment_rows(&s->records, s->devices.at, tracks, s->devices.count, rows);
    free(tracks);
}

static enum mp_status add_rows(struct maker *m)
{
    const struct mp_pytorch_rows *rows = &m->rows;
    const struct mp_chunk chunks[] = {
        {.kind = MP_CHUNK_SEGMENTS, .count = rows->segments.count, .as.segments = rows->segments.at},
        {.kind = MP_CHUNK_SEGMENT_PARTS, .count = rows->parts.count, .as.parts = rows->parts.at},
        {.kind = MP_CHUNK_METADATA, .count = rows->metadata.count, .as.metadata = rows->metadata.at},
        {.kind = MP_CHUNK_CALLS, .count = rows->calls.count, .as.calls = rows->calls.at}};
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < sizeof chunks / sizeof *chunks; i++)
        status = mp_builder_add(m->builder, &chunks[i], m->error);
    return status;
}

static void free_rows(struct maker *m)
{
    mp_vec_free(&m->rows.segments);
    mp_vec_free(&m->rows.parts);
    mp_vec_free(&m->rows.calls);
    mp_vec_free(&m->rows.metadata);
}

static enum mp_status add_coverage(struct maker *m, const struct mp_pytorch_sentences *sentences, uint32_t source)
{
    struct mp_coverage coverage = {.events = m->events->passed,
                                   .sources = &source,
                                   .source_count = 1,
                                   .notes = sentences->notes.at,
                                   .note_count = (uint32_t)sentences->notes.count,
                                   .limits = sentences->limits.at,
                                   .limit_count = (uint32_t)sentences->limits.count};
    for (size_t i = 0; i < m->snapshot->devices.count; i++)
        coverage.missed_frees += m->snapshot->devices.at[i].missed.count / 2;
    struct mp_chunk chunk = {.kind = MP_CHUNK_COVERAGE, .count = 1, .as.coverage = &coverage};
    return mp_builder_add(m->builder, &chunk, m->error);
}

/* Adds everything to the builder. All texts must be known by then. */
static enum mp_status add_all(struct maker *m, bool has_times)
{
    struct mp_pytorch_snapshot *s = m->snapshot;
    struct mp_pytorch_sentences sentences = {0};
    uint32_t *names = mp_alloc_zeroed(s->devices.count + 1, sizeof *names);
    uint32_t source = mp_intern_add_text(&s->records.values.texts, "pytorch");
    uint16_t track = 0;
    pytorch_sentences_make(s, has_times, &sentences);
    for (size_t i = 0; i < s->devices.count; i++) {
        names[i] = device_name(m, &s->devices.at[i]);
        m->courses[i].time_us = m->start_us;
        m->courses[i].torch = track++;
        m->courses[i].driver = track;
        track += s->devices.at[i].ranges.count > 0;
        m->courses[i].range_blocks = mp_alloc_zeroed(s->devices.at[i].ranges.count + 1, sizeof(uint64_t));
    }
    make_rows(m);
    enum mp_status status = add_strings(m);
    if (!status) status = add_tracks(m, names);
    if (!status) status = add_threads(m);
    if (!status) status = add_frames(m);
    if (!status) status = write_base(m);
    if (!status) status = write_all(m);
    if (!status) status = add_rows(m);
    if (!status) status = add_coverage(m, &sentences, source);
    free_rows(m);
    mp_vec_free(&sentences.limits);
    mp_vec_free(&sentences.notes);
    free(names);
    return status;
}

/* The first entry's time, or the first annotation's. MP_PYTORCH_NO_TIME: there is none. */
static int64_t find_start(const struct mp_pytorch_snapshot *s)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < s->devices.count; i++)
        for (size_t k = 0; k < s->devices.at[i].trace.count; k++) {
            int64_t time_us = s->records.entries.at[s->devices.at[i].trace.at[k]].time_us;
            if (time_us == MP_PYTORCH_NO_TIME) continue;
            if (time_us < first) first = time_us;
            break;
        }
    if (first != INT64_MAX) return first;
    for (size_t i = 0; i < s->records.annotations.count; i++)
        if (s->records.annotations.at[i].time_us != MP_PYTORCH_NO_TIME && s->records.annotations.at[i].time_us < first)
            first = s->records.annotations.at[i].time_us;
    return first == INT64_MAX ? MP_PYTORCH_NO_TIME : first;
}

static enum mp_status build_snapshot(struct maker *m, uint64_t file_bytes, struct mp_model **model)
{
    static const char *const no_command[] = {NULL};
    int64_t start = find_start(m->snapshot);
    bool has_times = start != MP_PYTORCH_NO_TIME;
    m->start_us = has_times ? start : 0;
    m->courses = mp_alloc_zeroed(m->snapshot->devices.count + 1, sizeof *m->courses);
    m->events = mp_alloc_zeroed(1, sizeof *m->events);
    struct mp_recording_start begin = {.realtime_ns = (uint64_t)m->start_us * 1000,
                                       .host = "",
                                       .command = no_command,
                                       .configuration = m->snapshot->settings,
                                       .spool = ""};
    make_marks(&m->snapshot->records, m->start_us, &m->snapshot->marks);
    mp_builder_new(&begin, &m->builder);
    m->events->builder = m->builder;
    m->events->error = m->error;
    enum mp_status status = add_all(m, has_times);
    for (size_t i = 0; i < m->snapshot->devices.count; i++)
        free(m->courses[i].range_blocks);
    free(m->courses);
    free(m->events);
    mp_vec_free(&m->snapshot->marks);
    return mp_import_finish(m->builder, status, file_bytes, "pytorch", model, m->error);
}

enum mp_status mp_pytorch_model(struct mp_pytorch_snapshot *snapshot, uint64_t file_bytes, struct mp_model **model,
                                struct mp_error *error)
{
    struct maker maker = {.snapshot = snapshot, .error = error};
    return build_snapshot(&maker, file_bytes, model);
}
