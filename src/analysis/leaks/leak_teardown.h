/*
 * The end of a program's work: later frees are part of its exit. Pure.
 */
#pragma once

#include "analysis/leaks/leak_places.h"

/* The event after which less than half of a step's allocations were still to come. The window's end, if the program
 * went on or its end is not known. If the steps' stacks have lines of the user, only allocations with such lines count:
 * Python makes others as it ends. */
uint32_t mp_leak_teardown(const struct mp_model *model, const struct mp_steps *steps,
                          const struct mp_leak_places *places, const struct mp_window *window);
