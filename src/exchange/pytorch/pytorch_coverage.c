/* Sentences about a snapshot's gaps and limits, and the snapshot's settings as a text. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/units.h"
#include "exchange/pytorch/pytorch_model.h"

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

void mp_pytorch_sentences_make(struct mp_pytorch_snapshot *snapshot, bool has_times,
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

/* roundup_power2_divisions, a dictionary, in the form of PyTorch's setting; nothing if no entry rounds. */
static void put_divisions(struct mp_buffer *out, struct mp_values *values, uint64_t dict)
{
    struct mp_buffer list = {0};
    size_t count = 0;
    uint64_t divisions, any = 0;
    const uint64_t *items = mp_values_items(values, dict, MP_OBJECT_DICT, &count);
    for (size_t i = 0; items && i + 1 < count && i < 64; i += 2) {
        if (mp_value_tag(items[i]) != MP_VALUE_TEXT || !mp_values_unsigned(values, items[i + 1], &divisions)) continue;
        any |= divisions;
        mp_buffer_printf(&list, "%s%.20s:%" PRIu64, list.size ? "," : "",
                         mp_intern_get(&values->texts, (uint32_t)mp_value_payload(items[i]), NULL), divisions);
    }
    if (any)
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
    mp_buffer_append(&out, "", 1);
    return (char *)out.data;
}
