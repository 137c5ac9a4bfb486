/*
 * The role of most blocks of one kind: of one stack, module and size. The program labels only some blocks, in turns;
 * other blocks of the kind get the same role. In bounded memory. One thread at a time.
 */
#pragma once

#include <stdbool.h>

#include "base/map.h"
#include "format/recording.h"

#define MP_USUAL_ROLES 65536 /* kinds of blocks; others have no usual role */

/* Zero-initialised is empty. */
struct mp_usual_roles {
    struct mp_map by_kind; /* key: hash of stack, module and size; value: the leading role and its lead in votes */
};

/* Adds the first label of a block. False if memory is short. */
bool mp_usual_roles_add(struct mp_usual_roles *usual, const struct mp_base_block *block, unsigned role);

/* The block's own last role, else the usual one (enum mp_role). */
unsigned mp_usual_role(const struct mp_usual_roles *usual, const struct mp_base_block *block);
void mp_usual_roles_free(struct mp_usual_roles *usual);
