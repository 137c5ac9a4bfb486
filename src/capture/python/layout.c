#include "capture/python/layout.h"

#include <string.h>

/* Members that have the same offsets in several versions. */
#define OBJECT       .object_type = 8, .object_size = 16, .bytes_data = 32, .string_length = 16, .string_state = 32
#define STRING_LONG  .string_ascii = 48, .string_compact = 72
#define STRING_SHORT .string_ascii = 40, .string_compact = 56
#define OBJECT_FREE_THREADED                                                                                           \
    .free_threaded = true, .object_type = 24, .object_size = 32, .bytes_data = 48, .string_length = 32,                \
    .string_state = 48, .string_ascii = 56, .string_compact = 72
#define FRAME_OBJECT                                                                                                   \
    .chain = MP_PYTHON_CHAIN_OBJECTS, .thread_top = 24, .thread_id = 176, .frame_previous = 24, .frame_code = 32,      \
    .code_file = 104, .code_name = 112, .code_first_line = 40, .code_lines = 120, .code_flags = 36, .code_locals = 28, \
    .code_bytes = 48
#define FRAME_SHIM     .chain = MP_PYTHON_CHAIN_SHIMS, .frame_previous = 8, .frame_code = 0, .frame_position = 56
#define THREAD_SHIM    .thread_top = 72, .thread_id = 152
#define THREAD_SHIM_15 .thread_top = 72, .thread_base = 80, .thread_id = 176
#define CODE_TEXT      .code_file = 112, .code_name = 120, .code_qualname = 128, .code_lines = 136
#define CODE_TEXT_FREE_THREADED                                                                                        \
    .code_file = 128, .code_name = 136, .code_qualname = 144, .code_lines = 152, .code_first_line = 84,                \
    .code_flags = 64, .code_locals = 88, .code_version = 108
#define SINCE_14                                                                                                       \
    FRAME_SHIM, .frame_owner = 74, .frame_locals = 80, CODE_TEXT, .code_first_line = 68, .code_flags = 48,             \
                .code_locals = 72, .code_bytecode = 208, .code_first_traceable = 192, .code_version = 92, OBJECT,      \
                STRING_SHORT
#define SINCE_14_FREE_THREADED                                                                                         \
    FRAME_SHIM, .frame_owner = 78, .frame_locals = 80, .frame_bytecode_index = 72, CODE_TEXT_FREE_THREADED,            \
                .code_bytecode = 232, .code_first_traceable = 208, .code_bytecode_copies = 224, .string_shift = 6,     \
                OBJECT_FREE_THREADED

static const struct mp_python_layout layouts[] = {
    {.minor = 9, FRAME_OBJECT, .frame_position = 104, .frame_generator = 96, .frame_locals = 360, OBJECT, STRING_LONG},
    {.minor = 10, FRAME_OBJECT, .frame_position = 96, .frame_generator = 88, .frame_locals = 352, OBJECT, STRING_LONG},
    {.minor = 11,
     .chain = MP_PYTHON_CHAIN_ENTRIES,
     .thread_top = 56,
     .thread_top_record = true,
     .record_frame = 8,
     .record_previous = 16,
     .thread_id = 152,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_position = 56,
     .frame_owner = 69,
     .frame_locals = 72,
     .frame_is_entry = 68,
     CODE_TEXT,
     .code_first_line = 72,
     .code_flags = 48,
     .code_locals = 76,
     .code_bytecode = 184,
     .code_first_traceable = 168,
     OBJECT,
     STRING_LONG},
    {.minor = 12,
     FRAME_SHIM,
     .thread_top = 56,
     .thread_top_record = true,
     .thread_id = 136,
     .frame_owner = 70,
     .frame_locals = 72,
     CODE_TEXT,
     .code_first_line = 68,
     .code_flags = 48,
     .code_locals = 72,
     .code_bytecode = 192,
     .code_first_traceable = 176,
     .code_version = 92,
     OBJECT,
     STRING_SHORT},
    {.minor = 13,
     FRAME_SHIM,
     THREAD_SHIM,
     .frame_owner = 70,
     .frame_locals = 72,
     CODE_TEXT,
     .code_first_line = 68,
     .code_flags = 48,
     .code_locals = 72,
     .code_bytecode = 200,
     .code_first_traceable = 184,
     .code_version = 92,
     OBJECT,
     STRING_SHORT},
    {.minor = 13,
     FRAME_SHIM,
     THREAD_SHIM,
     .frame_owner = 70,
     .frame_locals = 72,
     CODE_TEXT_FREE_THREADED,
     .code_bytecode = 216,
     .code_first_traceable = 200,
     OBJECT_FREE_THREADED},
    {.minor = 14, THREAD_SHIM, SINCE_14},
    {.minor = 14, THREAD_SHIM, SINCE_14_FREE_THREADED},
    {.minor = 15, THREAD_SHIM_15, SINCE_14},
    {.minor = 15, THREAD_SHIM_15, SINCE_14_FREE_THREADED},
};

const struct mp_python_layout *mp_python_layout_find(unsigned minor, bool free_threaded)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor && layouts[i].free_threaded == free_threaded) return &layouts[i];
    return NULL;
}

/* Pairs an entry of _Py_DebugOffsets with a member of ours. The order of the entries changes with the minor version. */
struct published {
    uint16_t at, field;
};
#define FIELD(name) offsetof(struct mp_python_layout, name)

static const struct published published_13[] = {
    {184, FIELD(thread_top)},     {232, FIELD(frame_previous)},  {240, FIELD(frame_code)},
    {248, FIELD(frame_position)}, {256, FIELD(frame_locals)},    {264, FIELD(frame_owner)},
    {280, FIELD(code_file)},      {288, FIELD(code_name)},       {296, FIELD(code_qualname)},
    {304, FIELD(code_lines)},     {312, FIELD(code_first_line)}, {344, FIELD(code_bytecode)},
    {360, FIELD(object_type)},    {520, FIELD(object_size)},     {528, FIELD(bytes_data)},
    {544, FIELD(string_state)},   {552, FIELD(string_length)},   {560, FIELD(string_ascii)},
};

static const struct published published_14[] = {
    {208, FIELD(thread_top)},
    {256, FIELD(frame_previous)},
    {264, FIELD(frame_code)},
    {272, FIELD(frame_position)},
    {280, FIELD(frame_locals)},
    {288, FIELD(frame_owner)},
    {304, FIELD(frame_bytecode_index)},
    {320, FIELD(code_file)},
    {328, FIELD(code_name)},
    {336, FIELD(code_qualname)},
    {344, FIELD(code_lines)},
    {352, FIELD(code_first_line)},
    {384, FIELD(code_bytecode)},
    {392, FIELD(code_bytecode_copies)},
    {408, FIELD(object_type)},
    {600, FIELD(object_size)},
    {608, FIELD(bytes_data)},
    {624, FIELD(string_state)},
    {632, FIELD(string_length)},
    {640, FIELD(string_ascii)},
};

static const struct published published_15[] = {
    {208, FIELD(thread_top)},      {216, FIELD(thread_base)},          {320, FIELD(frame_previous)},
    {328, FIELD(frame_code)},      {336, FIELD(frame_position)},       {344, FIELD(frame_locals)},
    {352, FIELD(frame_owner)},     {368, FIELD(frame_bytecode_index)}, {384, FIELD(code_file)},
    {392, FIELD(code_name)},       {400, FIELD(code_qualname)},        {408, FIELD(code_lines)},
    {416, FIELD(code_first_line)}, {448, FIELD(code_bytecode)},        {456, FIELD(code_bytecode_copies)},
    {472, FIELD(object_type)},     {696, FIELD(object_size)},          {704, FIELD(bytes_data)},
    {720, FIELD(string_state)},    {728, FIELD(string_length)},        {736, FIELD(string_ascii)},
};

static uint64_t load_u64(const void *base, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

bool mp_python_layout_agrees(const struct mp_python_layout *layout, const void *runtime)
{
    if (layout->minor < 13) return true;
    if (memcmp(runtime, "xdebugpy", 8) != 0) return false;
    if (load_u64(runtime, 8) >> 16 != UINT64_C(0x300) + layout->minor) return false;
    if ((load_u64(runtime, 16) != 0) != layout->free_threaded) return false;
#define LIST(name)                                                                                                     \
    {                                                                                                                  \
        name, sizeof name / sizeof *name                                                                               \
    }
    static const struct {
        const struct published *list;
        size_t count;
    } since_13[] = {LIST(published_13), LIST(published_14), LIST(published_15)};
#undef LIST
    const unsigned version = layout->minor - 13U;
    for (size_t i = 0; i < since_13[version].count; i++) {
        const struct published *one = &since_13[version].list[i];
        uint16_t ours;
        memcpy(&ours, (const char *)layout + one->field, sizeof ours);
        if (load_u64(runtime, one->at) != ours) return false;
    }
    return true;
}
