/*
 * Holders that keep blocks for longer than the program needs them, whatever the verdict on leaks: garbage that waits
 * for Python's collector, cycles that it cannot see, graphs that outlive their backward pass. One cause may hold blocks
 * of many sites. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/holders/holders.h"

enum mp_held_why {
    MP_HELD_GARBAGE, /* Python's collector would free it */
    MP_HELD_CYCLE,   /* a cycle through C++, which nothing frees */
    MP_HELD_GRAPH,   /* a kept tensor's graph, after its backward pass */
    MP_HELD_WHYS
};

struct mp_held_cause {
    enum mp_held_why why;
    char *root;         /* the part of the path that all blocks share */
    const char *advice; /* mp_holder_advice() */
    uint32_t file, line;
    uint32_t stack;         /* the site with most bytes */
    uint64_t blocks, bytes; /* at the moment */
    uint64_t site_bytes;    /* of that site */
};

struct mp_held_causes {
    struct mp_held_cause *at; /* most bytes first */
    size_t count, room;
    uint32_t *of_block; /* by block of the model: 1 + index of its cause; 0: none. NULL: there are no causes */
};

/* The causes for the blocks of a track that live after `moment` events. If another look knows
 * holders of more of a site's blocks, it counts, since sites hold alike. */
void mp_held_causes_find(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_held_causes *causes);
void mp_held_causes_free(struct mp_held_causes *causes);
const char *mp_held_why_name(enum mp_held_why why); /* "garbage", "cycle", "graph": a promise */
