#include "capture/python/memory.h"
#include "capture/python/walk.h"

/* Bits of a str's state word, before they are shifted as the layout says. */
enum {
    STATE_KIND_SHIFT = 2, /* three bits: bytes per character */
    STATE_COMPACT = 1 << 5,
    STATE_ASCII = 1 << 6,
};

static uint32_t load_character(const char *data, unsigned kind, size_t index)
{
    if (kind == 4) return mp_load_u32(data, index * 4);
    if (kind == 1) return (unsigned char)data[index];
    uint16_t value;
    memcpy(&value, data + index * 2, sizeof value);
    return value;
}

static bool copy_string(const struct mp_python_layout *layout, const char *string, char *to, size_t size,
                        uint16_t *used)
{
    to[0] = '\0';
    *used = 0;
    if (!string) return false;
    uint32_t state = mp_load_u32(string, layout->string_state) >> layout->string_shift;
    int64_t length = mp_load_i64(string, layout->string_length);
    unsigned kind = state >> STATE_KIND_SHIFT & 7;
    if (!(state & STATE_COMPACT) || length < 0 || (kind != 1 && kind != 2 && kind != 4)) return false;
    const char *data = string + (state & STATE_ASCII ? layout->string_ascii : layout->string_compact);
    for (int64_t i = 0; i < length; i++) {
        char bytes[MP_UTF8_MAX];
        size_t width = mp_utf8_encode(bytes, load_character(data, kind, (size_t)i));
        if (*used + width >= size) break;
        memcpy(to + *used, bytes, width);
        *used = (uint16_t)(*used + width);
    }
    to[*used] = '\0';
    return true;
}

bool mp_python_describe_code(const struct mp_python_layout *layout, const char *code, uint32_t instruction,
                             struct mp_python_description *out)
{
    const char *lines = mp_load_pointer(code, layout->code_lines);
    const char *name = mp_load_pointer(code, layout->code_qualname ? layout->code_qualname : layout->code_name);
    const char *file = mp_load_pointer(code, layout->code_file);
    bool named = copy_string(layout, name, out->function, sizeof out->function, &out->function_length);
    bool placed = copy_string(layout, file, out->file, sizeof out->file, &out->file_length);
    int64_t size = lines ? mp_load_i64(lines, layout->object_size) : -1;
    out->line = size < 0 ? 0
                         : mp_python_line(layout->minor, (const unsigned char *)lines + layout->bytes_data,
                                          (size_t)size, mp_load_u32(code, layout->code_first_line), instruction);
    return named && placed;
}
