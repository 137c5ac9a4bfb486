#include "collect/metrics/metrics_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/categories/categories.h"
#include "base/order.h"
#include "base/utf8.h"
#include "collect/recording/usual_roles.h"
#include "model/stack.h"

static void put_label(struct mp_buffer *out, const char *name, const char *text)
{
    mp_buffer_printf(out, ",%s=\"", name);
    for (size_t left = strlen(text), size; left; text += size, left -= size) {
        uint32_t point;
        size = mp_utf8_next((const unsigned char *)text, left, &point);
        if (point == MP_UTF8_BAD || (point < ' ' && point != '\n'))
            mp_buffer_append_text(out, "?");
        else if (point == '\n')
            mp_buffer_append_text(out, "\\n");
        else if (point == '"' || point == '\\')
            mp_buffer_printf(out, "\\%c", (char)point);
        else
            mp_buffer_append(out, text, size);
    }
    mp_buffer_append_text(out, "\"");
}

enum of { LIVE_BYTES, LIVE_BLOCKS, PEAK_BYTES, RESERVED_BYTES, EVENTS, DROPPED, STEPS };

static const struct family {
    const char *name, *type, *suffix, *help;
    enum of of;
    bool per_track;
} families[] = {
    {"memprof_live_bytes", "gauge", "", "Bytes in live blocks.", LIVE_BYTES, true},
    {"memprof_live_blocks", "gauge", "", "Live blocks.", LIVE_BLOCKS, true},
    {"memprof_peak_bytes", "gauge", "", "The most bytes in live blocks since the recording began.", PEAK_BYTES, true},
    {"memprof_reserved_bytes", "gauge", "", "Bytes that the allocator holds, live or cached.", RESERVED_BYTES, true},
    {"memprof_events", "counter", "_total", "Events recorded.", EVENTS, false},
    {"memprof_dropped_events", "counter", "_total", "Events not recorded, whatever the cause.", DROPPED, false},
    {"memprof_steps", "counter", "_total", "Steps that the program marked.", STEPS, false},
};

static uint64_t value_of(const struct mp_recording *recording, const struct mp_ledger_track *track, enum of of)
{
    switch (of) {
    case LIVE_BYTES:
        return track->bytes;
    case LIVE_BLOCKS:
        return track->blocks;
    case PEAK_BYTES:
        return track->peak_bytes;
    case RESERVED_BYTES:
        return track->reserved_bytes;
    case EVENTS:
        return recording->events;
    case DROPPED:
        return mp_recording_dropped(recording->spool.header);
    case STEPS:
        return recording->state.ledger.steps;
    }
    return MP_BYTES_UNKNOWN;
}

/* Labels: pid; rank, role and job if known. */
static void put_process_labels(struct mp_buffer *out, const struct mp_recording *recording)
{
    const struct mp_spool_header *spool = recording->spool.header;
    struct mp_member member = mp_member_copy(&spool->member);
    mp_buffer_printf(out, "pid=\"%u\"", recording->pid);
    if (mp_member_knows(&member, MP_MEMBER_RANK)) mp_buffer_printf(out, ",rank=\"%u\"", member.number[MP_MEMBER_RANK]);
    if (*member.role) put_label(out, "role", member.role);
    if (*member.job) put_label(out, "job_name", member.job);
}

static void put_value(struct mp_buffer *out, const struct family *family, const struct mp_recording *recording,
                      size_t track)
{
    char id[MP_ID_TEXT];
    const struct mp_ledger_track *at = family->per_track ? &recording->state.ledger.tracks.at[track] : NULL;
    uint64_t value = value_of(recording, at, family->of);
    if (value == MP_BYTES_UNKNOWN) return;
    mp_buffer_printf(out, "%s%s{", family->name, family->suffix);
    put_process_labels(out, recording);
    if (at) {
        mp_tables_track_id(&recording->tables, recording->spool.header, track, id);
        put_label(out, "track", id);
    }
    mp_buffer_printf(out, "} %llu\n", (unsigned long long)value);
}

static void begin_family(struct mp_buffer *out, const char *name, const char *type, const char *help)
{
    mp_buffer_printf(out, "# TYPE %s %s\n", name, type);
    if (!strcmp(name + strlen(name) - strlen("_bytes"), "_bytes")) mp_buffer_printf(out, "# UNIT %s bytes\n", name);
    mp_buffer_printf(out, "# HELP %s %s\n", name, help);
}

/* ---- the holders of the bytes --------------------------------------------------------------------------------- */

struct sum {
    uint64_t bytes;
    uint32_t key;
    uint16_t track;
};

struct sums {
    MP_VEC(struct sum) at;
    struct mp_map by_key; /* index + 1, by track and key */
};

enum by { BY_SITE, BY_MODULE, BY_CATEGORY, BYS }; /* keys: a stack, a string, a role */

struct held {
    struct sums by[BYS];
};

MP_ORDER(most_first, struct sum, MP_FALLING(bytes) ?: MP_RISING(key))

static bool add(struct sums *sums, const struct mp_base_block *block, uint32_t key)
{
    uint64_t *place = mp_map_insert(&sums->by_key, ((uint64_t)block->track << 32 | key) + 1, NULL);
    struct sum fresh = {.key = key, .track = block->track};
    if (!place || (!*place && !mp_vec_push(&sums->at, fresh))) return false;
    if (!*place) *place = sums->at.count;
    sums->at.at[*place - 1].bytes += block->bytes == MP_BYTES_UNKNOWN ? 0 : block->bytes;
    return true;
}

static bool sum_up(const struct mp_recording *recording, struct held *held)
{
    const struct mp_ledger *ledger = &recording->state.ledger;
    bool any_label = recording->usual_roles.by_kind.count, done = true;
    for (size_t i = 0; done && i < ledger->blocks.count; i++) {
        const struct mp_base_block *block = &ledger->blocks.at[i];
        if (block->track == MP_LEDGER_SLOT_FREE) continue;
        done = add(&held->by[BY_SITE], block, block->stack);
        if (done && block->module) done = add(&held->by[BY_MODULE], block, block->module);
        if (done && any_label) done = add(&held->by[BY_CATEGORY], block, mp_usual_role(&recording->usual_roles, block));
    }
    for (enum by by = 0; by < BYS; by++)
        if (held->by[by].at.count)
            qsort(held->by[by].at.at, held->by[by].at.count, sizeof *held->by[by].at.at, most_first);
    return done;
}

static void free_held(struct held *held)
{
    for (enum by by = 0; by < BYS; by++) {
        mp_vec_free(&held->by[by].at);
        mp_map_free(&held->by[by].by_key);
    }
}

static const char *text_or_null(const struct mp_tables *tables, uint32_t spool_string)
{
    uint32_t id = mp_tables_spool_string(tables, spool_string);
    return id ? mp_intern_get(&tables->strings, id, NULL) : NULL;
}

/* The Python lines of a stack, innermost first. Native frames are left out: they get names only at the end. */
static void python_lines(const struct mp_recording *recording, uint32_t stack, struct mp_stack_lines *lines)
{
    struct mp_spool_header *spool = recording->spool.header;
    const struct mp_wire_node *nodes = mp_spool_entries(spool, MP_TABLE_NODES);
    const struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    bool backward = false;
    lines->count = 0;
    while (stack && stack < recording->tables.seen[MP_TABLE_NODES]) {
        uint32_t frame = nodes[stack].frame, parent = nodes[stack].parent;
        uint32_t language = frame < recording->tables.seen[MP_TABLE_FRAMES] ? frames[frame].language : MP_NATIVE;
        backward |= language == MP_BACKWARD;
        if (language == MP_PYTHON) {
            struct mp_stack_line line = {.function = text_or_null(&recording->tables, frames[frame].function),
                                         .file = text_or_null(&recording->tables, frames[frame].file),
                                         .line = frames[frame].line,
                                         .language = MP_PYTHON,
                                         .backward = backward};
            line.user = line.file && mp_stack_is_user_file(line.file);
            if (!mp_vec_push(lines, line)) return;
        }
        stack = parent < stack ? parent : 0; /* a parent's id must be lower than its child's */
    }
}

static void put_site_labels(struct mp_buffer *out, const struct mp_recording *recording, uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    char place[512] = "(native code)";
    python_lines(recording, stack, &lines);
    const struct mp_stack_line *line = mp_stack_headline(&lines);
    if (line)
        snprintf(place, sizeof place, "%s%s:%u %s", mp_frame_prefix(line), line->file ? mp_path_short(line->file) : "?",
                 line->line, line->function ? line->function : "?");
    put_label(out, "site", place);
    mp_buffer_printf(out, ",stack=\"%u\"", stack);
    mp_stack_lines_free(&lines);
}

static void put_module_label(struct mp_buffer *out, const struct mp_recording *recording, uint32_t module)
{
    put_label(out, "module", mp_intern_get(&recording->tables.strings, module, NULL));
}

static void put_category_label(struct mp_buffer *out, const struct mp_recording *recording, uint32_t role)
{
    const char *category = mp_category_of_role(role);
    put_label(out, "category", category ? category : "other");
}

static const struct {
    const char *name, *help;
    void (*put_labels)(struct mp_buffer *out, const struct mp_recording *recording, uint32_t key);
    size_t most;
} held_families[BYS] = {
    [BY_SITE] = {"memprof_site_live_bytes", "Bytes in live blocks of the sites that hold most.", put_site_labels,
                 MP_METRICS_SITES},
    [BY_MODULE] = {"memprof_module_live_bytes", "Bytes in live blocks of the modules that hold most.", put_module_label,
                   MP_METRICS_SITES},
    [BY_CATEGORY] = {"memprof_category_live_bytes", "Bytes in live blocks by what the program says they are for.",
                     put_category_label, SIZE_MAX},
};

/* True if the program labelled any of the track's blocks; otherwise its categories are not reported. */
static bool has_labels(const struct sums *sums, uint16_t track)
{
    for (size_t i = 0; i < sums->at.count; i++)
        if (sums->at.at[i].track == track && sums->at.at[i].key != MP_ROLE_NONE) return true;
    return false;
}

static void put_held(struct mp_buffer *out, const struct mp_recording *recording, const struct held *held, enum by by)
{
    const struct sums *sums = &held->by[by];
    char id[MP_ID_TEXT];
    for (size_t i = 0; i < sums->at.count && i < held_families[by].most; i++) {
        const struct sum *sum = &sums->at.at[i];
        if (by == BY_CATEGORY && !has_labels(sums, sum->track)) continue;
        mp_tables_track_id(&recording->tables, recording->spool.header, sum->track, id);
        mp_buffer_printf(out, "%s{", held_families[by].name);
        put_process_labels(out, recording);
        put_label(out, "track", id);
        held_families[by].put_labels(out, recording, sum->key);
        mp_buffer_printf(out, "} %llu\n", (unsigned long long)sum->bytes);
    }
}

static void put_all_held(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count)
{
    struct held *held = calloc(count + 1, sizeof *held);
    bool done = held;
    for (size_t i = 0; done && i < count; i++)
        done = sum_up(recordings[i], &held[i]);
    for (enum by by = 0; done && by < BYS; by++) {
        begin_family(out, held_families[by].name, "gauge", held_families[by].help);
        for (size_t i = 0; i < count; i++)
            put_held(out, recordings[i], &held[i], by);
    }
    for (size_t i = 0; held && i < count; i++)
        free_held(&held[i]);
    free(held);
    if (!done) out->failed = true;
}

void mp_metrics_write(struct mp_buffer *out, struct mp_recording *const *recordings, size_t count)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *family = &families[i];
        begin_family(out, family->name, family->type, family->help);
        for (size_t k = 0; k < count; k++)
            for (size_t track = 0; track < (family->per_track ? recordings[k]->state.ledger.tracks.count : 1); track++)
                put_value(out, family, recordings[k], track);
    }
    put_all_held(out, recordings, count);
    mp_buffer_append_text(out, "# EOF\n");
}
