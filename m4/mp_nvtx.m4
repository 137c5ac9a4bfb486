# MP_NVTX: NVIDIA's NVTX headers, for a test program with real ranges. Nothing else needs them.
AC_DEFUN([MP_NVTX], [
  NVTX_CPPFLAGS=
  have_nvtx=no
  AC_ARG_WITH([nvtx],
    [AS_HELP_STRING([--with-nvtx=DIR], [where nvtx3/nvToolsExt.h is, for the tests (default: looks in /usr/local/cuda)])],
    [], [with_nvtx=/usr/local/cuda/include])
  AS_IF([test "$with_nvtx" != no && test -r "$with_nvtx/nvtx3/nvToolsExt.h"],
    [NVTX_CPPFLAGS="-isystem $with_nvtx"; have_nvtx=yes])
  AM_CONDITIONAL([HAVE_NVTX], [test $have_nvtx = yes])
  AC_SUBST([NVTX_CPPFLAGS])
])
