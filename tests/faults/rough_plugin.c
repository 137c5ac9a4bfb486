/* A library that calls back, and may be unloaded meanwhile. */
static volatile int calls;

__attribute__((noinline)) static int call_inside(void (*call)(void *), void *with)
{
    call(with);
    return ++calls;
}

int call_back(void (*call)(void *), void *with);
int call_back(void (*call)(void *), void *with)
{
    return call_inside(call, with) + calls;
}
