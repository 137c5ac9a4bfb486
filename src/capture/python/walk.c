#include "capture/python/walk.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "capture/native/loaded.h"
#include "capture/python/lines.h"
#include "capture/python/memory.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    OWNER_GENERATOR = 1,
    OWNER_FIRST_SHIM = 3, /* the value 4 is a shim, too: 3.14 has two kinds */
    TAG_BITS = 7,         /* low bits of a code pointer; objects lie at multiples of 16 */
    BYTES_PER_UNIT = 2,
    COPIES_MAX = 1 << 20,                 /* most copies of the bytecode: one for each thread */
    STATE_INLINE_ASCII = 1 << 5 | 1 << 6, /* bits of a str: its text follows its header, one byte for each character */
};

/* The code objects that calls of modules run, and the range of addresses that contains them: for most frames, one
 * comparison is enough. 1 is no object's address. */
static const char *_Atomic module_codes[MP_PYTHON_MODULE_CODES];
static _Atomic uintptr_t first_module_code = 1, last_module_code = 1;

#define HASH_SEED   UINT64_C(0x6a09e667f3bcc908)
#define HASH_BORDER UINT64_C(0xbb67ae8584caa73b)

ALWAYS_INLINE const char *frame_code(const struct mp_python_layout *layout, const char *frame)
{
    return (const char *)((uintptr_t)mp_load_pointer(frame, layout->frame_code) & ~(uintptr_t)TAG_BITS);
}

struct sought {
    uintptr_t first, span;
};

ALWAYS_INLINE struct sought seek_modules(void)
{
    uintptr_t first = atomic_load_explicit(&first_module_code, memory_order_relaxed);
    return (struct sought){first, atomic_load_explicit(&last_module_code, memory_order_relaxed) - first};
}

static bool is_module_code(const char *code)
{
    for (size_t i = 0; i < MP_PYTHON_MODULE_CODES; i++)
        if (atomic_load_explicit(&module_codes[i], memory_order_relaxed) == code) return true;
    return false;
}

bool mp_python_seek_module_code(const void *code)
{
    size_t at = 0;
    const char *seen = NULL;
    while (at < MP_PYTHON_MODULE_CODES && !atomic_compare_exchange_strong(&module_codes[at], &seen, code) &&
           seen != code) {
        at++;
        seen = NULL;
    }
    if (at == MP_PYTHON_MODULE_CODES) return false;
    uintptr_t address = (uintptr_t)code;
    if (atomic_load(&last_module_code) < address) atomic_store(&last_module_code, address);
    if (atomic_load(&first_module_code) == 1 || atomic_load(&first_module_code) > address)
        atomic_store(&first_module_code, address);
    return true;
}

/* Called for a frame that has begun. Stores the module if the frame is a call of one, and no frame further in is. */
ALWAYS_INLINE void look_for_module(const struct mp_python_layout *layout, const struct sought *sought,
                                   const char *frame, const char *code, struct mp_python_stack *stack)
{
    if (__builtin_expect((uintptr_t)code - sought->first > sought->span, 1)) return;
    if (!stack->module && is_module_code(code))
        stack->module = (const void *)((uintptr_t)mp_load_pointer(frame, layout->frame_locals) & ~(uintptr_t)TAG_BITS);
}

ALWAYS_INLINE unsigned frame_owner(const struct mp_python_layout *layout, const char *frame)
{
    return (unsigned char)frame[layout->frame_owner];
}

const char *mp_python_frame_code(const struct mp_python_layout *layout, const char *frame)
{
    return frame_code(layout, frame);
}

bool mp_python_frame_is_shim(const struct mp_python_layout *layout, const char *frame)
{
    return layout->chain == MP_PYTHON_CHAIN_SHIMS && frame_owner(layout, frame) >= OWNER_FIRST_SHIM;
}

const char *mp_python_newest_frame(const struct mp_python_layout *layout, const char *thread)
{
    const char *top = mp_load_pointer(thread, layout->thread_top);
    if (!layout->thread_top_record || !top) return top;
    return mp_load_pointer(top, layout->record_frame);
}

/* For versions of Python whose code objects have no version number. A code object may get the address of an earlier
 * one, and often the names and tables of both have equal addresses, too. The contents of the names are therefore
 * hashed: the function's stored hash (an interned text has one) and the end of the file's name. The result is a sum of
 * products, so that the multiplications need not wait for each other. */
ALWAYS_INLINE uint64_t identity_by_content(const struct mp_python_layout *layout, const char *code)
{
    const char *name = mp_load_pointer(code, layout->code_name), *file = mp_load_pointer(code, layout->code_file);
    const char *lines = mp_load_pointer(code, layout->code_lines);
    uint64_t name_hash = (uint64_t)mp_load_i64(name, layout->string_length + sizeof(int64_t));
    uint64_t file_length = (uint64_t)mp_load_i64(file, layout->string_length), file_end = file_length;
    if (file_length >= sizeof file_end &&
        (mp_load_u32(file, layout->string_state) & STATE_INLINE_ASCII) == STATE_INLINE_ASCII)
        file_end += (uint64_t)mp_load_i64(file, layout->string_ascii + file_length - sizeof file_end);
    return (uintptr_t)code * UINT64_C(0x9fb21c651e98df25) + (uintptr_t)file * UINT64_C(0xd6e8feb86659fd93) +
           (uintptr_t)lines * UINT64_C(0xa0761d6478bd642f) + name_hash * UINT64_C(0xe7037ed1a0b428db) +
           file_end * UINT64_C(0x8ebc6af09c88c6e3) +
           mp_load_u32(code, layout->code_first_line) * UINT64_C(0x1d8e4e27c47d124f);
}

ALWAYS_INLINE uint64_t code_identity(const struct mp_python_layout *layout, const char *code)
{
    uint32_t version = layout->code_version ? mp_load_u32(code, layout->code_version) : 0;
    if (version) return mp_hash_step(mp_hash_step(HASH_SEED, (uintptr_t)code), version);
    return mp_hash_step(HASH_SEED, identity_by_content(layout, code));
}

uint64_t mp_python_code_identity(const struct mp_python_layout *layout, const char *code)
{
    return code_identity(layout, code);
}

/* Free-threaded 3.14: each thread runs its own copy of the bytecode, from an array; the inline copy belongs to the
 * first thread. Another thread may replace the array. It frees the old array once all attached threads have passed a
 * safe point. A thread that waits or runs C code is not attached, and so does not delay the free. The array of such a
 * thread is read through the kernel. By then the memory may have another use, so the result counts only if it can be
 * the beginning of this code. NULL: unknown. */
static const char *bytecode_start(const struct mp_python_layout *layout, const char *frame, const char *code,
                                  uintptr_t position, bool attached)
{
    const char *start = code + layout->code_bytecode;
    uint64_t size = (uint64_t)mp_load_i64(code, layout->object_size) * BYTES_PER_UNIT;
    if (position - (uintptr_t)start < size) return start;
    const char *copies = mp_load_pointer(code, layout->code_bytecode_copies);
    uint32_t index = mp_load_u32(frame, layout->frame_bytecode_index);
    if (!copies || index >= COPIES_MAX) return NULL;
    size_t place = sizeof(int64_t) + index * sizeof start;
    if (attached) return index < (uint64_t)mp_load_i64(copies, 0) ? mp_load_pointer(copies, place) : NULL;
    if (!mp_read_is_safe() || !mp_read_memory(&start, (uintptr_t)copies + place, sizeof start)) return NULL;
    return position - (uintptr_t)start < size ? start : NULL;
}

/* The byte offset of the frame's current instruction. *begun: false for a frame that has not begun, which Python's own
 * API leaves out, too. */
ALWAYS_INLINE uint32_t frame_instruction(const struct mp_python_layout *layout, const char *frame, const char *code,
                                         bool attached, bool *begun)
{
    uintptr_t position = (uintptr_t)mp_load_pointer(frame, layout->frame_position);
    const char *start = code + layout->code_bytecode;
    *begun = true;
    if (layout->code_bytecode_copies) {
        start = bytecode_start(layout, frame, code, position, attached);
        if (!start) return MP_PYTHON_INSTRUCTION_UNKNOWN;
    }
    int64_t offset = (int64_t)(position - (uintptr_t)start);
    int64_t first = (int64_t)(int32_t)mp_load_u32(code, layout->code_first_traceable) * BYTES_PER_UNIT;
    *begun = offset >= first || frame_owner(layout, frame) == OWNER_GENERATOR;
    return offset >= 0 && offset < INT32_MAX ? (uint32_t)offset : MP_PYTHON_INSTRUCTION_UNKNOWN;
}

ALWAYS_INLINE void add_frame(const struct mp_python_layout *layout, struct mp_python_stack *stack, const char *code,
                             uint32_t instruction)
{
    uint64_t identity = code_identity(layout, code);
    stack->frames[stack->frame_count++] = (struct mp_python_frame){
        .code = code,
        .identity = identity,
        .instruction = instruction,
        .group = stack->group_count,
    };
    stack->hash = mp_hash_step(stack->hash, identity + instruction * HASH_BORDER);
}

ALWAYS_INLINE void end_group(struct mp_python_stack *stack, const char *marker)
{
    stack->markers[stack->group_count++] = (uintptr_t)marker;
    stack->hash = mp_hash_step(stack->hash, HASH_BORDER);
}

static void walk_objects(const struct mp_python_layout *layout, const char *thread, struct mp_python_stack *stack)
{
    const char *frame = mp_python_newest_frame(layout, thread), *end = stack->end;
    int32_t scale = layout->minor == 9 ? 1 : BYTES_PER_UNIT;
    const struct sought sought = seek_modules();
    for (; frame && frame != end; frame = mp_load_pointer(frame, layout->frame_previous)) {
        if (stack->frame_count == stack->room) {
            stack->cut = true;
            return;
        }
        int32_t last = (int32_t)mp_load_u32(frame, layout->frame_position);
        const char *code = frame_code(layout, frame);
        look_for_module(layout, &sought, frame, code, stack);
        add_frame(layout, stack, code, last < 0 ? MP_PYTHON_INSTRUCTION_UNKNOWN : (uint32_t)(last * scale));
        end_group(stack, NULL);
    }
}

static void walk_entries(const struct mp_python_layout *layout, const char *thread, struct mp_python_stack *stack)
{
    const char *record = mp_load_pointer(thread, layout->thread_top);
    const char *frame = record ? mp_load_pointer(record, layout->record_frame) : NULL, *end = stack->end;
    const struct sought sought = seek_modules();
    bool open = false;
    for (uint32_t steps = 0; frame && frame != end; frame = mp_load_pointer(frame, layout->frame_previous)) {
        if (steps++ == stack->room) {
            stack->cut = true;
            break;
        }
        const char *code = frame_code(layout, frame);
        bool begun;
        uint32_t instruction = frame_instruction(layout, frame, code, false, &begun);
        if (begun) {
            look_for_module(layout, &sought, frame, code, stack);
            add_frame(layout, stack, code, instruction);
        }
        open = !frame[layout->frame_is_entry];
        if (open) continue;
        end_group(stack, record);
        if (record) record = mp_load_pointer(record, layout->record_previous);
    }
    if (open) end_group(stack, NULL);
}

static void walk_shims(const struct mp_python_layout *layout, const char *thread, bool attached,
                       struct mp_python_stack *stack)
{
    const char *frame = mp_python_newest_frame(layout, thread), *end = stack->end;
    const char *base = layout->thread_base ? mp_load_pointer(thread, layout->thread_base) : NULL;
    const struct sought sought = seek_modules();
    bool open = false;
    for (uint32_t steps = 0; frame && frame != end && frame != base;
         frame = mp_load_pointer(frame, layout->frame_previous)) {
        if (steps++ == stack->room) {
            stack->cut = true;
            break;
        }
        open = frame_owner(layout, frame) < OWNER_FIRST_SHIM;
        if (!open) {
            end_group(stack, frame);
            continue;
        }
        const char *code = frame_code(layout, frame);
        bool begun;
        uint32_t instruction = frame_instruction(layout, frame, code, attached, &begun);
        if (begun) {
            look_for_module(layout, &sought, frame, code, stack);
            add_frame(layout, stack, code, instruction);
        }
    }
    if (open) end_group(stack, NULL);
}

void mp_python_walk_thread(const struct mp_python_layout *layout, const char *thread, bool attached,
                           struct mp_python_stack *stack)
{
    stack->frame_count = stack->group_count = 0;
    stack->cut = false;
    stack->module = NULL;
    stack->hash = 0;
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS)
        walk_objects(layout, thread, stack);
    else if (layout->chain == MP_PYTHON_CHAIN_ENTRIES)
        walk_entries(layout, thread, stack);
    else
        walk_shims(layout, thread, attached, stack);
}

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
