#include <stdlib.h>
#include <string.h>

#include "analysis/device/unbacked.h"
#include "base/units.h"
#include "output/report/reports.h"

static const char *id_of(const struct mp_model *model, const struct mp_device_use *use)
{
    return mp_model_text(model, model->devices.at[use->device].name);
}

static void put_unbacked_json(struct mp_json *json, const struct mp_model *model, const struct mp_device_use *use)
{
    struct mp_unbacked unbacked;
    mp_unbacked_find(model, use->device, use->moment, &unbacked);
    mp_json_known(json, "unbacked_bytes", unbacked.bytes);
    mp_json_known(json, "unbacked_most_bytes", unbacked.most_bytes);
    mp_json_known(json, "unbacked_most_ns", unbacked.most_bytes ? unbacked.most_ns : UINT64_MAX);
    mp_json_known(json, "unbacked_end_bytes", unbacked.end_bytes);
}

void mp_device_uses_json(struct mp_json *json, const struct mp_model *model)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    mp_json_array(json, "device_use");
    for (size_t i = 0; i < uses.count; i++) {
        const struct mp_device_use *use = &uses.at[i];
        mp_json_object(json, NULL);
        mp_json_text(json, "id", id_of(model, use));
        mp_json_number(json, "at_ns", use->at_ns);
        mp_json_known(json, "in_use_bytes", use->in_use_bytes);
        mp_json_known(json, "process_bytes", use->process_bytes);
        mp_json_known(json, "others_bytes", use->others_bytes);
        mp_json_number(json, "handed_out_bytes", use->handed_out_bytes);
        mp_json_known(json, "unattributed_bytes", use->unattributed_bytes);
        put_unbacked_json(json, model, use);
        mp_json_array(json, "parts");
        for (size_t j = 0; j < use->parts.count; j++) {
            mp_json_object(json, NULL);
            mp_json_text(json, "name", use->parts.at[j].name);
            mp_json_number(json, "bytes", use->parts.at[j].bytes);
            mp_json_end_object(json);
        }
        mp_json_end_array(json);
        mp_json_array(json, "hidden");
        for (size_t j = 0; j < use->hidden.count; j++) {
            mp_json_object(json, NULL);
            mp_json_text(json, "name", use->hidden.at[j].name);
            mp_json_number(json, "bytes", use->hidden.at[j].bytes);
            mp_json_text(json, "advice", use->hidden.at[j].advice);
            mp_json_end_object(json);
        }
        mp_json_end_array(json);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_device_uses_free(&uses);
}

/* "12.0 GiB that PyTorch counts as allocated had no memory at 3.20 s, the most; 12.0 GiB at the end: ..." */
static void put_unbacked(struct mp_text *text, const struct mp_model *model, const struct mp_device_use *use)
{
    char most[MP_UNIT_TEXT], when[MP_UNIT_TEXT], end[MP_UNIT_TEXT];
    struct mp_unbacked unbacked;
    if (!mp_unbacked_find(model, use->device, use->moment, &unbacked) || !unbacked.most_bytes) return;
    mp_text_put(text, MP_PLAIN,
                "  %s that PyTorch counts as allocated had no memory at %s, the most; %s at the end:\n"
                "  it was unmapped or freed beneath its allocator, as where a server sleeps\n",
                mp_format_bytes(most, unbacked.most_bytes), mp_format_duration(when, unbacked.most_ns),
                mp_format_bytes(end, unbacked.end_bytes));
}

/* "70.9 GiB of 140 GiB in use on cuda:0 at 12.7 s", and the parts in lines of a screen's width. */
static void put_device(struct mp_text *text, const struct mp_model *model, const struct mp_device_use *use)
{
    char number[MP_UNIT_TEXT];
    uint64_t total = model->devices.at[use->device].total_bytes;
    bool known = use->in_use_bytes != MP_BYTES_UNKNOWN;
    mp_text_put(text, MP_BOLD, "\nDEVICE  %s",
                mp_format_bytes(number, known ? use->in_use_bytes : use->handed_out_bytes));
    if (known && total != MP_BYTES_UNKNOWN) mp_text_put(text, MP_PLAIN, " of %s", mp_format_bytes(number, total));
    mp_text_put(text, MP_PLAIN, known ? " in use on " : " handed out on ");
    mp_text_clean(text->out, id_of(model, use));
    mp_text_put(text, MP_PLAIN, " at %s, %s\n", mp_format_duration(number, use->at_ns),
                known ? "when this process had most of it" : "the most; the device's total is not known");
    size_t width = 0;
    for (size_t i = 0; i < use->parts.count; i++) {
        struct mp_buffer part = {0};
        mp_text_clean(&part, use->parts.at[i].name);
        mp_buffer_printf(&part, " %s", mp_format_bytes(number, use->parts.at[i].bytes));
        bool breaks = width && width + part.size + 3 > 100;
        mp_text_put(text, MP_PLAIN, "%s%.*s",
                    !i       ? "  "
                    : breaks ? "\n  "
                             : " | ",
                    (int)part.size, (const char *)part.data);
        width = (breaks ? 0 : width) + part.size + 3;
        mp_buffer_free(&part);
    }
    if (use->parts.count) mp_text_put(text, MP_PLAIN, "\n");
    for (size_t i = 0; i < use->hidden.count; i++)
        mp_text_put(text, MP_PLAIN, "  %s holds %s: %s\n", use->hidden.at[i].name,
                    mp_format_bytes(number, use->hidden.at[i].bytes), use->hidden.at[i].advice);
    put_unbacked(text, model, use);
    if (use->beyond_bytes)
        mp_text_put(text, MP_PLAIN, "  the total says %s less than was handed out\n",
                    mp_format_bytes(number, use->beyond_bytes));
}

void mp_device_uses_text(struct mp_text *text, const struct mp_model *model)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    for (size_t i = 0; i < uses.count; i++)
        put_device(text, model, &uses.at[i]);
    mp_device_uses_free(&uses);
}
