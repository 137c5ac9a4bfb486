/* The library's entry points in a program: its constructor, the handling of fork, and the loader's function that it
 * wraps. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/core/fork.h"
#include "capture/core/front.h"
#include "capture/entry/environment.h"
#include "capture/entry/exec.h"
#include "capture/python/python_stack.h"
#include "capture/stack/stack.h"

/* Several environment variables may load several copies of this library into one process. The first copy claims this
 * symbol; the others do nothing. */
__attribute__((visibility("default"))) _Atomic int memprof_recorder_is_here;

static int (*real_dlclose)(void *);

static void find_real_dlclose(void)
{
    if (real_dlclose) return;
    void *symbol = dlsym(RTLD_NEXT, "dlclose");
    memcpy(&real_dlclose, &symbol, sizeof symbol);
}

/* Here the program itself enters the loader, so the recorder may take the loader's lock, too. It uses the lock to keep
 * Python's library loaded. */
__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle)
{
    find_real_dlclose();
    mp_python_keep_loaded();
    int result = real_dlclose(handle);
    if (mp_session.page && atomic_load(&mp_session.page->recording)) mp_stack_code_unloaded();
    return result;
}

__attribute__((constructor)) static void enter_program(void)
{
    _Atomic int *first = dlsym(RTLD_DEFAULT, "memprof_recorder_is_here");
    if (first && atomic_exchange(first, 1)) return;
    find_real_dlclose();
    mp_fronts_enter();
    mp_exec_start();
    mp_session_start();
    mp_environment_keep();
    if (mp_session.page && !(mp_thread_start() && mp_fork_start() && mp_fronts_start())) mp_session.page = NULL;
}

/* Lets `memprof recover` distinguish a normal end from a kill. */
__attribute__((destructor)) static void leave_program(void)
{
    if (mp_session.header) atomic_store(&mp_session.header->program_left, 1);
}
