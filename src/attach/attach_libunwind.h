/* Stacks of an attached program by libunwind, where there are no rules. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "attach/attach_event.h"
#include "attach/attach_target.h"

/* mp_attach_unwind_by_libunwind() does the same by libunwind, several times slower. False: memprof was built without
 * it. */
bool mp_attach_has_libunwind(void);
size_t mp_attach_unwind_by_libunwind(struct mp_attach_target *target, const struct mp_attach_event *event,
                                     const void *stack, struct mp_attach_native *to, size_t room, bool *cut);
