#include "export/flame.h"

#include <string.h>

#include "base/json.h"
#include "export/sink.h"

/* Appends a frame's label without ';' and line breaks: the format separates frames and stacks by them. */
static void fold_label(struct mp_buffer *out, const char *label, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)label[i];
        char clean = byte == ';' ? ':' : byte < ' ' ? ' ' : label[i];
        mp_buffer_append(out, &clean, 1);
    }
}

static void fold_line(struct mp_buffer *out, const struct mp_flame_export *export, size_t number)
{
    const struct mp_flame *flame = &export->flames->flames.at[number];
    size_t count, length;
    const char *path = mp_flames_path(export->flames, number, &count);
    for (size_t i = 0; i < count; i++) {
        const char *label = mp_flames_label(export->flames, mp_flames_frame(path, i), &length);
        if (i) mp_buffer_append_text(out, ";");
        fold_label(out, label, length);
    }
    if (export->differential) mp_buffer_printf(out, " %llu", (unsigned long long)flame->values[MP_BEFORE].bytes);
    mp_buffer_printf(out, " %llu\n", (unsigned long long)flame->values[MP_AFTER].bytes);
}

enum mp_status mp_folded_export(const struct mp_flame_export *export, FILE *out, struct mp_error *error)
{
    struct mp_sink sink;
    mp_sink_start(&sink, out, export->compress);
    for (size_t i = 0; i < export->flames->flames.count; i++) {
        fold_line(&sink.text, export, i);
        mp_sink_pass(&sink);
    }
    return mp_sink_end(&sink, MP_OK, error);
}

static void put_frames(struct mp_json *json, const struct mp_flames *flames)
{
    mp_json_object(json, "shared");
    mp_json_array(json, "frames");
    mp_vec_each (const struct mp_flame_frame, frame, &flames->frames) {
        mp_json_object(json, NULL);
        mp_json_text(json, "name", mp_intern_get(&flames->texts, frame->function, NULL));
        if (frame->file) mp_json_text(json, "file", mp_intern_get(&flames->texts, frame->file, NULL));
        if (frame->line) mp_json_number(json, "line", frame->line);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_json_end_object(json);
}

/* The weight of a profile: one side's, or the surplus of one side over the other. */
struct weight {
    const char *name;
    bool blocks, difference;
    enum mp_flame_side side;
};

static uint64_t number_of(const struct mp_profile_value *value, const struct weight *weight)
{
    return weight->blocks ? value->blocks : value->bytes;
}

static uint64_t weigh(const struct mp_flame *flame, const struct weight *weight)
{
    uint64_t number = number_of(&flame->values[weight->side], weight);
    uint64_t other = weight->difference ? number_of(&flame->values[!weight->side], weight) : 0;
    return number > other ? number - other : 0;
}

static void put_profile(struct mp_sink *sink, struct mp_json *json, const struct mp_flame_export *export,
                        const struct weight *weight)
{
    const struct mp_flames *flames = export->flames;
    char name[128];
    uint64_t sum = 0;
    snprintf(name, sizeof name, "%s%s%s", export->sense, *weight->name ? ", " : "", weight->name);
    mp_json_object(json, NULL);
    mp_json_text(json, "type", "sampled");
    mp_json_text(json, "name", name);
    mp_json_text(json, "unit", weight->blocks ? "none" : "bytes");
    mp_json_array(json, "samples");
    for (size_t i = 0; i < flames->flames.count; i++) {
        size_t count;
        const char *path = mp_flames_path(flames, i, &count);
        if (!weigh(&flames->flames.at[i], weight)) continue;
        MP_JSON_LIST(json, NULL, k, count, mp_json_number(json, NULL, mp_flames_frame(path, k)));
        mp_sink_pass(sink);
    }
    mp_json_end_array(json);
    mp_json_array(json, "weights");
    for (size_t i = 0; i < flames->flames.count; i++) {
        uint64_t number = weigh(&flames->flames.at[i], weight);
        if (number) mp_json_number(json, NULL, number);
        sum += number;
    }
    mp_json_end_array(json);
    mp_json_number(json, "startValue", 0);
    mp_json_number(json, "endValue", sum);
    mp_json_end_object(json);
}

enum mp_status mp_speedscope_export(const struct mp_flame_export *export, FILE *out, struct mp_error *error)
{
    static const struct weight one[] = {{"bytes", false, false, MP_AFTER}, {"blocks", true, false, MP_AFTER}};
    static const struct weight two[] = {{"bytes that came", false, true, MP_AFTER},
                                        {"bytes that went", false, true, MP_BEFORE},
                                        {"bytes after", false, false, MP_AFTER},
                                        {"bytes before", false, false, MP_BEFORE}};
    const struct weight *weights = export->differential ? two : one;
    size_t count = export->differential ? sizeof two / sizeof *two : sizeof one / sizeof *one;
    struct mp_sink sink;
    struct mp_json json;
    mp_sink_start(&sink, out, export->compress);
    mp_json_start(&json, &sink.text);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_text(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    mp_json_text(&json, "name", export->name);
    mp_json_text(&json, "exporter", "memprof@" PACKAGE_VERSION);
    mp_json_number(&json, "activeProfileIndex", 0);
    put_frames(&json, export->flames);
    mp_json_array(&json, "profiles");
    for (size_t i = 0; i < count; i++)
        put_profile(&sink, &json, export, &weights[i]);
    mp_json_end_array(&json);
    mp_json_end_object(&json);
    return mp_sink_end(&sink, MP_OK, error);
}
