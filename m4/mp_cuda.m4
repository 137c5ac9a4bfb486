# MP_CUDA: nothing of CUDA is needed to build. Where its headers are, the numbers and layouts that memprof has of its own
# are held against them, if they are new enough to have all that memprof knows (CUDA 13).
AC_DEFUN([MP_CUDA], [
  AC_ARG_WITH([cupti],
    [AS_HELP_STRING([--with-cupti=DIR],
      [a CUDA toolkit whose headers memprof's own ABI headers are checked against (default /usr/local/cuda, if there)])],
    [], [with_cupti=/usr/local/cuda])
  AS_IF([test "x$with_cupti" = xyes], [with_cupti=/usr/local/cuda])
  CUDA_CPPFLAGS=
  have_cuda_headers=no
  AS_IF([test "x$with_cupti" != xno], [
    CUDA_CPPFLAGS="-isystem $with_cupti/include -isystem $with_cupti/extras/CUPTI/include"
    mp_saved_cppflags=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
    AC_CHECK_HEADER([cupti.h],
      [AC_CHECK_TYPE([CUpti_ActivityMemory4], [have_cuda_headers=yes], [], [[#include <cupti.h>]])])
    CPPFLAGS=$mp_saved_cppflags
  ])
  AS_IF([test "x${with_cupti-}" != xno && test "x$with_cupti" != x/usr/local/cuda && test $have_cuda_headers = no],
    [AC_MSG_ERROR([--with-cupti=$with_cupti: there is no include/cupti.h of CUDA 13 or newer])])
  AC_SUBST([CUDA_CPPFLAGS])
  AM_CONDITIONAL([HAVE_CUDA_HEADERS], [test $have_cuda_headers = yes])
])
