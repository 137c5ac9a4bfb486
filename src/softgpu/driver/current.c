#include "softgpu/driver/current.h"

#define STACK 16

static __thread CUcontext stack[STACK];
static __thread int depth;

CUcontext soft_top(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUcontext soft_current(void)
{
    CUcontext top = soft_top();
    return top && __atomic_load_n(&top->alive, __ATOMIC_ACQUIRE) ? top : NULL;
}

bool soft_stack_full(void)
{
    return depth == STACK;
}

void soft_push(CUcontext context)
{
    if (!soft_stack_full()) stack[depth++] = context;
}

void soft_pop(void)
{
    depth -= depth > 0;
}
