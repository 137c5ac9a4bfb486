# MP_MPI: MPI, for a library that `memprof merge` opens under mpirun. memprof itself does not need it.
AC_DEFUN([MP_MPI], [
  have_mpi=no
  AC_ARG_WITH([mpi],
    [AS_HELP_STRING([--with-mpi], [build the library for merges under mpirun (default: where pkg-config knows an MPI)])],
    [], [with_mpi=auto])
  AS_IF([test "x$with_mpi" != xno], [
    PKG_CHECK_MODULES([MPI], [mpi-c], [have_mpi=yes],
      [PKG_CHECK_MODULES([MPI], [ompi-c], [have_mpi=yes],
        [PKG_CHECK_MODULES([MPI], [mpich], [have_mpi=yes], [have_mpi=no])])])])
  AS_IF([test "x$with_mpi" = xyes && test $have_mpi = no],
    [AC_MSG_ERROR([--with-mpi: pkg-config knows no MPI; Debian has libopenmpi-dev])])
  AM_CONDITIONAL([HAVE_MPI], [test $have_mpi = yes])
])
