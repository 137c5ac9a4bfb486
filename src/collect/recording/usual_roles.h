/*
 * What the program says of most blocks of one stack, module and size: it tells of some of them only, in turns, and
 * others like them are then for the same. In bounded memory. One thread at a time.
 */
#ifndef MP_COLLECT_USUAL_ROLES_H
#define MP_COLLECT_USUAL_ROLES_H

#include "base/map.h"
#include "format/recording.h"

#define MP_USUAL_ROLES 65536 /* kinds of blocks; of others nothing is usual */

/* Zero-initialised is empty. */
struct mp_usual_roles {
    struct mp_map by_kind; /* key: hash of what they have in common; value: a role, and by how much it leads */
};

/* The first that is said of a block. False where memory is short. */
bool mp_usual_roles_add(struct mp_usual_roles *usual, const struct mp_base_block *block, unsigned role);
/* enum mp_role: what was last said of the block itself, else what is usual. */
unsigned mp_usual_role(const struct mp_usual_roles *usual, const struct mp_base_block *block);
void mp_usual_roles_free(struct mp_usual_roles *usual);

#endif
