# MP_TOOL_LIBRARIES: what the memprof program itself links.
AC_DEFUN([MP_TOOL_LIBRARIES], [
  PKG_PROG_PKG_CONFIG([0.29])
  PKG_CHECK_MODULES([ZSTD], [libzstd >= 1.4])
  PKG_CHECK_MODULES([LIBDW], [libdw >= 0.176])
  PKG_CHECK_MODULES([LIBELF], [libelf])
  PKG_CHECK_MODULES([ZLIB], [zlib])
  PKG_CHECK_MODULES([YAJL], [yajl >= 2.1])
  PKG_CHECK_MODULES([SQLITE], [sqlite3 >= 3.25])
  # Debian 12 ships msgpack-c's C library as "msgpack" (header <msgpack.h>), newer releases as "msgpack-c".
  PKG_CHECK_MODULES([MSGPACK], [msgpack-c >= 4.0], [],
    [PKG_CHECK_MODULES([MSGPACK], [msgpack >= 4.0])])
])
