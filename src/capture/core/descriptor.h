/*
 * The recorder's descriptors in the program. Another thread of the program may close all descriptors at any time, as
 * daemons and launchers do. The program's next file then gets the lowest free number. If this had been a number of the
 * recorder's, the recorder would send on the program's socket, or close the program's file. The recorder therefore
 * moves each of its descriptors to a high number at once. Never allocates; any thread; in hooks.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/kernel.h"

#define MP_DESCRIPTORS_FROM 512 /* below 1024, the usual limit */

static inline bool mp_descriptor_is_same(int one, int other)
{
    struct stat left, right;
    return !mp_syscall(SYS_fstat, one, &left) && !mp_syscall(SYS_fstat, other, &right) && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

/* Moves a descriptor that was just made, and returns its new number. Keeps the number if no high number may be used. -1
 * with errno: `made` was -1, or the program has closed the descriptor. */
static inline int mp_descriptor_move_up(int made)
{
    int moved = made < 0 ? -1 : (int)mp_syscall(SYS_fcntl, made, F_DUPFD_CLOEXEC, MP_DESCRIPTORS_FROM);
    if (moved < 0) return made < 0 || errno == EBADF ? -1 : made;
    if (mp_descriptor_is_same(made, moved)) mp_close(made);
    return moved;
}
