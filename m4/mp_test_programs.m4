# MP_TEST_PROGRAMS: Check for the unit tests; esbuild for whoever changes the page. A release tarball carries the
# built page, so its users need no esbuild.
AC_DEFUN([MP_TEST_PROGRAMS], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.13], [have_check=yes], [have_check=no])
  AM_CONDITIONAL([HAVE_CHECK], [test $have_check = yes])
  AC_CHECK_PROGS([ESBUILD], [esbuild])
  dnl The system's own first: it is the one that has the modules of install-deps.
  AC_PATH_PROGS([PYTHON3], [python3], [python3], [/usr/bin:$PATH])
])
