/*
 * Memory for code that cannot continue without it: model, analysis, exchange, output and the command line. If memory
 * runs out, one hook ends the program with one sentence. This loses nothing: such code reads recordings and makes
 * results, and the hook removes a half-written result.
 *
 * The recorder, the collector and src/format must not end the program. They use the functions of base/vec.h, base/map.h
 * and base/intern.h that return whether there was memory. The collector also calls code that cannot continue without
 * memory (names of frames, the search for a loop), but only through mp_memory_try(). During that call, the hook is not
 * called.
 *
 * Any thread; the hook is the process's.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

void *mp_alloc(size_t bytes) __attribute__((malloc, alloc_size(1), returns_nonnull));
void *mp_alloc_zeroed(size_t count, size_t each) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *mp_realloc(void *memory, size_t bytes) __attribute__((alloc_size(2), returns_nonnull));
char *mp_text_copy(const char *text) __attribute__((malloc, returns_nonnull));
/* Copies at most `length` bytes. With `length` 0, `text` may be NULL, as in an empty buffer. */
char *mp_text_copy_part(const char *text, size_t length) __attribute__((malloc, returns_nonnull));
char *mp_text_make(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *mp_text_make_of(const char *format, va_list arguments) __attribute__((malloc, returns_nonnull));

/* Reports that `bytes` more (0: an unknown number) could not be allocated. If the call came through mp_memory_try(),
 * returns to it. Otherwise calls the hook, which does not return. Without a hook, aborts. */
void mp_memory_lacks(size_t bytes) __attribute__((noreturn));
typedef void mp_memory_hook(size_t bytes);
mp_memory_hook *mp_memory_on_lack(mp_memory_hook *hook); /* sets the hook; returns the previous one; NULL: none */
/* True if a lack of memory can be handled: by mp_memory_try() or by a hook. */
bool mp_memory_can_end(void);

/* Calls run(context). False if that ran out of memory: its allocations are then lost, and the caller must not use its
 * unfinished result. */
bool mp_memory_try(void (*run)(void *context), void *context);
