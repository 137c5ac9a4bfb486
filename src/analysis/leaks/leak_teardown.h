/*
 * The end of a program's work: what was freed behind it went with the program. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_TEARDOWN_H
#define MP_ANALYSIS_LEAK_TEARDOWN_H

#include "analysis/leaks/leak_places.h"

/* The event from which on less than half of a step's allocations was still to come; the window's end where the program
 * went on, or its end is not known. Where the steps' stacks have lines of the user's, allocations without do not count:
 * Python makes them as it ends. */
uint32_t mp_leak_teardown(const struct mp_model *model, const struct mp_steps *steps,
                          const struct mp_leak_places *places, const struct mp_window *window);

#endif
