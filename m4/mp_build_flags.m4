# MP_BUILD_FLAGS: language level, warnings, and the --enable-asan/ubsan/tsan/coverage/werror switches.
AC_DEFUN([MP_BUILD_FLAGS], [
  MP_WARN_CFLAGS=
  for mp_flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
      -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wcast-qual -Wno-unused-parameter \
      -Wno-format-nonliteral; do
    MP_TRY_CFLAG([$mp_flag], [MP_WARN_CFLAGS="$MP_WARN_CFLAGS $mp_flag"])
  done

  MP_SANITIZE_CFLAGS=
  mp_sanitized=no
  MP_SWITCH([asan], [AddressSanitizer], [MP_SANITIZE_CFLAGS="$MP_SANITIZE_CFLAGS -fsanitize=address"; mp_sanitized=yes])
  MP_SWITCH([ubsan], [UndefinedBehaviorSanitizer],
    [MP_SANITIZE_CFLAGS="$MP_SANITIZE_CFLAGS -fsanitize=undefined -fno-sanitize-recover=undefined"; mp_sanitized=yes])
  MP_SWITCH([tsan], [ThreadSanitizer], [MP_SANITIZE_CFLAGS="$MP_SANITIZE_CFLAGS -fsanitize=thread"; mp_sanitized=yes])
  MP_SWITCH([coverage], [gcov coverage], [MP_SANITIZE_CFLAGS="$MP_SANITIZE_CFLAGS --coverage -O0"])
  MP_SWITCH([werror], [-Werror], [MP_WARN_CFLAGS="$MP_WARN_CFLAGS -Werror"])
  AM_CONDITIONAL([SANITIZED], [test $mp_sanitized = yes])
  AC_SUBST([MP_WARN_CFLAGS])
  AC_SUBST([MP_SANITIZE_CFLAGS])
])

# MP_SWITCH(NAME, WHAT, ACTION): --enable-NAME builds with WHAT.
AC_DEFUN([MP_SWITCH], [
  AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [build with $2])], [], [enable_$1=no])
  AS_IF([test "$enable_$1" = yes], [$3])
])

# MP_TRY_CFLAG(FLAG, IF-ACCEPTED)
AC_DEFUN([MP_TRY_CFLAG], [
  mp_saved_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM], [$2])
  CFLAGS=$mp_saved_CFLAGS
])
