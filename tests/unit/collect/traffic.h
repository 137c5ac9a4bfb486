/*
 * A program that never ran: random records as a recorder would leave them in a spool, and the truth about them in the
 * plainest form. The collector's code takes the records, and its results are compared with the truth.
 *
 * Track 0 is the driver's. Track 1 is PyTorch's on the same device, whose blocks begin where the driver's do. Track 2
 * is an application's pool with a hostile name. Track 3 is PyTorch's on the CPU, with totals.
 */
#pragma once

#include "base/intern.h"
#include "base/vec.h"
#include "collect/recording/recording.h"

#define TRAFFIC_TRACKS 4
#define TRAFFIC_RINGS  3
#define TRAFFIC_STACKS 20
/* The recording's start, on the monotonic clock. Some tests ask the real clock, too, which counts from the machine's
 * start.
 */
#define TRAFFIC_START_NS UINT64_C(5000000000)

#define TRAFFIC_STEP_FUNCTION "train_step"

enum traffic_with {
    TRAFFIC_WINDOWS = 1, /* the program starts and stops the recording */
    TRAFFIC_HISTORY = 2, /* PyTorch's history is read */
    TRAFFIC_STEPS = 4,
    TRAFFIC_STEP_AT = 8, /* calls of TRAFFIC_STEP_FUNCTION are steps */
};

struct traffic_record {
    struct mp_record record;
    uint32_t ring;
};

struct traffic {
    uint64_t random, now;
    unsigned with;
    MP_VEC(struct traffic_record) records;
    /* The truth after all of them. String ids are those of `texts`. */
    struct mp_intern texts;
    MP_VEC(struct mp_event) events; /* as in a file that keeps all events */
    MP_VEC(struct mp_label) labels;
    MP_VEC(struct mp_block_request) requests;
    MP_VEC(struct mp_base_block) live;
    MP_VEC(struct mp_thread_info) threads;
    uint32_t ring_thread[TRAFFIC_RINGS + 3]; /* number of each ring's thread, and of two lanes', + 1 */
    uint64_t next_block, unknown_frees, missed_frees, steps, total;
    uint64_t totals_checked, steps_at;
    uint64_t reserved[TRAFFIC_TRACKS];
    MP_VEC(struct mp_event) untold; /* allocations on track 1 since the last reading */
    bool open;
};

/* Makes the same records for the same seed; with fewer `records`, the beginning of them. */
void traffic_make(struct traffic *traffic, uint64_t seed, size_t records, unsigned with);
void traffic_free(struct traffic *traffic);

/* The number in the names of this run's spools, as their folder has other spools, too. */
extern uint64_t traffic_spool_id;

/* A spool whose tables are as the recorder left them, and a recording of it into `path`. `configuration` may be NULL:
 * what is usual. */
struct mp_recording *traffic_record(const struct traffic *traffic, const char *path,
                                    const struct mp_record_config *configuration, const char *spool_folder);
/* Puts records [from, to) into the rings. */
void traffic_put(const struct traffic *traffic, struct mp_spool_header *spool, size_t from, size_t to);
/* The same, with rounds of the collector in between; all records are taken. */
void traffic_play(const struct traffic *traffic, struct mp_recording *recording, size_t from, size_t to);

/* The truth as a model, made by the builder. A complete recording must have an equal model. */
struct mp_model *traffic_model(const struct traffic *traffic);
/* Begins a file with only the truth's tables. */
struct mp_writer *traffic_write(const struct traffic *traffic, int fd);
/* Checks that the blocks live at the model's end equal the truth's in every field; births only if the model has
 * them. */
void traffic_check_live(const struct traffic *traffic, const struct mp_model *model);

/* The text of a string id of the truth. */
const char *traffic_text(const struct traffic *traffic, uint32_t id);
/* "cuda:0/torch" */
extern const char *const traffic_track_ids[TRAFFIC_TRACKS];

/* The monotonic clock, which the program's records and the collector share; 0: the machine's own. */
extern uint64_t traffic_now_ns;
