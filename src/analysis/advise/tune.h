/*
 * Searches settings of PyTorch's caching allocator under which a program would have reserved less. Each step of the
 * search replays all recorded requests. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_TUNE_H
#define MP_ANALYSIS_TUNE_H

#include "analysis/allocator/torch_replay.h"

/* Told now and then how far a search has come; may be NULL. */
typedef void mp_tune_progress(void *context, size_t done, size_t of);

struct mp_tune_found {
    struct mp_torch_settings settings;
    unsigned options; /* that differ from those recorded */
    struct mp_torch_replay replay;
};

enum mp_tune_phase { MP_TUNE_LOAD, MP_TUNE_TRAIN, MP_TUNE_SERVE };

/* Settings for one phase of a program; its own ones hold in the other phases. */
struct mp_tune_phased {
    struct mp_torch_settings settings;
    enum mp_tune_phase phase; /* that has them */
    bool early;               /* up to the event, else from it on */
    bool behind_training;     /* the event ends training, else loading */
    uint32_t event;           /* of the model, with which modules begin to be called */
    char *then;               /* what is set just before it */
    struct mp_torch_replay replay;
};

struct mp_tuning {
    uint64_t capacity, total;      /* of the replays; MP_BYTES_UNKNOWN: endless; not known */
    struct mp_torch_replay as_set; /* under the settings that it had */
    uint64_t recorded_reserved;    /* the highest as recorded; 0: not known */
    uint64_t reserved;             /* that or the replay's, if less: what others are held against */
    uint64_t bound;                /* no settings, and no order of segments, reserve less */
    uint64_t base_bytes;           /* from before the recording, which replays place anew */
    bool known;                    /* the requested size of every block is known, and the record's replay reserves the
                                    * recorded bytes */
    size_t replays;
    MP_VEC(struct mp_tune_phased)
    phased;                             /* the best, if it is better than the best for the whole program, or as good and
                                         * breaks less */
    MP_VEC(struct mp_tune_found) found; /* the best of all, then the best that changes one option, if it is another */
};

/* The history is that of a caching allocator's track. It learns from a replay where
 * the cache was emptied. Without `search` only the record is replayed. */
void mp_tune(const struct mp_model *model, struct mp_torch_history *history, bool search, mp_tune_progress *progress,
             void *context, struct mp_tuning *tuning);
void mp_tuning_free(struct mp_tuning *tuning);

#endif
