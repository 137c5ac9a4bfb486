/* Python in the attached process: where the interpreter has its frames, and what a code object means. Reads the
 * process's memory. One thread at a time. */
#pragma once

#include <stdbool.h>

#include "attach/attach_target.h"
#include "capture/python/layout.h"

struct mp_attach_interpreter {
    const struct mp_python_layout *layout; /* NULL: Python frames are not read */
    struct mp_attach_python settings;
    uint64_t loop_start, loop_end; /* for 3.9 and 3.10: the interpreter's loop; its C frames have no marker */
    char note[160];                /* why Python frames are not read; "" */
};

/* Searches the modules. False: the process has no Python. */
bool mp_attach_find_python(const struct mp_attach_target *target, struct mp_attach_interpreter *python);

struct mp_attach_code {
    char function[512], file[1024];
    uint32_t line;
};

/* Reads the names and lines of the code object; false if another object has taken its address. */
bool mp_attach_describe(const struct mp_attach_target *target, const struct mp_attach_interpreter *python,
                        const struct mp_attach_frame *frame, struct mp_attach_code *code);
