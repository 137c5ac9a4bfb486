# MP_PART(NAME, WHAT): --disable-NAME leaves WHAT out. The Makefile.inc of the part's folder asks for PART_NAME.
AC_DEFUN([MP_PART], [
  AC_ARG_ENABLE([$1], [AS_HELP_STRING([--disable-$1], [leave out $2])], [], [enable_$1=yes])
  AM_CONDITIONAL([PART_]m4_toupper([$1]), [test "x$enable_$1" != xno])
])
