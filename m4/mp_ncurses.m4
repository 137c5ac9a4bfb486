# MP_NCURSES: `memprof top` draws with ncurses for wide characters. Without it everything else is built, and that command
# prints single pictures only.
AC_DEFUN([MP_NCURSES], [
  AC_ARG_WITH([ncurses],
    [AS_HELP_STRING([--without-ncurses], [leave out the live view of memprof top])], [], [with_ncurses=check])
  have_ncurses=no
  AS_IF([test "x$with_ncurses" != xno], [
    PKG_CHECK_MODULES([NCURSES], [ncursesw >= 6.0], [have_ncurses=yes],
      [AS_IF([test "x$with_ncurses" = xyes],
        [AC_MSG_ERROR([--with-ncurses: there is no ncursesw (libncurses-dev) of 6.0 or newer])])])
  ])
  AM_CONDITIONAL([HAVE_NCURSES], [test $have_ncurses = yes])
  AS_IF([test $have_ncurses = yes],
    [AC_DEFINE([HAVE_NCURSES], [1], [Define to 1 where memprof top has its live view.])])
])
