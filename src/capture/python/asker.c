#include "capture/python/asker.h"

#include "capture/core/session.h"
#include "capture/python/python_stack.h"

void mp_asker_set(struct mp_asker *asker, int (*ask)(void *), void *context)
{
    if (ask) atomic_store(&asker->context, context);
    atomic_store(&asker->ask, ask);
}

bool mp_asker_is_asked(const struct mp_asker *asker)
{
    return atomic_load(&asker->asked) == atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
}

static int run_asked(void *context)
{
    struct mp_asker *asker = context;
    atomic_store(&asker->asked, 0);
    int (*ask)(void *) = atomic_load(&asker->ask);
    return ask ? ask(atomic_load(&asker->context)) : 0;
}

bool mp_asker_call_soon(struct mp_asker *asker, bool may_call_python)
{
    uint32_t now = atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
    uint32_t before = atomic_load(&asker->asked);
    if (before == now || !atomic_compare_exchange_strong(&asker->asked, &before, now)) return false;
    if (mp_python_call_soon(run_asked, asker, may_call_python)) return true;
    atomic_store(&asker->asked, 0);
    return false;
}
