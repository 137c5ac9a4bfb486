#include "output/report/device_use.h"

#include <string.h>

#include "analysis/device/device_use.h"
#include "analysis/device/unbacked.h"
#include "output/report/columns.h"
#include "output/report/view.h"

#define LINE_WIDTH 100 /* characters of the lines with a device's parts */

static const char *id_of(const struct mp_model *model, const struct mp_device_use *use)
{
    return mp_model_text(model, model->devices.at[use->device].name);
}

static void get_id(struct mp_value *value, const void *of, const void *row)
{
    value->text = id_of(of, row);
}

static void put_unbacked_json(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_device_use *use = row;
    struct mp_unbacked unbacked;
    mp_unbacked_find(of, use->device, use->moment, &unbacked);
    mp_json_known(json, key, unbacked.bytes);
    mp_json_known(json, "unbacked_most_bytes", unbacked.most_bytes);
    mp_json_known(json, "unbacked_most_ns", unbacked.most_bytes ? unbacked.most_ns : UINT64_MAX);
    mp_json_known(json, "unbacked_end_bytes", unbacked.end_bytes);
}

#define PART(member)   MP_MEMBER(struct mp_device_part, member)
#define HIDDEN(member) MP_MEMBER(struct mp_hidden_allocator, member)
#define USE(member)    MP_MEMBER(struct mp_device_use, member)

static const struct mp_column part_columns[] = {
    {NULL, "name", MP_NAME, PART(name)},
    {NULL, "bytes", MP_BYTES, PART(bytes)},
    {NULL},
};

static const struct mp_column hidden_columns[] = {
    {NULL, "name", MP_NAME, HIDDEN(name)},
    {NULL, "bytes", MP_BYTES, HIDDEN(bytes)},
    {NULL, "advice", MP_NAME, HIDDEN(advice)},
    {NULL},
};

static void put_parts(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_device_use *use = row;
    mp_rows_json(json, key, &MP_ROWS(part_columns, use->parts.at, use->parts.count));
}

static void put_hidden(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_device_use *use = row;
    mp_rows_json(json, key, &MP_ROWS(hidden_columns, use->hidden.at, use->hidden.count));
}

static const struct mp_column use_columns[] = {
    {NULL, "id", MP_NAME, .get = get_id},
    {NULL, "at_ns", MP_DURATION, USE(at_ns)},
    {NULL, "in_use_bytes", MP_BYTES, USE(in_use_bytes)},
    {NULL, "process_bytes", MP_BYTES, USE(process_bytes)},
    {NULL, "others_bytes", MP_BYTES, USE(others_bytes)},
    {NULL, "handed_out_bytes", MP_BYTES, USE(handed_out_bytes)},
    {NULL, "unattributed_bytes", MP_BYTES, USE(unattributed_bytes)},
    {NULL, "unbacked_bytes", .put = put_unbacked_json},
    {NULL, "parts", .put = put_parts},
    {NULL, "hidden", .put = put_hidden},
    {NULL},
};

void mp_device_uses_json(struct mp_json *json, const struct mp_model *model)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    mp_rows_json(json, "device_use", &MP_ROWS(use_columns, uses.at, uses.count, .of = model));
    mp_device_uses_free(&uses);
}

/* "12.0 GiB that PyTorch counts as allocated had no memory at 3.20 s, the most; 12.0 GiB at the end: ..." */
static void put_unbacked(struct mp_text *text, const struct mp_model *model, const struct mp_device_use *use)
{
    struct mp_unbacked unbacked;
    if (!mp_unbacked_find(model, use->device, use->moment, &unbacked) || !unbacked.most_bytes) return;
    mp_say(text,
           "  %s that PyTorch counts as allocated had no memory at %s, the most; %s at the end:\n"
           "  it was unmapped or freed beneath its allocator, as where a server sleeps\n",
           mp_bytes(unbacked.most_bytes), mp_time(unbacked.most_ns), mp_bytes(unbacked.end_bytes));
}

/* "70.9 GiB of 140 GiB in use on cuda:0 at 12.7 s", and the parts in lines of a screen's width. */
static void put_device(struct mp_text *text, const struct mp_model *model, const struct mp_device_use *use)
{
    uint64_t total = model->devices.at[use->device].total_bytes;
    bool known = use->in_use_bytes != MP_BYTES_UNKNOWN, beyond = known && use->most_bytes > use->in_use_bytes;
    mp_heading(text, "DEVICE  %s", mp_bytes(known ? use->in_use_bytes : use->handed_out_bytes));
    if (known && total != MP_BYTES_UNKNOWN) mp_say(text, " of %s", mp_bytes(total));
    mp_say(text, " %s on %s at %s, %s\n", known ? "in use" : "handed out", id_of(model, use), mp_time(use->at_ns),
           !known   ? "the most; what else is in use there is not known"
           : beyond ? "the reading with most of it"
                    : "when this process had most of it");
    if (beyond)
        mp_say(text, "  %s were handed out at %s, between two readings\n", mp_bytes(use->most_bytes),
               mp_time(use->most_ns));
    size_t width = 0;
    for (size_t i = 0; i < use->parts.count; i++) {
        const char *bytes = mp_bytes(use->parts.at[i].bytes);
        size_t length = strlen(use->parts.at[i].name) + 1 + strlen(bytes) + strlen(" | ");
        bool breaks = width && width + length > LINE_WIDTH;
        if (breaks) mp_say(text, "\n");
        mp_say(text, "%s%s %s", !i || breaks ? "  " : " | ", use->parts.at[i].name, bytes);
        width = (breaks ? 0 : width) + length;
        if (i + 1 == use->parts.count) mp_say(text, "\n");
    }
    for (size_t i = 0; i < use->hidden.count; i++)
        mp_say(text, "  %s holds %s: %s\n", use->hidden.at[i].name, mp_bytes(use->hidden.at[i].bytes),
               use->hidden.at[i].advice);
    put_unbacked(text, model, use);
    if (use->beyond_bytes) mp_say(text, "  the total says %s less than was handed out\n", mp_bytes(use->beyond_bytes));
}

void mp_device_uses_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    for (size_t i = 0; i < uses.count; i++)
        put_device(text, model, &uses.at[i]);
    mp_device_uses_free(&uses);
}
