/*
 * Functions of the C library, wrapped.
 *
 * prctl(): a thread may forbid itself the processor's time-stamp counter, which the kernel's clock reads, or
 * with seccomp's strict mode every system call but four. The recorder keeps to that, or the program would end by it.
 * Other ways to the same (a system call of the program's own) are not seen.
 *
 * shm_open(): the collector must know which files in /dev/shm the program made, since nothing shows that later.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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
    if (option == PR_SET_SECCOMP && argument[0] == SECCOMP_MODE_STRICT && (thread = mp_hook_enter()))
        mp_hook_leave(thread);
    int result = (int)mp_syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]);
    if (thread && !result) thread->retired = true;
    return result;
}

static void tell_made(int fd)
{
    struct stat file;
    struct mp_spool_seen *seen = &mp_session.header->seen;
    if (mp_syscall(SYS_fstat, fd, &file)) return;
    uint32_t made = atomic_load(&seen->shm_made);
    do
        atomic_store(&seen->inodes[made % MP_SPOOL_SHM], file.st_ino);
    while (!atomic_compare_exchange_weak(&seen->shm_made, &made, made + 1));
}

/* As the C library's own function does. */
__attribute__((visibility("default"))) int shm_open(const char *name, int flags, mode_t mode);
int shm_open(const char *name, int flags, mode_t mode)
{
    static const char folder[] = "/dev/shm/";
    char path[sizeof folder + NAME_MAX + 4]; /* as in glibc */
    while (*name == '/')
        name++;
    size_t length = strlen(name);
    if (!length || length > NAME_MAX + 4 || strchr(name, '/')) {
        errno = EINVAL;
        return -1;
    }
    memcpy(path, folder, sizeof folder - 1);
    memcpy(path + sizeof folder - 1, name, length + 1);
    int fd = (int)mp_syscall(SYS_openat, AT_FDCWD, path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    int error = fd < 0 && errno == EISDIR ? EINVAL : errno;
    if (fd >= 0 && flags & O_CREAT && mp_session_recording()) tell_made(fd);
    errno = error;
    return fd;
}
