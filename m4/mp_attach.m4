# MP_ATTACH: the part attach (m4/mp_parts.m4) needs libbpf, and a clang that compiles for BPF; without them it is left out.
AC_DEFUN([MP_ATTACH], [
  AC_ARG_ENABLE([attach],
    [AS_HELP_STRING([--disable-attach], [leave out `memprof attach` (default: built where libbpf and clang are)])],
    [], [enable_attach=check])
  have_attach=no
  AS_IF([test "x$enable_attach" != xno && test "$host_cpu" = x86_64], [
    PKG_CHECK_MODULES([LIBBPF], [libbpf >= 1.0], [have_attach=yes], [have_attach=no])
    AC_PATH_PROGS([BPF_CLANG], [clang clang-19 clang-16 clang-14], [no])
    AS_IF([test "$BPF_CLANG" = no], [have_attach=no])
  ])
  # The kernel's headers for this processor, which clang does not look for when it compiles for BPF.
  multiarch=`$CC -print-multiarch 2>/dev/null`
  AS_IF([test -n "$multiarch"], [BPF_CPPFLAGS="-I/usr/include/$multiarch"])
  AC_SUBST([BPF_CPPFLAGS])
  AS_IF([test "$have_attach" = yes], [
    AC_MSG_CHECKING([whether $BPF_CLANG compiles for BPF])
    AS_IF([echo 'int x;' | $BPF_CLANG -target bpf -x c -c - -o conftest.o 2>/dev/null], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no]); have_attach=no])
    rm -f conftest.o
  ])
  AS_IF([test "x$enable_attach" = xyes && test "$have_attach" = no],
    [AC_MSG_ERROR([--enable-attach: libbpf 1.0, or a clang for BPF, was not found, or this is no x86-64; see tools/install-deps])])
  # --unwind libunwind: its accessors to another process; no ptrace is used.
  AS_IF([test "$have_attach" = yes], [
    AC_CHECK_HEADER([libunwind-ptrace.h],
      [AC_CHECK_LIB([unwind-ptrace], [_UPT_create],
        [AC_SUBST([LIBUNWIND_LIBS], ["-lunwind-ptrace -lunwind-x86_64"])
         AC_DEFINE([MP_HAVE_LIBUNWIND_REMOTE], [1], [libunwind unwinds another process])], [], [-lunwind-x86_64])])
  ])
  AM_CONDITIONAL([PART_ATTACH], [test "$have_attach" = yes])
])
