# MP_LIBUNWIND: on other machines than x86-64, and with --unwind libunwind, the recorder opens libunwind privately at
# run time (linking it would rebind the program's own _Unwind_* symbols), so only its headers and its soname are needed.
AC_DEFUN([MP_LIBUNWIND], [
  AC_CHECK_HEADER([libunwind.h],
    [AC_DEFINE([MP_HAVE_LIBUNWIND], [1], [the recorder can walk stacks by libunwind])],
    [AS_CASE([$host_cpu], [x86_64], [],
      [AC_MSG_ERROR([libunwind.h not found: install libunwind-dev, or run tools/install-deps])])])
  AC_ARG_WITH([libunwind-soname],
    [AS_HELP_STRING([--with-libunwind-soname=NAME], [the library that the recorder opens (default libunwind.so.8)])],
    [], [with_libunwind_soname=libunwind.so.8])
  AC_DEFINE_UNQUOTED([MP_LIBUNWIND_SONAME], ["$with_libunwind_soname"], [libunwind, opened by the recorder])
])
