/*
 * Replays of a caching allocator's history through the model of PyTorch's allocator. A replay of the recording itself
 * shows whether the model places every block where it was. Other replays change the settings or the capacity. One
 * thread at a time.
 */
#pragma once

#include "analysis/allocator/torch_history.h"
#include "model/model.h"

#define MP_TORCH_TO_THE_END UINT32_MAX

/* True if live blocks leave less than a twentieth of the memory. A setting that then fits one request does not help the
 * rest of the program: an evaluation that kept its graphs had 0.9 % free, and died a few requests later under each
 * setting. Recorded requests that failed by fragmentation left 12 to 50 % free. */
static inline bool mp_torch_is_full(uint64_t live, uint64_t memory)
{
    return live > memory - memory / 20;
}

struct mp_torch_replay {
    uint64_t reserved_peak, allocated_peak; /* over the blocks' bytes, including blocks from before the first step */
    uint64_t ooms;                          /* failed requests */
    uint64_t new_ooms;                      /* failed requests that succeeded in the recording */
    uint32_t last_oom;                      /* step; MP_NONE */
    uint64_t allocs;                        /* that were made */
    uint64_t retries;                       /* requests before which the allocator emptied its cache */
    uint64_t driver_calls;                  /* calls that get memory from the driver */
    bool given_up;                          /* mp_torch_replay_below(): it reserved more than allowed */
    /* Only in replays of the recording: */
    uint64_t differences;
    char first[240];             /* what differs first; "" */
    uint64_t segment_events;     /* number of segments' events that agree */
    uint64_t differences_at_end; /* differences in the state at the end, after all calls */
    uint64_t unfreed;            /* blocks that the trace leaves live, but in no segment: the recording contradicts
                                  * itself */
    uint64_t segments, parts;    /* number compared at the end; 0: the file has none */
};

/* The state at a step: the allocator's segments, and for each of its blocks the model's block. */
struct mp_torch_moment {
    struct mp_torch_listing listing;
    MP_VEC(uint32_t) owners; /* by block of the listing: the model's block, or MP_NONE */
};

/* Replays a traced history as recorded: the driver gives memory where the trace says so, and all else must follow.
 * Lists the state before step `until`, or at the end, in *moment (may be NULL; starts empty, freed by the caller).
 * Notes in the history where the program emptied the cache. */
void mp_torch_replay_recorded(const struct mp_model *model, struct mp_torch_history *history, uint32_t until,
                              struct mp_torch_moment *moment, struct mp_torch_replay *replay);
void mp_torch_moment_free(struct mp_torch_moment *moment);

/* Replays the requests before step `until` under other settings, on a device of `capacity` bytes (MP_TORCH_UNLIMITED).
 * A limit is a share of `total`. Blocks from before the first step get new addresses, in the order of their old ones.
 * Requests that failed in the recording are made, too; if one succeeds, its block is freed at once. */
void mp_torch_replay_with(const struct mp_model *model, const struct mp_torch_history *history,
                          const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total, uint32_t until,
                          struct mp_torch_replay *replay);
/* Called after each step with allocated and reserved bytes. Also called once before the first step, with
 * MP_TORCH_BEFORE_STEPS. */
typedef void mp_torch_watch(void *context, size_t step, uint64_t allocated, uint64_t reserved);
#define MP_TORCH_BEFORE_STEPS SIZE_MAX
/* Replays all steps like mp_torch_replay_with(), with a watch. */
void mp_torch_replay_watched(const struct mp_model *model, const struct mp_torch_history *history,
                             const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total,
                             mp_torch_watch *watch, void *context, struct mp_torch_replay *replay);
/* Replays all steps like mp_torch_replay_with(), but stops when more than `most` bytes are reserved. */
void mp_torch_replay_below(const struct mp_model *model, const struct mp_torch_history *history,
                           const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total, uint64_t most,
                           struct mp_torch_replay *replay);
