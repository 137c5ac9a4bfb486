/*
 * Searches settings of PyTorch's caching allocator under which a program would have reserved less. Each step of the
 * search replays all recorded requests. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/allocator/torch_replay.h"

/* Called now and then with the progress of the search; may be NULL. */
typedef void mp_tune_progress(void *context, size_t done, size_t of);

struct mp_tune_found {
    struct mp_torch_settings settings;
    unsigned options; /* number of options that differ from the recorded ones */
    struct mp_torch_replay replay;
};

enum mp_tune_phase { MP_TUNE_LOAD, MP_TUNE_TRAIN, MP_TUNE_SERVE };

/* Settings for one phase of a program. The program's own settings hold in its other phases. */
struct mp_tune_phased {
    struct mp_torch_settings settings;
    enum mp_tune_phase phase; /* the phase with the settings */
    bool early;               /* the phase ends at the event, otherwise begins there */
    bool behind_training;     /* the event ends training, otherwise loading */
    uint32_t event;           /* the model's event with which the first module is called */
    char *then;               /* the settings from just before it on */
    struct mp_torch_replay replay;
};

struct mp_tuning {
    uint64_t capacity, total;      /* capacity of the replays, MP_BYTES_UNKNOWN: no limit; the device's memory,
                                    * MP_BYTES_UNKNOWN: not known */
    struct mp_torch_replay as_set; /* under the program's own settings */
    uint64_t recorded_reserved;    /* the recorded peak; 0: not known */
    uint64_t reserved;             /* the lower of recorded and replayed peak; other replays are compared with it */
    uint64_t bound;                /* no setting and no placement of segments can reserve less */
    uint64_t base_bytes;           /* bytes from before the recording; replays choose their addresses */
    bool known;                    /* the requested size of every block is known, and the record's replay reserves the
                                    * recorded bytes */
    size_t replays;
    MP_VEC(struct mp_tune_phased)
    phased;                             /* the best settings for one phase; only if they beat the best ones for the
                                         * whole program, or equal them with fewer changes */
    MP_VEC(struct mp_tune_found) found; /* the best of all; then the best with one changed option, if they differ */
};

/* The history must be a caching allocator's. The function learns from a replay where the cache was emptied. Without
 * `search` it only replays the recording. */
void mp_tune(const struct mp_model *model, struct mp_torch_history *history, bool search, mp_tune_progress *progress,
             void *context, struct mp_tuning *tuning);
void mp_tuning_free(struct mp_tuning *tuning);
