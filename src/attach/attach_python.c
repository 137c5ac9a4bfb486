#include "attach/attach_python.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "capture/python/lines.h"
#include "capture/python/memory.h"
#include "capture/python/walk.h"
#include "wire/config.h"

/* For each version, the offsets of the list of threads in the interpreter's state. 3.13 and later publish both. */
static const struct {
    unsigned minor;
    uint32_t interpreters, threads_head;
} lists[] = {{9, 32, 8}, {10, 32, 8}, {11, 40, 16}, {12, 40, 72}};

#define PUBLISHED_BYTES        1024
#define PUBLISHED_INTERPRETERS 40
#define PUBLISHED_THREADS_HEAD 72
#define THREAD_NEXT            8
#define LINES_MOST             (1 << 20) /* bytes of a code object's table of lines */

/* The minor version, from the number that 3.11 and later export, else from the file's name. */
static unsigned find_minor(const struct mp_attach_target *target, const struct mp_attach_module *module)
{
    uint64_t at, bytes;
    uint32_t version;
    if (mp_attach_symbol(module, "Py_Version", &at, &bytes) &&
        mp_attach_target_read(target, module->bias + at, &version, sizeof version))
        return version >> 24 == 3 ? version >> 16 & 0xff : 0;
    const char *name = strrchr(module->path, '/'), *number = name ? strstr(name, "python3.") : NULL;
    return number ? (unsigned)strtoul(number + strlen("python3."), NULL, 10) : 0;
}

static void fill_settings(const struct mp_python_layout *layout, struct mp_attach_python *settings)
{
    *settings = (struct mp_attach_python){.runtime = settings->runtime,
                                          .interpreters = settings->interpreters,
                                          .threads_head = settings->threads_head,
                                          .thread_next = THREAD_NEXT,
                                          .thread_id = layout->thread_id,
                                          .thread_top = layout->thread_top,
                                          .thread_top_record = layout->thread_top_record,
                                          .record_frame = layout->record_frame,
                                          .record_previous = layout->record_previous,
                                          .frame_previous = layout->frame_previous,
                                          .frame_code = layout->frame_code,
                                          .frame_position = layout->frame_position,
                                          .frame_owner = layout->frame_owner,
                                          .frame_is_entry = layout->frame_is_entry,
                                          .code_name = layout->code_name,
                                          .code_file = layout->code_file,
                                          .code_lines = layout->code_lines,
                                          .code_first_line = layout->code_first_line,
                                          .code_bytecode = layout->code_bytecode,
                                          .code_first_traceable = layout->code_first_traceable,
                                          .position_is_index = layout->chain == MP_PYTHON_CHAIN_OBJECTS,
                                          .chain = layout->chain};
}

static void choose(const struct mp_attach_target *target, const struct mp_attach_module *module, uint64_t runtime,
                   struct mp_attach_interpreter *python)
{
    unsigned char published[PUBLISHED_BYTES] = {0};
    unsigned minor = find_minor(target, module);
    struct mp_attach_python *settings = &python->settings;
    uint64_t head, threads, free_threaded = 0;
    settings->runtime = runtime;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].minor == minor) {
            settings->interpreters = lists[i].interpreters;
            settings->threads_head = lists[i].threads_head;
        }
    if (minor >= 13 && mp_attach_target_read(target, runtime, published, sizeof published)) {
        memcpy(&free_threaded, published + 16, sizeof free_threaded);
        memcpy(&head, published + PUBLISHED_INTERPRETERS, sizeof head);
        memcpy(&threads, published + PUBLISHED_THREADS_HEAD, sizeof threads);
        settings->interpreters = (uint32_t)head;
        settings->threads_head = (uint32_t)threads;
    }
    const struct mp_python_layout *layout = mp_python_layout_find(minor, false);
    if (free_threaded)
        snprintf(python->note, sizeof python->note,
                 "no Python frames: attach does not know the free-threaded Python 3.%u", minor);
    else if (!layout || !settings->threads_head || (minor >= 13 && !mp_python_layout_agrees(layout, published)))
        snprintf(python->note, sizeof python->note,
                 "no Python frames: attach knows Python 3.%d to 3.%d, but not this version", MP_PYTHON_MINOR_FIRST,
                 MP_PYTHON_MINOR_LAST);
    else
        python->layout = layout;
    if (!python->layout) return;
    fill_settings(layout, settings);
    uint64_t at, bytes;
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS && mp_attach_symbol(module, "_PyEval_EvalFrameDefault", &at, &bytes)) {
        python->loop_start = module->bias + at;
        python->loop_end = python->loop_start + bytes;
    }
}

bool mp_attach_find_python(const struct mp_attach_target *target, struct mp_attach_interpreter *python)
{
    *python = (struct mp_attach_interpreter){.layout = NULL};
    for (size_t i = 0; i < target->modules.count; i++) {
        const struct mp_attach_module *module = target->modules.at[i];
        uint64_t at, bytes;
        const char *name = strrchr(module->path, '/');
        if (module->gone || !name || !strstr(name, "python") || !mp_attach_symbol(module, "_PyRuntime", &at, &bytes))
            continue;
        choose(target, module, module->bias + at, python);
        return true;
    }
    return false;
}

/* ---- code objects ------------------------------------------------------------------------------------------------ */

static uint64_t read_word(const struct mp_attach_target *target, uint64_t address)
{
    uint64_t value = 0;
    return mp_attach_target_read(target, address, &value, sizeof value) ? value : 0;
}

static uint32_t read_half(const struct mp_attach_target *target, uint64_t address)
{
    uint32_t value = 0;
    return mp_attach_target_read(target, address, &value, sizeof value) ? value : 0;
}

/* Reads a str as UTF-8. From bit 2 on, its state word has the bytes per character, and a bit for a text that
 * follows. */
static bool read_text(const struct mp_attach_target *target, const struct mp_python_layout *layout, uint64_t text,
                      char *to, size_t room)
{
    enum { COMPACT = 1 << 5, ASCII = 1 << 6, MOST = 4096 };
    unsigned char data[MOST];
    *to = '\0';
    uint32_t state = text ? read_half(target, text + layout->string_state) >> layout->string_shift : 0;
    uint64_t length = read_word(target, text + layout->string_length);
    unsigned kind = state >> 2 & 7;
    if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4)) return false;
    if (length > MOST / kind) length = MOST / kind;
    uint64_t at = text + (state & ASCII ? layout->string_ascii : layout->string_compact);
    if (length && !mp_attach_target_read(target, at, data, length * kind)) return false;
    size_t used = 0;
    for (uint64_t i = 0; i < length; i++) {
        uint32_t character = 0;
        char bytes[MP_UTF8_MAX];
        memcpy(&character, data + i * kind, kind);
        size_t width = mp_utf8_encode(bytes, character);
        if (used + width >= room) break;
        memcpy(to + used, bytes, width);
        used += width;
    }
    to[used] = '\0';
    return true;
}

static uint32_t instruction_of(const struct mp_python_layout *layout, const struct mp_attach_frame *frame)
{
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS) {
        int32_t index = (int32_t)(uint32_t)frame->position;
        return index < 0 ? MP_PYTHON_INSTRUCTION_UNKNOWN : (uint32_t)index * (layout->minor >= 10 ? 2 : 1);
    }
    return (uint32_t)(frame->position - frame->code - layout->code_bytecode);
}

bool mp_attach_describe(const struct mp_attach_target *target, const struct mp_attach_interpreter *python,
                        const struct mp_attach_frame *frame, struct mp_attach_code *code)
{
    const struct mp_python_layout *layout = python->layout;
    uint64_t name = read_word(target, frame->code + layout->code_name),
             file = read_word(target, frame->code + layout->code_file);
    uint64_t lines = read_word(target, frame->code + layout->code_lines);
    uint32_t first = read_half(target, frame->code + layout->code_first_line);
    uint64_t shown = layout->code_qualname ? read_word(target, frame->code + layout->code_qualname) : name;
    *code = (struct mp_attach_code){.line = 0};
    if (mp_attach_tag(name, file, lines, first) != frame->tag ||
        !read_text(target, layout, shown, code->function, sizeof code->function) ||
        !read_text(target, layout, file, code->file, sizeof code->file))
        return false;
    uint64_t size = read_word(target, lines + layout->object_size);
    /* Up to 3.9, a function of one line has an empty table. */
    unsigned char *table = size < LINES_MOST ? malloc(size + 1) : NULL;
    if (table && mp_attach_target_read(target, lines + layout->bytes_data, table, size))
        code->line = mp_python_line(layout->minor, table, size, first, instruction_of(layout, frame));
    free(table);
    return true;
}
