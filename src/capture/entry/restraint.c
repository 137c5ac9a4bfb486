/*
 * prctl(), wrapped: a thread may forbid itself the processor's time-stamp counter, which the kernel's clock reads, or
 * with seccomp's strict mode every system call but four. The recorder keeps to that, or the program would end by it.
 * Other ways to the same (a system call of the program's own) are not seen.
 */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/recorder.h"

__attribute__((visibility("default"))) int prctl(int option, ...);
int prctl(int option, ...)
{
    enum { ARGUMENTS = 4 };
    unsigned long argument[ARGUMENTS];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < ARGUMENTS; i++)
        argument[i] =
            va_arg(list, unsigned long); /* as the C library's own function does: those not given are ignored */
    va_end(list);
    struct mp_thread *thread = NULL;
    if (option == PR_SET_TSC && argument[0] == PR_TSC_SIGSEGV) mp_clock_spare_counter();
    if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_STRICT && (thread = mp_hook_enter())) {
        mp_session_note("a thread put itself under seccomp's strict mode: its events from then on count as dropped");
        mp_hook_leave(thread);
    }
    int result = (int)mp_syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
    if (thread && !result) thread->retired = true;
    return result;
}
