/* Makes a node of the spool's tables from an event's frames, like the recorder in its own program. One thread at a
 * time. */
#pragma once

#include "attach/attach_python.h"
#include "base/intern.h"
#include "collect/recording/spool_file.h"

#define MP_ATTACH_NATIVE_MOST 1024

struct mp_attach_tables {
    struct mp_attach_target *target;
    struct mp_attach_interpreter *python;
    struct mp_spool_file *spool; /* the recording's */
    uint32_t depth;              /* frames kept */
    bool native, python_frames, libunwind;
    uint64_t generation;                         /* generation of the target's modules when `natives` was filled */
    struct mp_map natives, codes, nodes, frames; /* to id + 1 */
    struct mp_intern strings;
    MP_VEC(uint32_t) string_ids; /* by number in `strings`: the spool's id */
};

/* The node of an event's stack; 0: the event has none. */
uint32_t mp_attach_node(struct mp_attach_tables *tables, const struct mp_attach_event *event,
                        const struct mp_attach_frame *frames, const void *stack);
uint32_t mp_attach_text(struct mp_attach_tables *tables, const char *text);
/* UINT16_MAX: no room for another track. */
uint16_t mp_attach_track(struct mp_attach_tables *tables, const struct mp_wire_track *track);
void mp_attach_tables_free(struct mp_attach_tables *tables);
