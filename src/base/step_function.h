/*
 * Functions whose calls are steps (--step-at). A call's step event has the name "FILE:FUNCTION". Pure; never allocates.
 */
#pragma once

#include <stdbool.h>

/* True if the user's text `asked` means the function of a step event's name. "step" means every function of that name,
 * "Trainer.step" a method of that class, "train.py:step" functions in that file. Python before 3.11 does not give the
 * class, so only the method's name is compared there. Steps of PyTorch's own optimizers are recognised by their common
 * name. An event of an old recording has the user's text as its name, without "FILE:". */
bool mp_step_function_means(const char *asked, const char *called);
/* True if a Python file belongs to Python or to an installed package. */
bool mp_is_library_file(const char *file);
