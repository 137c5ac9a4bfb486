/* The calling thread's stack of contexts. It needs no lock. */
#pragma once

#include <stdbool.h>

#include "softgpu/driver/driver.h"

/* The thread's current context, if it is live; else NULL. */
CUcontext soft_current(void);

/* The context on top of the stack, live or not; NULL: the stack is empty. */
CUcontext soft_top(void);
bool soft_stack_full(void);
void soft_push(CUcontext context); /* unless the stack is full */
void soft_pop(void);               /* unless it is empty */
