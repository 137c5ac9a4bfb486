/*
 * Which events begin steps: one rule, for events that come one after the other. There are six kinds of such events,
 * from the weakest to the strongest:
 *
 *     the end of an optimizer's step (MP_TORCH_STEP): it ends a step and begins the next one
 *     regions that are named as steps are: PyTorch's "ProfilerStep#N", and names that begin with "step". Only names
 *         that equal the first one apart from digits count, so that "step_optimizer" inside "step 3" is no step
 *     steps that the program marks
 *     regions whose names match a regular expression of the user's (--step-range), instead of those named as steps
 *     calls of a function of an installed package that has the name of --step-at
 *     calls of a function of the user's (--step-at). If several have the name, the first one called counts
 *
 * The steps of a recording are those of the strongest kind that it has. The first step of a stronger kind therefore
 * cancels all steps counted before. Pure; one thread at a time.
 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

enum mp_step_kind {
    MP_STEP_NONE,
    MP_STEP_OF_OPTIMIZER,
    MP_STEP_NAMED,
    MP_STEP_MARKED,
    MP_STEP_OF_RANGE,
    MP_STEP_OF_LIBRARY_FUNCTION,
    MP_STEP_OF_FUNCTION,
    MP_STEP_KINDS
};

#define MP_STEP_FUNCTIONS 8 /* functions of one name whose calls are counted apart */

struct mp_step_rule {
    bool has_pattern;
    regex_t pattern;
    char stem[128];          /* the first named step's name without digits; "" until one was seen */
    char function[128];      /* the function of --step-at; "": none was requested */
    bool no_function;        /* calls of that function begin no steps */
    uint32_t library, users; /* numbers of the names that count for the two kinds of functions; 0: none yet */
    struct {
        uint32_t number; /* of the function's name */
        uint64_t calls;
    } functions[MP_STEP_FUNCTIONS]; /* the functions called so far, in order; after the last one, `calls` is 0 */
    enum mp_step_kind range;       /* the kind that regions count as: MP_STEP_OF_RANGE if the user gave an expression */
    enum mp_step_kind weakest;     /* weaker kinds begin no steps */
    enum mp_step_kind kind;        /* the strongest kind of step event so far */
    uint64_t begun[MP_STEP_KINDS]; /* events of each kind so far */
    uint64_t before;               /* steps that began before the first event that the rule takes */
    MP_VEC(unsigned char) regions; /* by the number of a name: whether the name is a step's; 0: not yet decided */
};

/* Takes an extended regular expression; "" or NULL: none. Fails, with the reason, if it is invalid. */
enum mp_status mp_step_rule_open(struct mp_step_rule *rule, const char *pattern, struct mp_error *error);
/* Opens the rule with the settings in a recording's configuration (wire/config.h). They were checked when the recording
 * began. */
void mp_step_rule_open_configured(struct mp_step_rule *rule, const char *configuration);
/* True if a region of that name is a step. The first step's name sets the stem. */
bool mp_step_rule_matches(struct mp_step_rule *rule, const char *name);

/* The kind of an event of type `type` (enum mp_event_type) and its name; `number` is the name's number among all
 * names. */
enum mp_step_kind mp_step_rule_kind(struct mp_step_rule *rule, unsigned type, uint32_t number, const char *name);
/* Takes the next event. True if it begins a step. */
bool mp_step_rule_take(struct mp_step_rule *rule, unsigned type, uint32_t number, const char *name);
/* The number of steps that have begun, `before` included. An optimizer's first step began before its first event, so it
 * counts, too. */
uint64_t mp_step_rule_steps(const struct mp_step_rule *rule);
/* From now on, only the kinds that the user asked for (--step-at, --step-range) begin steps, even if no such event
 * comes. */
void mp_step_rule_only_asked(struct mp_step_rule *rule);
void mp_step_rule_close(struct mp_step_rule *rule);
