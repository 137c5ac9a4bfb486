/* The library's way into a program: its constructor, what happens at fork, and the one libc function it wraps. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/cuda/front.h"
#include "capture/fork.h"
#include "capture/python/python_stack.h"
#include "capture/session.h"
#include "capture/stack.h"
#include "capture/tables.h"
#include "capture/thread.h"

/* Several variables of the environment may bring several copies of this library into one process: the first takes the
 * word, the others stay inert. */
__attribute__((visibility("default"))) _Atomic int memprof_recorder_is_here;

static int (*real_dlclose)(void *);

__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle)
{
    if (!real_dlclose) {
        void *symbol = dlsym(RTLD_NEXT, "dlclose");
        memcpy(&real_dlclose, &symbol, sizeof symbol);
    }
    int result = real_dlclose(handle);
    if (mp_session.page && atomic_load(&mp_session.page->recording)) mp_stack_code_unloaded();
    return result;
}

__attribute__((constructor)) static void enter_program(void)
{
    _Atomic int *first = dlsym(RTLD_DEFAULT, "memprof_recorder_is_here");
    if (first && atomic_exchange(first, 1)) return;
    mp_session_start();
    if (!mp_session.page) return;
    if (mp_tables_start() && mp_stack_start() && mp_thread_start() && mp_fork_start() && mp_cuda_start())
        mp_python_probe();
    else
        mp_session.page = NULL;
}

/* Tells `memprof recover` an end in order from a kill. */
__attribute__((destructor)) static void leave_program(void)
{
    if (mp_session.header) atomic_store(&mp_session.header->program_left, 1);
}
