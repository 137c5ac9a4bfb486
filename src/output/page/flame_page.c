#include "output/page/flame_page.h"

#include <string.h>

#include "base/json.h"

static void put_frames(struct mp_json *json, const struct mp_flames *flames)
{
    mp_json_array(json, "frames");
    for (uint32_t i = 0; i < flames->frames.count; i++) {
        const struct mp_flame_frame *frame = &flames->frames.at[i];
        size_t length;
        const char *label = mp_flames_label(flames, i, &length);
        mp_json_array(json, NULL);
        mp_json_bytes_of_text(json, NULL, label, length);
        mp_json_text(json, NULL, frame->file ? mp_intern_get(&flames->texts, frame->file, NULL) : NULL);
        mp_json_number(json, NULL, frame->language);
        mp_json_end_array(json);
    }
    mp_json_end_array(json);
}

static void put_stacks(struct mp_json *json, const struct mp_flames *flames)
{
    mp_json_array(json, "stacks");
    for (size_t i = 0; i < flames->flames.count; i++) {
        size_t count;
        const char *path = mp_flames_path(flames, i, &count);
        MP_JSON_LIST(json, NULL, k, count, mp_json_number(json, NULL, mp_flames_frame(path, k)));
    }
    mp_json_end_array(json);
}

static void put_numbers(struct mp_json *json, const char *key, const struct mp_flames *flames, enum mp_flame_side side,
                        bool blocks)
{
    mp_json_array(json, key);
    for (size_t i = 0; i < flames->flames.count; i++) {
        const struct mp_profile_value *value = &flames->flames.at[i].values[side];
        mp_json_number(json, NULL, blocks ? value->blocks : value->bytes);
    }
    mp_json_end_array(json);
}

static void put_data(struct mp_buffer *out, const struct mp_flames *flames, const struct mp_flame_page *page)
{
    struct mp_json json;
    mp_json_start(&json, out);
    json.flat = true;
    mp_json_object(&json, NULL);
    mp_json_text(&json, "title", page->title);
    mp_json_text(&json, "about", page->about);
    mp_json_bool(&json, "differential", page->differential);
    put_frames(&json, flames);
    put_stacks(&json, flames);
    put_numbers(&json, "after", flames, MP_AFTER, false);
    put_numbers(&json, "blocks", flames, MP_AFTER, true);
    if (page->differential) put_numbers(&json, "before", flames, MP_BEFORE, false);
    mp_json_end_object(&json);
}

/* Writes JSON with '<' escaped: JSON has '<' only in texts, and there it could end the element around the data. */
static void write_harmless(const struct mp_buffer *data, FILE *out)
{
    const char *at = (const char *)data->data, *end = at + data->size;
    while (at < end) {
        const char *bad = memchr(at, '<', (size_t)(end - at));
        fwrite(at, 1, (size_t)((bad ? bad : end) - at), out);
        if (bad) fputs("\\u003c", out);
        at = bad ? bad + 1 : end;
    }
}

enum mp_status mp_flame_page_write(const struct mp_flames *flames, const struct mp_flame_page *page, FILE *out,
                                   struct mp_error *error)
{
    static const char mark[] = "@DATA@";
    const char *template = (const char *)mp_flame_template, *place = strstr(template, mark);
    struct mp_buffer data = {0};
    put_data(&data, flames, page);
    fwrite(template, 1, (size_t)(place - template), out);
    write_harmless(&data, out);
    fputs(place + strlen(mark), out);
    mp_buffer_free(&data);
    return ferror(out) ? mp_fail_errno(error, "cannot write the flame graph") : MP_OK;
}
