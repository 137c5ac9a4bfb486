/* The usual roles, against the whole list of roles that programs reported. */
#include "collect/recording/usual_roles.h"

#include <stdlib.h>

#include "unit/suite.h"

enum { KINDS = 40, TOLD = 4000 };

static struct mp_base_block block_of(unsigned kind)
{
    /* Kinds differ only in four facts, and each fact alone distinguishes some of them. */
    static uint64_t number;
    number++;
    return (struct mp_base_block){.module = kind & 1 ? 0 : 3,
                                  .stack = kind & 2 ? 9 : 3,
                                  .bytes = kind & 4 ? 64 : 512 + kind / 16,
                                  .track = kind & 8 ? 1 : 2,
                                  .block = number,
                                  .address = number * 4096};
}

START_TEST(what_most_say_is_usual)
{
    static unsigned said[KINDS][MP_ROLES];
    struct mp_usual_roles usual = {0};
    unsigned proven = 0;
    srand(5);
    for (unsigned reported = 0; reported < TOLD; reported++) {
        unsigned kind = (unsigned)rand() % KINDS, role = 1 + (unsigned)rand() % (MP_ROLES - 1);
        if (rand() % 3) role = 1 + kind % (MP_ROLES - 1);
        struct mp_base_block block = block_of(kind);
        unsigned first = kind & 4 ? kind & 15 : kind; /* blocks of equal size are of the same kind */
        ck_assert(mp_usual_roles_add(&usual, &block, role));
        said[first][role]++;
        unsigned all = 0, answer = mp_usual_role(&usual, &block);
        for (unsigned r = 0; r < MP_ROLES; r++)
            all += said[first][r];
        for (unsigned r = 0; r < MP_ROLES; r++) {
            if (2 * said[first][r] <= all) continue;
            ck_assert_uint_eq(answer, r);
            proven++;
        }
        ck_assert(answer == MP_ROLE_NONE || said[first][answer]);
    }
    ck_assert_uint_gt(proven, TOLD / 3);
    mp_usual_roles_free(&usual);
}

START_TEST(a_vote_that_is_even_says_nothing)
{
    struct mp_usual_roles usual = {0};
    struct mp_base_block block = block_of(0);
    ck_assert_uint_eq(mp_usual_role(&usual, &block), MP_ROLE_NONE);
    for (int round = 0; round < 3; round++) {
        ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_GRADIENT));
        ck_assert_uint_eq(mp_usual_role(&usual, &block), MP_ROLE_GRADIENT);
        ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_BUFFER));
        ck_assert_uint_eq(mp_usual_role(&usual, &block), MP_ROLE_NONE);
    }
    for (int round = 0; round < 3; round++)
        ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_INPUT));
    ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_BUFFER));
    ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_BUFFER));
    ck_assert_uint_eq(mp_usual_role(&usual, &block), MP_ROLE_INPUT);
    /* The role reported for the block itself counts, if this version knows it. */
    for (unsigned role = 1; role < 256; role++) {
        block.role = (uint8_t)role;
        ck_assert_uint_eq(mp_usual_role(&usual, &block), role < MP_ROLES ? role : MP_ROLE_NONE);
    }
    block.role = 0;
    for (int round = 0; round < 9; round++)
        ck_assert(mp_usual_roles_add(&usual, &block, 200));
    ck_assert_uint_eq(mp_usual_role(&usual, &block), MP_ROLE_NONE); /* a role of a newer recorder */
    mp_usual_roles_free(&usual);
}

START_TEST(only_so_many_kinds_are_remembered)
{
    struct mp_usual_roles usual = {0};
    struct mp_base_block block = {.stack = 1};
    for (block.bytes = 0; block.bytes < MP_USUAL_ROLES + 100; block.bytes++)
        ck_assert(mp_usual_roles_add(&usual, &block, MP_ROLE_PARAMETER));
    for (block.bytes = 0; block.bytes < MP_USUAL_ROLES + 100; block.bytes++)
        ck_assert_uint_eq(mp_usual_role(&usual, &block),
                          block.bytes < MP_USUAL_ROLES ? MP_ROLE_PARAMETER : MP_ROLE_NONE);
    mp_usual_roles_free(&usual);
}

MP_SUITE("usual roles", what_most_say_is_usual, a_vote_that_is_even_says_nothing, only_so_many_kinds_are_remembered)
