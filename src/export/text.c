#include "export/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "export/sink.h"
#include "model/module_path.h"
#include "model/stack.h"
#include "model/track.h"

struct text_export {
    const struct mp_block_rows *rows;
    struct mp_sink sink;
    struct mp_stack_lines lines;
    struct mp_buffer folded; /* folded form of the stack `folded_stack` */
    uint32_t folded_stack;
    unsigned char *written; /* JSON lines: by stack, 1 if it is written */
};

/* Writes a cell. If a spreadsheet would take it for a formula, it gets an apostrophe in front, which marks it as
 * text. */
static void csv_text(struct mp_buffer *out, const char *text, size_t length)
{
    bool plain = true, is_formula = length && strchr("=+-@\t\r", *text) && *text;
    for (size_t i = 0; i < length; i++)
        plain &= text[i] != '"' && text[i] != ',' && text[i] != '\n' && text[i] != '\r';
    if (plain) {
        if (is_formula) mp_buffer_append_text(out, "'");
        mp_buffer_append(out, text, length);
        return;
    }
    mp_buffer_append_text(out, is_formula ? "\"'" : "\"");
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"') mp_buffer_append_text(out, "\"");
        mp_buffer_append(out, text + i, 1);
    }
    mp_buffer_append_text(out, "\"");
}

static void csv_number(struct mp_buffer *out, uint64_t number)
{
    mp_buffer_append_text(out, ",");
    if (number != UINT64_MAX) mp_buffer_printf(out, "%llu", (unsigned long long)number);
}

static void csv_word(struct mp_buffer *out, const char *text)
{
    mp_buffer_append_text(out, ",");
    if (text) csv_text(out, text, strlen(text));
}

/* Folds a stack, unless it is the same as before: blocks of one stack often follow one another. */
static void fold(struct text_export *export, uint32_t stack)
{
    if (stack == export->folded_stack) return;
    mp_buffer_clear(&export->folded);
    mp_stack_resolve(export->rows->model, stack, &export->lines);
    mp_frame_fold(&export->folded, &export->lines);
    export->folded_stack = stack;
}

static void csv_row(struct text_export *export, const struct mp_row *row)
{
    const struct mp_model *model = export->rows->model;
    struct mp_buffer *out = &export->sink.text;
    char track[MP_TRACK_ID_MAX];
    mp_buffer_printf(out, "%u", row->block);
    csv_word(out, mp_track_id(model, model->blocks.track[row->block], track));
    csv_word(out, row->track_device);
    csv_word(out, row->layer);
    csv_word(out, row->kind);
    mp_buffer_printf(out, ",0x%llx", (unsigned long long)model->blocks.address[row->block]);
    csv_number(out, row->bytes);
    csv_number(out, row->alloc_ns);
    csv_number(out, row->free_ns);
    csv_number(out, row->alloc_step);
    csv_number(out, row->free_step);
    csv_number(out, row->thread);
    csv_word(out, row->region);
    fold(export, row->stack);
    const struct mp_stack_line *line = mp_stack_headline(&export->lines);
    csv_word(out, line ? line->function : NULL);
    csv_word(out, line ? line->file : NULL);
    csv_number(out, line && line->line ? line->line : UINT64_MAX);
    mp_buffer_append_text(out, ",");
    csv_text(out, (const char *)export->folded.data, export->folded.size);
    csv_word(out, row->module);
    csv_word(out, row->role);
    csv_word(out, row->label);
    csv_number(out, row->requested);
    csv_number(out, row->stream);
    csv_word(out, *row->torch_pool ? row->torch_pool : NULL);
    if (model->uses.count) {
        csv_word(out, row->shape);
        csv_word(out, row->made_by);
        csv_word(out, row->phase);
        csv_word(out, row->saved_for);
    }
    mp_buffer_append_text(out, "\r\n");
}

static enum mp_status end_export(struct text_export *export, struct mp_error *error)
{
    mp_stack_lines_free(&export->lines);
    mp_buffer_free(&export->folded);
    free(export->written);
    return mp_sink_end(&export->sink, MP_OK, error);
}

enum mp_status mp_csv_export(const struct mp_block_rows *rows, bool compress, FILE *out, struct mp_error *error)
{
    struct text_export export = {.rows = rows, .folded_stack = MP_NONE};
    mp_sink_start(&export.sink, out, compress);
    mp_buffer_append_text(&export.sink.text,
                          "block,track,device,layer,kind,address,bytes,alloc_ns,free_ns,alloc_step,free_step,thread,"
                          "region,function,file,line,stack,module,role,label,requested_bytes,stream,pool");
    mp_buffer_append_text(&export.sink.text, rows->model->uses.count ? ",shape,operator,phase,saved_for\r\n" : "\r\n");
    for (struct mp_row row = {0}; mp_block_rows_next(rows, &row) && !export.sink.failed; row.block++) {
        csv_row(&export, &row);
        mp_sink_pass(&export.sink);
    }
    return end_export(&export, error);
}

/* One object on one line. */
static struct mp_json begin_line(struct text_export *export, const char *type)
{
    struct mp_json json;
    mp_sink_pass(&export->sink);
    mp_json_start(&json, &export->sink.text);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_text(&json, "type", type);
    return json;
}

static void hex(struct mp_json *json, const char *key, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)number);
    mp_json_text(json, key, text);
}

static void put_recording(struct text_export *export)
{
    const struct mp_model *model = export->rows->model;
    struct mp_json json = begin_line(export, "recording");
    mp_json_text(&json, "schema", "memprof.jsonl/1");
    mp_json_array(&json, "command");
    for (const char *const *word = model->start.command; word && *word; word++)
        mp_json_text(&json, NULL, *word);
    mp_json_end_array(&json);
    mp_json_text(&json, "host", *model->start.host ? model->start.host : NULL);
    mp_json_number(&json, "pid", model->start.pid);
    for (enum mp_member_number i = 0; i < MP_MEMBER_NUMBERS; i++)
        mp_json_known(&json, mp_member_number_name(i), mp_member_number(&model->start.member, i));
    mp_json_text(&json, "role", *model->start.member.role ? model->start.member.role : NULL);
    mp_json_text(&json, "job", *model->start.member.job ? model->start.member.job : NULL);
    mp_json_known(&json, "start_unix_ns", model->start.realtime_ns ? model->start.realtime_ns : UINT64_MAX);
    mp_json_number(&json, "duration_ns", model->duration_ns);
    mp_json_number(&json, "from_ns", export->rows->window->from_ns);
    mp_json_number(&json, "to_ns", export->rows->window->to_ns);
    mp_json_bool(&json, "complete", !mp_model_incomplete(model) && !mp_model_limited(model));
    mp_json_end_object(&json);
}

static void put_tracks(struct text_export *export)
{
    const struct mp_model *model = export->rows->model;
    char id[MP_TRACK_ID_MAX];
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_model_track_sum *sum = &model->sums.at[i];
        struct mp_json json = begin_line(export, "track");
        mp_json_text(&json, "id", mp_track_id(model, (uint16_t)i, id));
        mp_json_text(&json, "size_basis", mp_size_basis_name(model->tracks.at[i].size_basis));
        mp_json_number(&json, "base_bytes", sum->base_bytes);
        mp_json_number(&json, "peak_bytes", sum->peak_bytes);
        mp_json_number(&json, "peak_ns", sum->peak_ns);
        mp_json_number(&json, "end_bytes", sum->end_bytes);
        mp_json_known(&json, "reserved_peak_bytes", sum->reserved_peak_bytes);
        mp_json_end_object(&json);
    }
}

static void put_frame(struct mp_json *json, const struct mp_stack_line *line)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "function", line->cut ? "[frames left out]" : line->function);
    mp_json_text(json, "file", line->file);
    mp_json_known(json, "line", line->line ? line->line : UINT64_MAX);
    mp_json_text(json, "module", line->module);
    mp_json_text(json, "language", mp_language_name(line->language));
    mp_json_end_object(json);
}

static void put_stack(struct text_export *export, uint32_t stack)
{
    if (!stack || export->written[stack]) return;
    export->written[stack] = 1;
    mp_stack_resolve(export->rows->model, stack, &export->lines);
    struct mp_json json = begin_line(export, "stack");
    mp_json_number(&json, "stack", stack);
    mp_json_array(&json, "frames");
    for (size_t i = 0; i < export->lines.count; i++)
        put_frame(&json, &export->lines.at[i]);
    mp_json_end_array(&json);
    mp_json_end_object(&json);
}

static void put_block(struct text_export *export, const struct mp_row *row)
{
    const struct mp_model *model = export->rows->model;
    char id[MP_TRACK_ID_MAX];
    put_stack(export, row->stack);
    struct mp_json json = begin_line(export, "block");
    mp_json_number(&json, "block", row->block);
    mp_json_text(&json, "track", mp_track_id(model, model->blocks.track[row->block], id));
    mp_json_text(&json, "kind", row->kind);
    hex(&json, "address", model->blocks.address[row->block]);
    mp_json_known(&json, "bytes", row->bytes);
    mp_json_known(&json, "alloc_ns", row->alloc_ns);
    mp_json_known(&json, "free_ns", row->free_ns);
    mp_json_known(&json, "alloc_step", row->alloc_step);
    mp_json_known(&json, "free_step", row->free_step);
    mp_json_known(&json, "thread", row->thread);
    mp_json_text(&json, "region", row->region);
    mp_json_known(&json, "stack", row->stack ? row->stack : UINT64_MAX);
    mp_json_text(&json, "module", row->module);
    mp_json_text(&json, "role", row->role);
    mp_json_text(&json, "label", row->label);
    mp_json_known(&json, "requested_bytes", row->requested);
    mp_json_known(&json, "stream", row->stream);
    mp_json_text(&json, "pool", *row->torch_pool ? row->torch_pool : NULL);
    if (model->uses.count) {
        mp_json_text(&json, "shape", row->shape);
        mp_json_text(&json, "operator", row->made_by);
        mp_json_text(&json, "node", row->node);
        mp_json_text(&json, "phase", row->phase);
        mp_json_text(&json, "saved_for", row->saved_for);
    }
    mp_json_end_object(&json);
}

static void put_other(struct text_export *export, size_t noted)
{
    const struct mp_model *model = export->rows->model;
    const struct mp_model_note *note = &model->notes.at[noted];
    uint32_t event = model->noted.at[noted], thread = model->events.thread[event];
    unsigned type = model->events.type[event];
    bool on_track = type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
    char id[MP_TRACK_ID_MAX];
    if (event < export->rows->window->first || event >= export->rows->window->last) return;
    put_stack(export, note->stack);
    struct mp_json json = begin_line(export, mp_event_type_name(type));
    mp_json_number(&json, "time_ns", model->events.time_ns[event]);
    mp_json_known(&json, "thread", thread < model->threads.count ? model->threads.at[thread].tid : UINT64_MAX);
    if (on_track) {
        mp_json_text(&json, "track", mp_track_id(model, model->events.track[event], id));
        mp_json_number(&json, "bytes", note->bytes);
        if (note->name) mp_json_text(&json, "module", mp_module_path(model, export->rows->root, note->name));
    } else {
        mp_json_text(&json, "name", note->name ? mp_model_text(model, note->name) : NULL);
    }
    if (note->stack) mp_json_number(&json, "stack", note->stack);
    mp_json_end_object(&json);
}

enum mp_status mp_jsonl_export(const struct mp_block_rows *rows, bool compress, FILE *out, struct mp_error *error)
{
    struct text_export export = {.rows = rows, .folded_stack = MP_NONE};
    mp_sink_start(&export.sink, out, compress);
    export.written = mp_alloc_zeroed(rows->model->stacks.count + 1, 1);
    put_recording(&export);
    put_tracks(&export);
    for (struct mp_row row = {0}; mp_block_rows_next(rows, &row) && !export.sink.failed; row.block++)
        put_block(&export, &row);
    for (size_t i = 0; i < rows->model->noted.count && !export.sink.failed; i++)
        put_other(&export, i);
    return end_export(&export, error);
}
