/* Stacks of an attached program by the rules of .eh_frame. All that is read is the target's, and hostile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach_event.h"
#include "attach/attach_target.h"
#include "attach/mapped_file.h"

/* Fills `to`, innermost first, without the probed function itself. *cut: true if there are more frames. */
size_t mp_attach_unwind(struct mp_attach_target *target, const struct mp_attach_event *event, const void *stack,
                        struct mp_attach_native *to, size_t room, bool *cut);

/*
 * The addresses in the file of a function's returning instructions. 0: not all are known. We probe these instructions
 * because a return probe of the kernel would replace the return address on the stack. An exception that passes this
 * call would then end the program, and the program's own unwinders would fail. .eh_frame shows the instructions: after
 * a function has left its frame, a return or a jump follows.
 */
size_t mp_attach_returns(struct mp_attach_module *module, uint64_t address, uint64_t bytes, uint64_t *to, size_t room);
