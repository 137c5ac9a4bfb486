#include "capture/python/checks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel.h"

#include "capture/python/memory.h"
#include "capture/python/walk.h"

enum { FRAMES_LOOKED_AT = 256 };

/* True if a word is mapped. The kernel reads the signal set before it refuses the invalid `how`; EFAULT means not
 * mapped. */
static bool readable_word(uintptr_t address)
{
    int saved = errno;
    long result = mp_syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t));
    bool readable = result == 0 || errno != EFAULT;
    errno = saved;
    return readable;
}

static bool readable(const void *base, size_t size)
{
    uintptr_t first = (uintptr_t)base, last = first + size - sizeof(uint64_t);
    if (first < 4096 || first % sizeof(void *) != 0 || last < first) return false;
    return readable_word(first) && readable_word(last);
}

static bool has_type(const struct mp_python_layout *layout, const char *object, const void *type)
{
    return readable(object, layout->object_type + sizeof(void *)) &&
           mp_load_pointer(object, layout->object_type) == type;
}

static size_t largest(const uint16_t *offsets, size_t count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (offsets[i] > most) most = offsets[i];
    return most + sizeof(uint64_t);
}

static size_t thread_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->thread_top, layout->thread_id}, 2);
}

static size_t frame_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->frame_previous, layout->frame_code, layout->frame_position, layout->frame_owner,
                                layout->frame_is_entry},
                   5);
}

static size_t code_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->code_file, layout->code_name, layout->code_qualname, layout->code_first_line,
                                layout->code_lines, layout->code_first_traceable, layout->code_version,
                                layout->code_bytecode_copies},
                   8);
}

/* Does not check the type: a file name may be of a subclass of str. */
static bool file_fits(const struct mp_python_layout *layout, const char *file)
{
    enum { LENGTH_MOST = 1 << 16 };
    if (!readable(file, largest((uint16_t[]){layout->string_state, layout->string_length}, 2))) return false;
    int64_t length = mp_load_i64(file, layout->string_length);
    uintptr_t end = (uintptr_t)file + layout->string_ascii + (uintptr_t)length;
    return length >= 0 && length < LENGTH_MOST && readable_word(end & ~(uintptr_t)7);
}

static bool lines_fit(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime, const char *lines)
{
    enum { BYTES_MOST = 1 << 22 }; /* no program is loaded below this address, so a lower value is no type's address */
    if (!has_type(layout, lines, runtime->bytes_type) || !readable(lines, layout->object_size + sizeof(int64_t)))
        return false;
    int64_t size = mp_load_i64(lines, layout->object_size);
    return size >= 0 && size < BYTES_MOST;
}

static bool code_fits(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime, const char *code)
{
    enum { LINES_MOST = 1 << 30 };
    if (!has_type(layout, code, runtime->code_type) || !readable(code, code_extent(layout))) return false;
    if (mp_load_u32(code, layout->code_first_line) > LINES_MOST) return false;
    if (layout->code_qualname && !has_type(layout, mp_load_pointer(code, layout->code_qualname), runtime->string_type))
        return false;
    return has_type(layout, mp_load_pointer(code, layout->code_name), runtime->string_type) &&
           lines_fit(layout, runtime, mp_load_pointer(code, layout->code_lines)) &&
           file_fits(layout, mp_load_pointer(code, layout->code_file));
}

static bool frame_fits(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime,
                       const char *frame)
{
    enum { OWNERS = 5 };
    if (layout->frame_owner && (unsigned char)frame[layout->frame_owner] >= OWNERS) return false;
    if (layout->frame_is_entry && (unsigned char)frame[layout->frame_is_entry] > 1) return false;
    return mp_python_frame_is_shim(layout, frame) || code_fits(layout, runtime, mp_python_frame_code(layout, frame));
}

/* True if the frame may be a stack's outermost: it begins a C call of the interpreter loop. */
static bool may_be_outermost(const struct mp_python_layout *layout, const char *frame)
{
    if (layout->chain == MP_PYTHON_CHAIN_SHIMS) return mp_python_frame_is_shim(layout, frame);
    return layout->chain != MP_PYTHON_CHAIN_ENTRIES || frame[layout->frame_is_entry];
}

static bool top_fits(const struct mp_python_layout *layout, const char *thread)
{
    if (!layout->thread_top_record) return true;
    const char *record = mp_load_pointer(thread, layout->thread_top);
    return readable(record, largest((uint16_t[]){layout->record_frame, layout->record_previous}, 2));
}

enum mp_python_verdict mp_python_check_shape(const struct mp_python_layout *layout,
                                             const struct mp_python_runtime *runtime, const char *thread)
{
    if (!readable(thread, thread_extent(layout))) return MP_PYTHON_WRONG;
    if ((pthread_t)mp_load_pointer(thread, layout->thread_id) != pthread_self()) return MP_PYTHON_WRONG;
    if (!top_fits(layout, thread)) return MP_PYTHON_WRONG;
    const char *frame = mp_python_newest_frame(layout, thread);
    enum mp_python_verdict verdict = MP_PYTHON_NOT_NOW;
    for (size_t i = 0; frame && i < FRAMES_LOOKED_AT; i++) {
        if (!readable(frame, frame_extent(layout)) || !frame_fits(layout, runtime, frame)) return MP_PYTHON_WRONG;
        verdict = MP_PYTHON_RIGHT;
        const char *previous = mp_load_pointer(frame, layout->frame_previous);
        if (!previous && !may_be_outermost(layout, frame)) return MP_PYTHON_WRONG;
        frame = previous;
    }
    return verdict;
}
