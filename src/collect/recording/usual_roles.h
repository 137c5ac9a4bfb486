/*
 * The role of most blocks of one stack, module and size. The program labels only some of them, in turns; others like
 * them then have the same role. In bounded memory. One thread at a time.
 */
#ifndef MP_COLLECT_USUAL_ROLES_H
#define MP_COLLECT_USUAL_ROLES_H

#include "base/map.h"
#include "format/recording.h"

#define MP_USUAL_ROLES 65536 /* kinds of blocks; others have no usual role */

/* Zero-initialised is empty. */
struct mp_usual_roles {
    struct mp_map by_kind; /* key: hash of the common facts; value: a role, and by how much it leads */
};

/* Adds the first label of a block. False where memory is short. */
bool mp_usual_roles_add(struct mp_usual_roles *usual, const struct mp_base_block *block, unsigned role);
/* enum mp_role: the block's own last role, else the usual one. */
unsigned mp_usual_role(const struct mp_usual_roles *usual, const struct mp_base_block *block);
void mp_usual_roles_free(struct mp_usual_roles *usual);

#endif
