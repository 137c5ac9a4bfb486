/*
 * C++ names as their authors wrote them. Uses the C++ runtime's own demangler where the machine has it, opened at the
 * first mangled name, so that a C program links no C++. One thread at a time.
 */
#ifndef MP_COLLECT_DEMANGLE_H
#define MP_COLLECT_DEMANGLE_H

struct mp_demangler;

struct mp_demangler *mp_demangler_open(void); /* NULL where memory is short */
/* The name to show for a symbol's name, which must live as long as the demangler and keep its address: each is computed
 * once. Versions ("@@GLIBC_2.34") are dropped, and from mangled names the compiler's marks of a partial or specialised
 * copy (".isra.0"). A name that cannot be demangled is returned unchanged. */
const char *mp_demangle(struct mp_demangler *demangler, const char *symbol);
void mp_demangler_close(struct mp_demangler *demangler);

#endif
