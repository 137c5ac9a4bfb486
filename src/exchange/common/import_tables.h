/*
 * A recording made from another program's file: its tables, in which each text, frame and stack gets its number at its
 * first use, its events, and its end. All go to a builder. Zero-initialised is ready for use. One thread at a time.
 */
#pragma once

#include "base/intern.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/event_room.h"
#include "model/builder.h"

/* Events, collected as columns. Too large for a thread's stack, with 3 MiB. Builder and error must be set. */
struct mp_import_events {
    struct mp_builder *builder;
    struct mp_error *error;
    enum mp_status status;        /* the builder's first failure; later events are left out */
    uint64_t passed;              /* events that the builder got */
    struct mp_event_room waiting; /* room for the builder's next events */
};

enum mp_status mp_import_event(struct mp_import_events *events, const struct mp_event *event);
/* To be called after the last event. */
enum mp_status mp_import_events_flush(struct mp_import_events *events);

struct mp_import_tables {
    struct mp_intern strings, frame_keys;
    struct mp_map node_ids;
    MP_VEC(struct mp_frame) frames;
    MP_VEC(struct mp_stack_node) nodes;
    MP_VEC(struct mp_device) devices;
    MP_VEC(struct mp_track) tracks;
    MP_VEC(struct mp_thread_info) threads;
};

uint32_t mp_import_text(struct mp_import_tables *tables, const char *text, size_t length);
/* Adds a frame of source. Texts are string ids, 0 if unknown. An unknown line is 0. */
uint32_t mp_import_frame(struct mp_import_tables *tables, enum mp_language language, uint32_t function, uint32_t file,
                         uint32_t line);
/* Adds the stack that consists of `parent` (0: the empty stack) and a frame that it called (or MP_FRAME_CUT). */
uint32_t mp_import_stack(struct mp_import_tables *tables, uint32_t parent, uint32_t frame);

/* Adds all tables to a builder that has none yet. */
enum mp_status mp_import_tables_put(struct mp_import_tables *tables, struct mp_builder *builder,
                                    struct mp_error *error);
void mp_import_tables_free(struct mp_import_tables *tables);

/* Adds the last chunks, which say how the recording was made and how it ended. */
enum mp_status mp_import_end(struct mp_builder *builder, const struct mp_coverage *coverage, const struct mp_exit *how,
                             struct mp_error *error);
/* Ends an import: frees the builder, which may be NULL. If `filled` is MP_OK, makes the model of the builder's
 * contents; else returns `filled`. `format` lives as long as the model. */
enum mp_status mp_import_finish(struct mp_builder *builder, enum mp_status filled, uint64_t file_bytes,
                                const char *format, struct mp_model **model, struct mp_error *error);
