/*
 * Demangles C++ names. Loads the C++ runtime's demangler, if the machine has it, at the first mangled name, so that
 * memprof need not link C++. One thread at a time.
 */
#pragma once

struct mp_demangler;

struct mp_demangler *mp_demangler_open(void); /* NULL if memory is short */
/* The name to show for `symbol`. `symbol` must stay at its address as long as the demangler lives, since results are
 * kept by address. Versions ("@@GLIBC_2.34") are dropped. From mangled names, the compiler's marks of a partial or
 * specialised copy (".isra.0") are dropped, too. A name that cannot be demangled is returned unchanged. */
const char *mp_demangle(struct mp_demangler *demangler, const char *symbol);
void mp_demangler_close(struct mp_demangler *demangler);
