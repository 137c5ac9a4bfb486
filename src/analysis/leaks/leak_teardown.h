/*
 * The end of a program's work: later frees are part of its exit. Pure.
 */
#pragma once

#include "analysis/leaks/leak_places.h"

/* The event from which on the program made less than half as many allocations as in a step. It is the window's end if
 * the program went on, or if its end is not known. If stacks of the steps have lines of the user, only allocations with
 * such lines count: Python itself allocates as it ends. */
uint32_t mp_leak_teardown(const struct mp_model *model, const struct mp_steps *steps,
                          const struct mp_leak_places *places, const struct mp_window *window);
