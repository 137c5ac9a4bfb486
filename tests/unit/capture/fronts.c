/* The recorder of these tests has no front ends, which would define PyTorch's and other functions: only stacks. */
#include "capture/core/tables.h"
#include "capture/stack/stack.h"

static const struct mp_front *const fronts[] = {&mp_tables_front, &mp_stack_front, NULL};

const struct mp_fronts mp_fronts = {.front = fronts, .capture = mp_stack_capture, .same_stack = mp_stack_same};
