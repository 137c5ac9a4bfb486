#include "collect/recording/lives.h"

#include <string.h>

/* Doubles the length of units. */
static void coarsen(struct mp_lives *lives)
{
    size_t kept = 0;
    lives->shift++;
    for (size_t i = 0; i < lives->begun_ns.count; i += 2)
        lives->begun_ns.at[i / 2] = lives->begun_ns.at[i];
    lives->begun_ns.count = (lives->begun_ns.count + 1) / 2;
    for (size_t i = 0; i < lives->ended.count; i++) {
        struct mp_life life = lives->ended.at[i];
        life.birth /= 2;
        life.death /= 2;
        if (life.birth < life.death) lives->ended.at[kept++] = life;
    }
    lives->ended.count = kept;
}

/* Forgets the older half of the ended lives. */
static void forget_older(struct mp_lives *lives)
{
    size_t half = lives->ended.count / 2;
    memmove(lives->ended.at, lives->ended.at + half, (lives->ended.count - half) * sizeof *lives->ended.at);
    lives->ended.count -= half;
}

static void restart(struct mp_lives *lives, struct mp_ledger *ledger)
{
    lives->ended.count = lives->begun_ns.count = 0;
    lives->steps = lives->shift = 0;
    if (ledger->births.count) memset(ledger->births.at, 0, ledger->births.count * sizeof *ledger->births.at);
}

void mp_lives_step(struct mp_lives *lives, struct mp_ledger *ledger, enum mp_lives_source source, uint64_t time_ns)
{
    if (source < lives->source || lives->steps == UINT32_MAX) return;
    if (source > lives->source) restart(lives, ledger);
    lives->source = source;
    if (mp_lives_unit(lives, lives->steps + 1) == MP_LIVES_UNITS) coarsen(lives);
    ledger->step_now = ++lives->steps;
    if (mp_lives_unit(lives, lives->steps) == lives->begun_ns.count && !mp_vec_push(&lives->begun_ns, time_ns))
        restart(lives, ledger); /* there was no memory even for a small array: begin anew */
}

void mp_lives_end(struct mp_lives *lives, const struct mp_ledger *ledger)
{
    const struct mp_base_block *block = &ledger->freed;
    if (!ledger->freed_birth || ledger->freed_birth == lives->steps) return;
    uint32_t birth = mp_lives_unit(lives, ledger->freed_birth), death = mp_lives_unit(lives, lives->steps);
    if (birth == death) return;
    struct mp_life life = {.bytes = block->bytes,
                           .stack = block->stack,
                           .birth = (uint16_t)birth,
                           .death = (uint16_t)death,
                           .track = block->track,
                           .kind = block->kind};
    if (lives->ended.count == MP_LIVES_ENDED) {
        coarsen(lives);
        if (lives->ended.count > MP_LIVES_ENDED / 4 * 3) forget_older(lives);
        mp_lives_end(lives, ledger);
        return;
    }
    (void)mp_vec_push(&lives->ended, life); /* without memory, the lives begin anew */
}

void mp_lives_free(struct mp_lives *lives)
{
    mp_vec_free(&lives->ended);
    mp_vec_free(&lives->begun_ns);
}
