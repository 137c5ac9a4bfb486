#include "export/pprof.h"

#include "analysis/sites/flames.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "export/sink.h"
#include "model/track.h"

/* Field numbers of profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME_NS = 9,
    PROFILE_DURATION_NS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_TYPE = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_TEXT = 2, LABEL_NUMBER = 3 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILE = 4 };

static const struct {
    const char *bytes, *blocks;
} sense_names[MP_PROFILE_SENSES] = {[MP_PROFILE_PEAK] = {"peak_space", "peak_objects"},
                                    [MP_PROFILE_OUTSTANDING] = {"inuse_space", "inuse_objects"},
                                    [MP_PROFILE_ALLOCATED] = {"alloc_space", "alloc_objects"},
                                    [MP_PROFILE_AT] = {"at_space", "at_objects"}};

struct pprof {
    const struct mp_pprof_export *export;
    struct mp_sink sink;
    struct mp_intern texts; /* the string table; as profile.proto requires, its first text is empty */
    struct mp_flames flames;
    struct mp_stack_lines lines;
    struct mp_map functions;         /* ids by function and file */
    struct mp_buffer message, inner; /* under construction */
};

static void put_varint(struct mp_buffer *out, uint64_t number)
{
    unsigned char *room = mp_buffer_room(out, MP_VARINT_MAX);
    if (room) mp_buffer_grew(out, (size_t)(mp_varint_put(room, number) - room));
}

/* Appends a number field, unless it is 0: readers take an absent field as 0. */
static void put_number(struct mp_buffer *out, unsigned field, uint64_t number)
{
    if (!number) return;
    put_varint(out, field << 3);
    put_varint(out, number);
}

static void put_bytes(struct mp_buffer *out, unsigned field, const void *data, size_t length)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, length);
    mp_buffer_append(out, data, length);
}

/* Ends a message: it becomes a field of `out`. Empties the message's buffer. */
static void put_message(struct pprof *pprof, struct mp_buffer *out, unsigned field, struct mp_buffer *message)
{
    put_bytes(out, field, message->data, message->size);
    mp_buffer_clear(message);
}

static uint64_t text_id(struct pprof *pprof, const char *text)
{
    return mp_intern_add_text(&pprof->texts, text);
}

static void put_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    put_number(&pprof->message, TYPE_TYPE, text_id(pprof, type));
    put_number(&pprof->message, TYPE_UNIT, text_id(pprof, unit));
    put_message(pprof, &pprof->sink.text, field, &pprof->message);
}

static int senses(const struct pprof *pprof)
{
    return pprof->export->sense == MP_PROFILE_AT ? MP_PROFILE_SENSES : MP_PROFILE_AT;
}

static void put_label(struct pprof *pprof, const char *key, const char *text, uint64_t number)
{
    if (!text && !number) return;
    put_number(&pprof->inner, LABEL_KEY, text_id(pprof, key));
    if (text) put_number(&pprof->inner, LABEL_TEXT, text_id(pprof, text));
    put_number(&pprof->inner, LABEL_NUMBER, number);
    put_message(pprof, &pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void put_sample(struct pprof *pprof, const struct mp_pprof_side *side, const struct mp_profile_sample *sample,
                       bool subtract)
{
    uint16_t track = side->profile->track;
    char id[MP_TRACK_ID_MAX];
    uint32_t flame;
    mp_stack_resolve(side->model, sample->stack, &pprof->lines);
    mp_flames_find(&pprof->flames, &pprof->lines, sample->base, &flame);
    size_t count;
    const char *path = mp_flames_path(&pprof->flames, flame, &count);
    while (count--)
        put_varint(&pprof->inner, (uint64_t)mp_flames_frame(path, count) + 1);
    put_message(pprof, &pprof->message, SAMPLE_LOCATION, &pprof->inner);
    for (int sense = 0; sense < senses(pprof); sense++) {
        const struct mp_profile_value *value = &sample->values[sense];
        put_varint(&pprof->inner, subtract ? -value->blocks : value->blocks);
        put_varint(&pprof->inner, subtract ? -value->bytes : value->bytes);
    }
    put_message(pprof, &pprof->message, SAMPLE_VALUE, &pprof->inner);
    put_label(pprof, "track", mp_track_id(side->model, track, id), 0);
    put_label(pprof, "device", mp_track_device(side->model, track), 0);
    put_label(pprof, "layer", mp_layer_name(side->model->tracks.at[track].layer), 0);
    put_label(pprof, "region", sample->region == MP_NONE ? NULL : mp_model_text(side->model, sample->region), 0);
    put_label(pprof, "step", NULL, sample->step);
    if (subtract) put_label(pprof, "pprof::base", "true", 0);
    put_message(pprof, &pprof->sink.text, PROFILE_SAMPLE, &pprof->message);
    mp_sink_pass(&pprof->sink);
}

static void put_samples(struct pprof *pprof, const struct mp_pprof_side *side, bool subtract)
{
    for (size_t i = 0; side->model && i < side->profile->samples.count; i++)
        put_sample(pprof, side, &side->profile->samples.at[i], subtract);
}

static uint64_t function_id(struct pprof *pprof, const struct mp_flame_frame *frame)
{
    bool added;
    uint64_t *id = mp_map_at(&pprof->functions, (uint64_t)frame->function << 32 | (frame->file + 1), &added);
    if (!added) return *id;
    *id = pprof->functions.count;
    put_number(&pprof->message, FUNCTION_ID, *id);
    put_number(&pprof->message, FUNCTION_NAME,
               text_id(pprof, mp_intern_get(&pprof->flames.texts, frame->function, NULL)));
    put_number(&pprof->message, FUNCTION_FILE, text_id(pprof, mp_intern_get(&pprof->flames.texts, frame->file, NULL)));
    put_message(pprof, &pprof->sink.text, PROFILE_FUNCTION, &pprof->message);
    return *id;
}

static void put_locations(struct pprof *pprof)
{
    for (size_t i = 0; i < pprof->flames.frames.count; i++) {
        const struct mp_flame_frame *frame = &pprof->flames.frames.at[i];
        uint64_t function = function_id(pprof, frame);
        put_number(&pprof->inner, LINE_FUNCTION, function);
        put_number(&pprof->inner, LINE_LINE, frame->line);
        put_number(&pprof->message, LOCATION_ID, i + 1);
        put_message(pprof, &pprof->message, LOCATION_LINE, &pprof->inner);
        put_message(pprof, &pprof->sink.text, PROFILE_LOCATION, &pprof->message);
        mp_sink_pass(&pprof->sink);
    }
}

/* Appends a text as protobuf requires it: valid UTF-8. */
static void put_text(struct pprof *pprof, const char *text, size_t length)
{
    for (size_t i = 0, whole; i < length; i += whole) {
        uint32_t point;
        whole = mp_utf8_next((const unsigned char *)text + i, length - i, &point);
        if (point == MP_UTF8_BAD)
            mp_buffer_append_text(&pprof->inner, "\xef\xbf\xbd");
        else
            mp_buffer_append(&pprof->inner, text + i, whole);
    }
    put_message(pprof, &pprof->sink.text, PROFILE_STRING, &pprof->inner);
}

static void put_all(struct pprof *pprof)
{
    const struct mp_model *model = pprof->export->of.model;
    text_id(pprof, "");
    for (int sense = 0; sense < senses(pprof); sense++) {
        put_type(pprof, PROFILE_SAMPLE_TYPE, sense_names[sense].blocks, "count");
        put_type(pprof, PROFILE_SAMPLE_TYPE, sense_names[sense].bytes, "bytes");
    }
    put_samples(pprof, &pprof->export->of, false);
    put_samples(pprof, &pprof->export->before, true);
    put_locations(pprof);
    put_number(&pprof->sink.text, PROFILE_TIME_NS, model->start.realtime_ns);
    put_number(&pprof->sink.text, PROFILE_DURATION_NS, model->duration_ns);
    put_number(&pprof->sink.text, PROFILE_DEFAULT_TYPE, text_id(pprof, sense_names[pprof->export->sense].bytes));
    for (uint32_t id = 0; id < pprof->texts.count; id++) {
        size_t length;
        const char *text = mp_intern_get(&pprof->texts, id, &length);
        put_text(pprof, text, length);
        mp_sink_pass(&pprof->sink);
    }
}

enum mp_status mp_pprof_export(const struct mp_pprof_export *export, FILE *out, struct mp_error *error)
{
    struct pprof pprof = {.export = export};
    mp_sink_start(&pprof.sink, out, true);
    put_all(&pprof);
    mp_intern_free(&pprof.texts);
    mp_flames_free(&pprof.flames);
    mp_stack_lines_free(&pprof.lines);
    mp_map_free(&pprof.functions);
    mp_buffer_free(&pprof.message);
    mp_buffer_free(&pprof.inner);
    return mp_sink_end(&pprof.sink, MP_OK, error);
}
