/*
 * System calls that bypass any replacements of the C library's functions. A program or a library in it may define
 * mmap() or syscall() itself, or patch them, as MPI's libraries do. The replacement may take a lock, allocate, or cause
 * another event. A failed call returns -1 with errno, as in the C library; but no call is a cancellation point. Never
 * allocates; any thread, in hooks and in signal handlers.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline long mp_kernel_raw(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
    long result = syscall(number, a, b, c, d, e, f);
    return result < 0 ? -(long)errno : result;
#endif
}

static inline long mp_kernel_call(long number, long a, long b, long c, long d, long e, long f)
{
    enum { LAST_ERROR = 4095 };
    long result = mp_kernel_raw(number, a, b, c, d, e, f);
    if (result >= 0 || result < -LAST_ERROR) return result;
    errno = (int)-result;
    return -1;
}

/* As syscall(): a number and up to six arguments. */
#define mp_syscall(...) MP_SYSCALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define MP_SYSCALL_(number, a, b, c, d, e, f, ...)                                                                     \
    mp_kernel_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline void *mp_mmap(void *at, size_t bytes, int access, int flags, int descriptor, off_t offset)
{
    return (void *)mp_syscall(SYS_mmap, at, bytes, access, flags, descriptor, offset); /* NOLINT */
}

static inline int mp_munmap(void *at, size_t bytes)
{
    return (int)mp_syscall(SYS_munmap, at, bytes);
}

static inline int mp_mprotect(void *at, size_t bytes, int access)
{
    return (int)mp_syscall(SYS_mprotect, at, bytes, access);
}

static inline int mp_madvise(void *at, size_t bytes, int advice)
{
    return (int)mp_syscall(SYS_madvise, at, bytes, advice);
}

static inline int mp_munlock(const void *at, size_t bytes)
{
    return (int)mp_syscall(SYS_munlock, at, bytes);
}

static inline int mp_close(int descriptor)
{
    return (int)mp_syscall(SYS_close, descriptor);
}

static inline int mp_mkdir(const char *path, mode_t mode)
{
#if defined(SYS_mkdir)
    return (int)mp_syscall(SYS_mkdir, path, mode);
#else
    return (int)mp_syscall(SYS_mkdirat, -100 /* AT_FDCWD */, path, mode);
#endif
}

static inline int mp_rmdir(const char *path)
{
#if defined(SYS_rmdir)
    return (int)mp_syscall(SYS_rmdir, path);
#else
    return (int)mp_syscall(SYS_unlinkat, -100 /* AT_FDCWD */, path, 0x200 /* AT_REMOVEDIR */);
#endif
}

static inline pid_t mp_getpid(void)
{
    return (pid_t)mp_syscall(SYS_getpid);
}
