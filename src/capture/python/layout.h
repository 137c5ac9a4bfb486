/*
 * Byte offsets in CPython's memory that a walk of the calling thread's frames reads. There is one layout for each minor
 * version of release builds. It is the same on x86-64 and aarch64. Nothing here calls into Python. Never allocates; any
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How one can see which frames of the chain belong to one C call of the interpreter loop. */
enum mp_python_chain {
    MP_PYTHON_CHAIN_OBJECTS, /* 3.9, 3.10: each frame object is one call */
    MP_PYTHON_CHAIN_ENTRIES, /* 3.11: a call's outermost frame has a flag; the call's C frame contains a record of it */
    MP_PYTHON_CHAIN_SHIMS,   /* 3.12 on: each call's frames end with a frame without code, inside the call's C frame */
};

/* Offsets in bytes. In the members marked (0), 0 means "does not exist". */
struct mp_python_layout {
    uint16_t minor;
    bool free_threaded;
    uint8_t chain;              /* enum mp_python_chain */
    uint8_t string_shift;       /* by how many bits the bits "kind", "compact" and "ascii" are shifted up from their
                                 * usual places */
    uint16_t thread_top;        /* newest frame, or the record that points to it */
    uint16_t thread_top_record; /* 1: thread_top points to a record that points to the newest frame (3.11, 3.12) */
    uint16_t record_frame, record_previous;
    uint16_t thread_base; /* (0) the frame at the end of every chain, which belongs to no C call */
    uint16_t thread_id;   /* pthread_t */
    uint16_t frame_previous, frame_code, frame_position;
    uint16_t frame_owner;          /* (0) */
    uint16_t frame_generator;      /* (0) the generator that the frame belongs to */
    uint16_t frame_is_entry;       /* (0) */
    uint16_t frame_locals;         /* the first local variable, a word */
    uint16_t frame_bytecode_index; /* (0) i32: number of the copy of the bytecode that the thread runs */
    uint16_t code_file, code_name;
    uint16_t code_qualname; /* (0) */
    uint16_t code_first_line, code_lines;
    uint16_t code_flags, code_locals; /* i32; number of local variables */
    uint16_t code_bytes;              /* (0) if a position is an index: the bytecode, a bytes object */
    uint16_t code_bytecode;           /* (0) if a position is a pointer: the inline bytecode */
    uint16_t code_first_traceable;    /* (0) i32, in code units */
    uint16_t code_version;            /* (0) u32 */
    uint16_t code_bytecode_copies;    /* (0) */
    uint16_t object_type, object_size;
    uint16_t bytes_data;
    uint16_t string_length, string_state, string_ascii, string_compact;
};

/* The layout of Python 3.`minor`; NULL when this version of memprof does not know it. */
const struct mp_python_layout *mp_python_layout_find(unsigned minor, bool free_threaded);

/* Compares the layout with the offsets that Python 3.13 and later publish at the start of `runtime` (their _PyRuntime).
 * True if both agree; also true for versions that publish none. */
bool mp_python_layout_agrees(const struct mp_python_layout *layout, const void *runtime);
