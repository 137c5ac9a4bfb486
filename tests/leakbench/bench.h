/* The parts of the bench: programs that work, and patterns that leak or do not. */
#pragma once

#include "leakbench/world.h"

/* How a pattern is varied. */
struct variant {
    uint64_t bytes;
    uint32_t every; /* steps between occurrences; 0: at random, in one step of 20 */
    uint32_t warm_up, steps;
};

/* Memory that a program or a pattern keeps between steps. */
struct state {
    uint32_t site[16];
    uint32_t held[4096]; /* blocks */
    size_t count, more;
    uint64_t size;
};

struct program {
    const char *name;
    bool test; /* in the test set; otherwise in the set on which the rule was tuned */
    void (*start)(struct world *world, struct state *state);
    /* One step's work. `middle` is called where other things may happen inside the step. */
    void (*step)(struct world *world, struct state *state, void (*middle)(void *), void *context);
};

/* The right answer. */
enum truth { T_LEAK, T_CLEAN };

struct pattern {
    const char *id;
    enum truth truth;
    enum mp_leak_class class; /* class of the leak, or of another finding: MP_LEAK_RETAINED_ONCE or _FRAGMENTATION */
    void (*start)(struct world *world, struct state *state, const struct pattern *pattern);
    void (*step)(struct world *world, struct state *state, const struct pattern *pattern,
                 const struct variant *variant);
    /* Parameters of `step`. */
    uint8_t track, kind;
    bool native;
    uint8_t sites, blocks; /* distinct stacks; blocks of each stack, each time */
    uint32_t every;        /* 0: as in the variant */
};

extern const struct program programs[];
extern const size_t program_count;
extern const struct pattern patterns[];
extern const size_t pattern_count;
