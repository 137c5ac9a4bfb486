/*
 * Memory for code that can do nothing without it: model, analysis, exchange, output and the command line. Where there
 * is none, the program ends through one hook, with one sentence. This loses nothing: such code reads recordings and
 * makes results, and the hook removes a half-written result.
 *
 * The recorder, the collector and src/format must not end the program. They use the functions of base/vec.h, base/map.h
 * and base/intern.h that return whether there was memory. The collector calls code of the other kind (names of frames,
 * the search for a loop) only through mp_memory_try(), which clears the hook while it runs.
 *
 * Any thread; the hook is the process's.
 */
#ifndef MP_BASE_MEMORY_H
#define MP_BASE_MEMORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

void *mp_alloc(size_t bytes) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *mp_alloc_zeroed(size_t count, size_t each) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *mp_realloc(void *memory, size_t bytes) __attribute__((alloc_size(2), returns_nonnull));
char *mp_text_copy(const char *text) __attribute__((malloc, returns_nonnull));
/* At most length bytes; with 0 of them text may be NULL, as that of an empty buffer is. */
char *mp_text_copy_part(const char *text, size_t length) __attribute__((malloc, returns_nonnull));
char *mp_text_make(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *mp_text_make_of(const char *format, va_list arguments) __attribute__((malloc, returns_nonnull));

/* Reports that `bytes` more (0: an unknown number) could not be allocated: leaves through mp_memory_try(), else through
 * the hook, else aborts. A hook does not return. */
void mp_memory_lacks(size_t bytes) __attribute__((noreturn));
typedef void mp_memory_hook(size_t bytes);
mp_memory_hook *mp_memory_on_lack(mp_memory_hook *hook); /* returns the previous one; NULL: none */
/* True if one of the two ways out, mp_memory_try() or a hook, is there. */
bool mp_memory_can_end(void);

/* Runs `run`; false where it ran out of memory. Everything that it had allocated is then lost, and nothing that it was
 * building may be looked at. */
bool mp_memory_try(void (*run)(void *context), void *context);

#endif
