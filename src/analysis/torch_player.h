/* A replay under way. Private to torch_replay.c and torch_player.c. One thread at a time. */
#ifndef MP_ANALYSIS_TORCH_PLAYER_H
#define MP_ANALYSIS_TORCH_PLAYER_H

#include "analysis/torch_replay.h"

struct mp_torch_player {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    struct mp_torch_history *noted; /* the same, of a replay of the record */
    struct mp_torch_allocator *allocator;
    struct mp_torch_replay *replay;
    uint32_t *ids;           /* by block of the model: the allocator's, or MP_TORCH_NO_BLOCK */
    MP_VEC(uint32_t) owners; /* by the allocator's block: the model's */
    MP_VEC(uint32_t) begun;  /* by pool: how often it was */
    MP_VEC(uint32_t) late;   /* blocks whose requested free the record completes during the call that comes */
    bool recorded;
    bool probing, probe_failed; /* a call is tried on a copy of the allocator; it did what the record does not have */
    uint32_t probes;
    uint32_t step;               /* under way */
    uint32_t script, script_end; /* steps among which are those about segments that the record has next */
    bool failed;                 /* memory is short */
};

void mp_torch_differ(struct mp_torch_player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes whose an allocator's block is; false where memory is short. */
bool mp_torch_own(struct mp_torch_player *p, uint32_t block, uint32_t id);
/* False, and so noted, where the allocator has no memory for itself. */
bool mp_torch_check(struct mp_torch_player *p, enum mp_torch_result result);
/* `is_new`: the record has memory for the request. */
void mp_torch_count_oom(struct mp_torch_player *p, bool is_new);

/* The state that the record begins with; the same blocks as the settings place them. */
void mp_torch_begin_recorded(struct mp_torch_player *p);
void mp_torch_begin_anew(struct mp_torch_player *p);
/* The end of the replay against the segments of the file. */
void mp_torch_compare_end(struct mp_torch_player *p, const struct mp_torch_listing *listing);

#endif
