#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct mp_error *error, enum mp_status status, int sys_errno, const char *format, va_list arguments)
{
    error->status = status;
    error->sys_errno = sys_errno;
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    if (length < 0) length = 0;
    if (sys_errno && (size_t)length < sizeof error->text) {
        char reason[96];
        snprintf(error->text + length, sizeof error->text - (size_t)length, ": %s",
                 strerror_r(sys_errno, reason, sizeof reason));
    }
}

enum mp_status mp_fail(struct mp_error *error, enum mp_status status, const char *format, ...)
{
    int saved = errno;
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, status, 0, format, arguments);
        va_end(arguments);
    }
    errno = saved;
    return status;
}

enum mp_status mp_fail_errno(struct mp_error *error, const char *format, ...)
{
    int saved = errno;
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        fill(error, MP_IO, saved, format, arguments);
        va_end(arguments);
    }
    errno = saved;
    return MP_IO;
}
