/* Puts members of a JSON object into a dictionary that is being written. */
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/memory.h"
#include "exchange/common/values.h"
#include "exchange/pytorch/value_out.h"

/* One reader for both uses: with `value` it writes; without, it names the outermost members and checks the text. */
struct members {
    struct mp_value_out *value;
    mp_member_name *name;
    void *context;
    unsigned depth;
    bool list[MP_VALUES_JSON_DEPTH + 4]; /* at each depth */
    char *key;                           /* of the next value */
};

static const char *key_of(const struct members *members)
{
    return members->depth && !members->list[members->depth] ? members->key : NULL;
}

static void set_text(char **to, const unsigned char *text, size_t length)
{
    free(*to);
    *to = mp_text_copy_part((const char *)text, length);
}

static int on_null(void *context)
{
    struct members *members = context;
    if (members->value) mp_value_none(members->value, key_of(members));
    return members->depth > 0;
}

static int on_bool(void *context, int is)
{
    struct members *members = context;
    if (members->value) mp_value_bool(members->value, key_of(members), is);
    return members->depth > 0;
}

static int on_number(void *context, const char *digits, size_t length)
{
    struct members *members = context;
    char text[64];
    if (length >= sizeof text) return 0;
    memcpy(text, digits, length);
    text[length] = 0;
    bool whole = !strpbrk(text, ".eE");
    if (!members->value)
        ;
    else if (!whole)
        mp_value_float(members->value, key_of(members), strtod(text, NULL));
    else if (*text == '-')
        mp_value_signed(members->value, key_of(members), strtoll(text, NULL, 10));
    else
        mp_value_number(members->value, key_of(members), strtoull(text, NULL, 10));
    return members->depth > 0;
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    struct members *members = context;
    char *copy = NULL;
    if (members->value) {
        set_text(&copy, text, length);
        mp_value_text(members->value, key_of(members), copy);
    }
    bool failed = members->value && !copy;
    free(copy);
    return members->depth > 0 && !failed;
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
    struct members *members = context;
    if (members->depth == 1 && members->name) members->name(members->context, (const char *)text, length);
    if (members->value) set_text(&members->key, text, length);
    return 1;
}

static bool on_start(struct members *members, bool list)
{
    if (members->depth > MP_VALUES_JSON_DEPTH + 1 || (!members->depth && list)) return false;
    if (members->value && members->depth) (list ? mp_value_list : mp_value_dict)(members->value, key_of(members));
    members->list[++members->depth] = list;
    return true;
}

static int on_map(void *context)
{
    return on_start(context, false);
}

static int on_array(void *context)
{
    return on_start(context, true);
}

static int on_end(void *context)
{
    struct members *members = context;
    bool list = members->list[members->depth--];
    if (members->value && members->depth) (list ? mp_value_end_list : mp_value_end_dict)(members->value);
    return 1;
}

static bool read_members(struct members *members, const char *json)
{
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_bool,
                                             .yajl_number = on_number,
                                             .yajl_string = on_text,
                                             .yajl_start_map = on_map,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_end,
                                             .yajl_start_array = on_array,
                                             .yajl_end_array = on_end};
    yajl_handle yajl = yajl_alloc(&callbacks, NULL, members);
    bool done = yajl && yajl_parse(yajl, (const unsigned char *)json, strlen(json)) == yajl_status_ok &&
                yajl_complete_parse(yajl) == yajl_status_ok;
    if (yajl) yajl_free(yajl);
    free(members->key);
    return done;
}

bool mp_value_each_member(const char *json, mp_member_name *name, void *context)
{
    struct members members = {.name = name, .context = context};
    return read_members(&members, json);
}

void mp_value_members(struct mp_value_out *value, const char *json)
{
    struct members members = {.value = value};
    if (mp_value_each_member(json, NULL, NULL)) value->failed |= !read_members(&members, json);
}
