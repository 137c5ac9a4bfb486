/*
 * A whole recording in memory, as columns. It is built once (by loading a file or by the builder) and never changes, so
 * any number of threads may read it. Ids are those of format/recording.h.
 *
 * About 16 bytes per event and 30 bytes per block, 4 more if modules are known.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/vec.h"
#include "format/reader.h"
#include "format/recording.h"
#include "format/segments.h"

/* Events of all types, in order of time. */
struct mp_model_events {
    size_t count;
    uint64_t *time_ns;
    uint32_t *subject; /* alloc, free, resize: index into blocks; oom, reserved, step, region, mark, start, stop: index
                        * into mp_model.notes (struct mp_model_note) */
    uint32_t *thread;  /* MP_NONE: an event in a lost part of the file, derived from a later base */
    uint16_t *track;
    uint8_t *type;
};

/* One allocation's life. The base's blocks come first, if the recording has a base. `bytes`: the size at the alloc. */
struct mp_model_blocks {
    size_t count;
#define MP_BLOCK_COLUMN(field, type) type *field;
    MP_BLOCK_FIELDS(MP_BLOCK_COLUMN)
#undef MP_BLOCK_COLUMN
    uint32_t *alloc_event; /* MP_NONE: live before the recording (or the kept window) began */
    uint32_t *free_event;  /* MP_NONE: live at the end */
    uint32_t *module;      /* string id of the module's path; NULL if no block has one: use mp_model_module() */
    uint32_t *freed_at;    /* stack that freed the block; NULL if none is known: use mp_model_freed_at() */
};

/* A label that the program gave a block. Sorted by block, then event. Use mp_model_label_at(). */
struct mp_model_label {
    uint32_t block;
    uint32_t event; /* the label counts from just after that event; MP_NONE: from the start */
    uint32_t role;  /* enum mp_role */
    uint32_t name;  /* string id; 0: none */
};

/* The holder of a block, from the last look that found one. Sorted by block. */
struct mp_model_holder {
    uint32_t block;
    uint32_t look;             /* index into looks; equals the number of looks if the last look's end was lost */
    uint32_t since;            /* the first of the looks, up to this one, that all found the same path */
    uint32_t path, file, line; /* string ids of path and file (0: unknown); line */
    uint8_t kind;              /* enum mp_holder_kind */
    bool certain;
};

/* A look of the program for the holders of its blocks. `note`: string id of a text about what the look left out; 0:
 * nothing. */
struct mp_model_look {
    uint64_t time_ns; /* when it ended */
    uint32_t note;
    bool complete;
};

/* A text about a block. Sorted by block, then by time. */
struct mp_model_metadata {
    uint64_t time_ns;
    uint32_t block;
    uint32_t text; /* string id */
    uint8_t kind;  /* enum mp_metadata_kind */
    bool again;    /* the block has an earlier text of the same kind and content: count it once */
};

/* A use of a block by an operator of PyTorch. Sorted by block, then by time. Use mp_model_uses_of(). */
struct mp_model_use {
    uint64_t time_ns;
    uint32_t block;
    uint32_t operator, node, shape, module; /* string ids, as in struct mp_block_use */
    uint8_t how;                            /* bits of enum mp_use_how */
};

/* The request that PyTorch's allocator answered with a block. Sorted by block. Use mp_model_request_of(). */
struct mp_model_request {
    uint32_t block;
    struct mp_request request;
};

/* A change of a block's size. Sorted by block, then event. Use mp_model_bytes_at(). */
struct mp_model_resize {
    uint32_t block, event;
    uint64_t bytes; /* the block's size from `event` on */
};

/* Facts about an event that is not about a block. */
struct mp_model_note {
    uint64_t bytes; /* oom: requested bytes; reserved: bytes that the allocator holds now */
    uint32_t stack; /* oom, mark */
    uint32_t name;  /* string id: name of the region, mark or step; oom: path of the module that ran */
};

/* A source-level frame as texts. */
struct mp_model_line {
    uint32_t function, file; /* string ids; 0: unknown */
    uint32_t line;           /* 0: unknown */
};

struct mp_model_frame {
    struct mp_frame raw;
    uint32_t first_line, line_count; /* lines in mp_model.lines, innermost first; a frame that is not native has exactly
                                      * one line; 0: unknown */
};

/* The sums of a track. They are exact, and include the base. */
struct mp_model_track_sum {
    uint64_t events, allocs, frees, ooms;
    uint64_t base_bytes, peak_bytes, end_bytes;
    uint64_t peak_blocks, end_blocks;
    uint64_t unknown_blocks; /* blocks of the base without a known size: base and peak are then lower bounds */
    uint32_t peak_event;     /* the event that first reached the peak; MP_NONE: the level at the start */
    uint64_t peak_ns;
    uint64_t reserved_peak_bytes; /* MP_BYTES_UNKNOWN if never reported */
    /* The time before the model's first event (mp_model.past). */
    struct mp_past_peak past; /* all 0: there is no such time */
    bool peak_in_past;        /* the peak lies in that time: peak_event is MP_NONE, and the peak's blocks are in
                               * mp_model.past_sites */
};

/* The contents of a job's file, except for strings, frames and stacks. Texts in rows are string ids of the model. */
struct mp_model_job {
    MP_VEC(struct mp_job_process) processes; /* in order: ranks first, by number */
    MP_VEC(struct mp_job_track) tracks;
    MP_VEC(struct mp_job_site) sites;
    MP_VEC(struct mp_job_holding) holdings;
    MP_VEC(struct mp_job_finding) findings;
    MP_VEC(struct mp_job_point) points;
    MP_VEC(struct mp_job_trouble) troubles;
};

/* A result that a model keeps for the next question, and the function that frees it. */
struct mp_derived {
    void *found;
    void (*free)(void *found);
};

/* The file's contents, and what it lacks. */
struct mp_model_file {
    uint64_t bytes;
    struct mp_model_chunks {
        uint64_t chunks, entries, bytes;
    } chunks[MP_CHUNK_KINDS]; /* what the file contains, by kind of chunk */
    const char *format;       /* "mp", later "pytorch", "kineto" */
    struct mp_damage damage;
    bool is_job;      /* the file's start says so */
    uint64_t put_in;  /* number of frees that the program's own count of events lacks: see missed_frees */
    uint64_t part_of; /* number of all events, if the file has only a part (leaks --pid); else 0 */
};

struct mp_model {
    struct mp_model_file file;
    struct mp_recording_start start;
    MP_VEC(void *) owned; /* memory of the texts of `start` */
    MP_VEC(struct mp_derived) derived;
    struct mp_intern strings;
    MP_VEC(struct mp_device) devices;
    MP_VEC(struct mp_track) tracks;
    MP_VEC(struct mp_thread_info) threads;
    MP_VEC(struct mp_module) modules;
    MP_VEC(struct mp_model_frame) frames;
    MP_VEC(struct mp_model_line) lines;
    MP_VEC(struct mp_stack_node) stacks;
    MP_VEC(struct mp_model_note) notes;
    MP_VEC(uint32_t) noted; /* the events that have notes, in order: notes[N] belongs to event noted[N] */
    MP_VEC(struct mp_model_resize) resizes;
    MP_VEC(struct mp_model_label) labels;
    MP_VEC(struct mp_model_holder) holders;
    MP_VEC(struct mp_model_look) looks;
    MP_VEC(struct mp_model_use) uses; /* empty without a log of operators */
    MP_VEC(struct mp_model_metadata) metadata;
    MP_VEC(struct mp_model_request) requests; /* requests of some blocks, from PyTorch's own history */
    MP_VEC(struct mp_sample) samples;
    MP_VEC(struct mp_segment) segments; /* only if the file says what its allocators held at the end */
    MP_VEC(struct mp_segment_part) parts;
    MP_VEC(struct mp_allocator_call) calls; /* only if the file has an allocator's own trace */
    MP_VEC(struct mp_aside) asides;         /* only if the file came from another program */
    struct mp_model_events events;
    struct mp_model_blocks blocks;
    MP_VEC(struct mp_model_track_sum) sums; /* one per track */
    struct mp_past past;                    /* the time before the base and the first event; all 0: there is none */
    MP_VEC(struct mp_past_site) past_sites; /* sites at the peaks of that time; `module`: the model's string id */
    uint64_t sample_bytes;   /* mean bytes between two samples of the layers torch and app (base/sampling.h); 0: all
                              * blocks are recorded */
    uint64_t host_bytes;     /* mean bytes between two samples of the layer malloc, which is always sampled */
    struct mp_model_job job; /* empty if this is a recording */
    struct mp_coverage coverage;
    struct mp_exit how;
    MP_VEC(uint8_t)
    skipped;                      /* by string id: reports pass over frames with that function, file or library
                                   * (model/stack.h); empty: none */
    struct mp_known_facts *facts; /* found so far by model/stack_facts.h */
    struct mp_model_steps *steps; /* found so far by model/steps_infer.h; may be NULL */
    uint64_t duration_ns;         /* to the exit, else to the last event or sample */
};

void mp_model_free(struct mp_model *model);

/* The size of a block just after an event of its life (MP_NONE: at the end). After the block's free, it is its last
 * size. */
uint64_t mp_model_bytes_at(const struct mp_model *model, uint32_t block, uint32_t event);

/* The label of a block just after one of its events (MP_NONE: at the end); NULL if it had none yet. */
const struct mp_model_label *mp_model_label_at(const struct mp_model *model, uint32_t block, uint32_t event);
/* The first label of a block; NULL if it has none. */
const struct mp_model_label *mp_model_label_first(const struct mp_model *model, uint32_t block);

/* The request for a block. NULL if there is none: the block's size may itself be the requested one. */
const struct mp_request *mp_model_request_of(const struct mp_model *model, uint32_t block);
/* All texts about a block; *count is their number, perhaps 0. */
const struct mp_model_metadata *mp_model_metadata_of(const struct mp_model *model, uint32_t block, size_t *count);

/* The uses of a block by operators; *count is their number, perhaps 0. */
const struct mp_model_use *mp_model_uses_of(const struct mp_model *model, uint32_t block, size_t *count);

/* String id of the path of the module that allocated the block, as stored ("Net.blocks.3.attn"); 0 if unknown. */
static inline uint32_t mp_model_module(const struct mp_model *model, uint32_t block)
{
    return model->blocks.module ? model->blocks.module[block] : 0;
}

/* The stack that freed the block (from --free-stacks, or an allocator's trace with stacks of frees). 0 if unknown, or
 * if the block is live at the end. */
static inline uint32_t mp_model_freed_at(const struct mp_model *model, uint32_t block)
{
    return model->blocks.freed_at ? model->blocks.freed_at[block] : 0;
}

/* True if the model is not of one recording but of a job, made by `memprof merge`. It then has no events. */
#define MP_JOB_KEY "job" /* key in the configuration of such a file */
bool mp_start_is_job(const struct mp_recording_start *start);
static inline bool mp_model_is_job(const struct mp_model *model)
{
    return model->file.is_job;
}

/* The text of a string id; "" for id 0. */
static inline const char *mp_model_text(const struct mp_model *model, uint32_t id)
{
    return mp_intern_get(&model->strings, id, NULL);
}

/* Appends the recorded command, with a space between its words. */
void mp_model_command(const struct mp_model *model, struct mp_buffer *out);

/* The number of the program's own events in the recording, even if only a part of the recording was read. */
static inline uint64_t mp_model_event_count(const struct mp_model *model)
{
    return model->file.part_of ? model->file.part_of : model->events.count - model->file.put_in;
}

/* The number of events before `ns`; with `also_at`, events at `ns` count, too. */
uint32_t mp_model_events_before(const struct mp_model *model, uint64_t ns, bool also_at);

/* True if that source ("torch", "api", "nvtx", ...) recorded something. */
bool mp_model_has_source(const struct mp_model *model, const char *source);
/* True if memprof recorded the program; false if another tool did, whatever the file's format is now. */
bool mp_model_was_recorded(const struct mp_model *model);

/* The sampling mean of a track whose blocks are a sample, in bytes; 0: the track has all blocks. */
static inline uint64_t mp_model_sample_of(const struct mp_model *model, uint16_t track)
{
    uint8_t layer = model->tracks.at[track].layer;
    return layer == MP_LAYER_DRIVER ? 0 : layer == MP_LAYER_MALLOC ? model->host_bytes : model->sample_bytes;
}

/* True if the recording lost something: cut, damaged or dropped events (exit status 4, "complete": false). */
bool mp_model_incomplete(const struct mp_model *model);
/* True if a limit left something out: the recording is incomplete, but nothing went wrong. */
bool mp_model_limited(const struct mp_model *model);
