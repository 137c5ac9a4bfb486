/*
 * Python's own heap, as the looks counted it (holders_census.py): objects of each class, entries of the longest
 * containers, and what holds arrays (holders_arrays.py). It answers what grows in a process whose recorded blocks do
 * not. Pure; the result is the caller's.
 */
#pragma once

#include "model/model.h"

struct mp_census_row {
    const char *name; /* of a class, or the path of a container; owned by the model */
    enum mp_census_what {
        MP_CENSUS_OBJECTS,
        MP_CENSUS_ENTRIES,
        MP_CENSUS_BYTES
    } what;         /* bytes: of arrays, and of
                     * Python's bytes */
    uint32_t looks; /* that counted it */
    uint64_t first, last;
    double steps; /* from the first of these looks to the last; 0: no steps */
};

struct mp_census {
    struct mp_census_row *at; /* most growth first */
    size_t count, room;
};

/* Finds counts that grew from look to look, and containers of MP_CENSUS_LONG entries or more. */
void mp_census_find(const struct mp_model *model, struct mp_census *census);
void mp_census_free(struct mp_census *census);

#define MP_CENSUS_LONG 100000
