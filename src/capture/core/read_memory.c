#include "capture/core/read_memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>

#include "base/kernel.h"

enum { PAGE = 4096 };

/* True if an address is mapped. Used if the process may not use process_vm_readv(), even on itself. */
static bool is_there(uintptr_t address)
{
    return mp_syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)(PAGE - 1), NULL, sizeof(uint64_t)) == -1 &&
           errno == EINVAL;
}

static bool read_by_hand(void *to, uintptr_t from, size_t bytes)
{
    for (uintptr_t at = from & ~(uintptr_t)(PAGE - 1); at < from + bytes; at += PAGE)
        if (!is_there(at)) return false;
    memcpy(to, (const void *)from, bytes); /* NOLINT(performance-no-int-to-ptr) */
    return true;
}

static _Atomic bool by_hand; /* the kernel has refused once (a sandbox): check each page instead */

bool mp_read_memory(void *to, uintptr_t from, size_t bytes)
{
    struct iovec own = {to, bytes}, other = {(void *)from, bytes}; /* NOLINT(performance-no-int-to-ptr) */
    int saved = errno;
    long got = mp_syscall(SYS_process_vm_readv, mp_getpid(), &own, 1, &other, 1, 0);
    bool whole = got == (long)bytes;
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
        atomic_store_explicit(&by_hand, true, memory_order_relaxed);
        whole = read_by_hand(to, from, bytes);
    }
    errno = saved;
    return whole;
}

bool mp_read_is_safe(void)
{
    static _Atomic bool answered;
    char byte = 0, copy;
    if (!atomic_load_explicit(&answered, memory_order_acquire)) {
        mp_read_memory(&copy, (uintptr_t)&byte, 1);
        atomic_store_explicit(&answered, true, memory_order_release);
    }
    return !atomic_load_explicit(&by_hand, memory_order_relaxed);
}
