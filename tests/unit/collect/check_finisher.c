/* Recordings that end while others are being finished: each comes back once, in order, with its results. */
#include "collect/session/finisher.h"

#include <stdlib.h>
#include <unistd.h>

#include "unit/suite.h"

enum { RECORDINGS = 300, OWNER = 7 };

/* Stands in for the finisher's work: only the address of a recording is looked at. */
static char recordings[RECORDINGS];
static atomic_uint finished_of[RECORDINGS];

static struct mp_recording *recording_of(unsigned number)
{
    void *at = &recordings[number];
    return at;
}

static unsigned number_of(const struct mp_recording *recording)
{
    return (unsigned)((const char *)recording - recordings);
}

void mp_leaving_finish(struct mp_leaving *leaving, struct mp_recording *recording, uint64_t owner,
                       struct mp_recording_summary *summary)
{
    ck_assert_ptr_nonnull(leaving);
    ck_assert_uint_eq(owner, OWNER);
    unsigned number = number_of(recording);
    *summary = (struct mp_recording_summary){.events = 1000 + number};
    atomic_fetch_add(&finished_of[number], 1);
    usleep(number % 7 * 100);
}

void mp_leaving_free(struct mp_leaving *leaving)
{
    mp_vec_free(&leaving->rows);
}

/* Checks that this is the next recording in order, with its results. */
static void check(const struct mp_finished *finished, unsigned *next)
{
    ck_assert_uint_eq(number_of(finished->recording), *next);
    ck_assert_uint_eq(finished->summary.events, 1000 + *next);
    ck_assert_uint_eq(atomic_load(&finished_of[*next]), 1);
    ++*next;
}

START_TEST(each_comes_back_once_and_in_order)
{
    struct mp_finisher finisher;
    struct mp_finished finished;
    unsigned next = 0;
    srand(3);
    mp_finisher_open(&finisher);
    ck_assert(!mp_finisher_take(&finisher, false, &finished));
    ck_assert(!mp_finisher_take(&finisher, true, &finished)); /* returns at once: there is nothing to wait for */
    for (unsigned number = 0; number < RECORDINGS; number++) {
        ck_assert(!mp_finisher_add(&finisher, recording_of(number), OWNER, &finished));
        if (rand() % 10 == 0) usleep(1000); /* the worker comes to an end, and is started again */
        while (rand() % 3 == 0 && mp_finisher_take(&finisher, false, &finished))
            check(&finished, &next);
        if (rand() % 20 == 0)
            while (mp_finisher_take(&finisher, true, &finished))
                check(&finished, &next);
    }
    while (mp_finisher_take(&finisher, true, &finished))
        check(&finished, &next);
    ck_assert_uint_eq(next, RECORDINGS);
    mp_finisher_close(&finisher);
}

MP_SUITE("finisher", each_comes_back_once_and_in_order)
