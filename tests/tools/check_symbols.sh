#!/bin/sh
# tools/check-symbols passes on the recorder that was built, and finds what is wrong with others.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
check=$source/tools/check-symbols
. "$source/tests/asserted.sh"
folder=$(mktemp -d)
at_end() { rm -rf "$folder"; }

echo "the recorder:"
held "$check" "$PWD/libmemprof.so"
echo "the driver's hooks:"
held "$check" "$PWD/libmemprof-hooks.so"
held "$check" "$PWD/libmemprof-malloc.so"

# expect TEXT CODE [FLAG...]: a library of CODE is refused, and among what is said is TEXT.
expect() {
    text=$1
    printf '%s\n' "$2" > "$folder/guest.c"
    shift 2
    ${CC:-cc} -O0 -fPIC -shared -o "$folder/guest.so" "$folder/guest.c" "$@"
    refused=no
    said=$("$check" "$folder/guest.so") || refused=yes
    printf 'said:\n%s\n' "$said"
    held [ "$refused" = yes ]
    printf '%s\n' "$said" > "$folder/said"
    held grep -qxF "guest.so $text" "$folder/said"
    echo "found: $text"
}

expect 'exports helper, which is not in the list of tools/check-symbols' 'int helper(void) { return 1; }'
expect 'does not export memprof_api_v1' 'static int unused;'
expect 'imports malloc' '#include <stdlib.h>
void *f(void) { return malloc(8); }'
expect 'imports printf' '#include <stdio.h>
void f(int n) { printf("%d", n); }'
expect 'imports __printf_chk' 'int __printf_chk(int, const char *, ...); void f(int n) { __printf_chk(1, "%d", n); }'
expect 'imports abort' '#include <stdlib.h>
void f(void) { abort(); }'
expect 'imports pthread_create' '#include <pthread.h>
int f(pthread_t *t, void *(*g)(void *)) { return pthread_create(t, 0, g, 0); }'
expect 'links libz.so.1' 'int compressBound(long); int f(void) { return compressBound(1); }' -Wl,--no-as-needed -lz
expect 'is not linked with -z now' 'static int unused;' -Wl,-z,lazy
expect 'is not linked with -z nodelete' 'static int unused;' -Wl,-z,now
