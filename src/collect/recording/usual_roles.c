#include "collect/recording/usual_roles.h"
#include "base/hash.h"

#define LEAD 8 /* lowest bit of the lead; bits below are the role */

static uint64_t kind_of(const struct mp_base_block *block)
{
    const uint64_t words[] = {(uint64_t)block->module << 32 | block->stack, block->bytes, block->track};
    uint64_t hash = mp_hash_words(words, sizeof words / sizeof *words, 0);
    return hash ? hash : 1;
}

/* Boyer and Moore's majority vote: a role of more than half of all blocks leads in the end. */
bool mp_usual_roles_add(struct mp_usual_roles *usual, const struct mp_base_block *block, unsigned role)
{
    uint64_t kind = kind_of(block), *vote = mp_map_find(&usual->by_kind, kind);
    if (!vote && usual->by_kind.count >= MP_USUAL_ROLES) return true;
    if (!vote) vote = mp_map_insert(&usual->by_kind, kind, NULL);
    if (!vote) return false;
    uint64_t lead = *vote >> LEAD, leader = lead ? *vote & ((1u << LEAD) - 1) : role;
    *vote = (leader == role ? lead + 1 : lead - 1) << LEAD | leader;
    return true;
}

unsigned mp_usual_role(const struct mp_usual_roles *usual, const struct mp_base_block *block)
{
    const uint64_t *vote = block->role ? NULL : mp_map_find(&usual->by_kind, kind_of(block));
    unsigned role = vote && *vote >> LEAD ? (unsigned)(*vote & ((1u << LEAD) - 1)) : block->role;
    return role < MP_ROLES ? role : MP_ROLE_NONE; /* the role comes from a newer recorder */
}

void mp_usual_roles_free(struct mp_usual_roles *usual)
{
    mp_map_free(&usual->by_kind);
}
