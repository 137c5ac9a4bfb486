#include "base/memory.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attempt {
    jmp_buf out;
};

static _Thread_local struct attempt *attempt;
static mp_memory_hook *on_lack;

mp_memory_hook *mp_memory_on_lack(mp_memory_hook *hook)
{
    mp_memory_hook *before = on_lack;
    on_lack = hook;
    return before;
}

bool mp_memory_can_end(void)
{
    return attempt || on_lack;
}

void mp_memory_lacks(size_t bytes)
{
    if (attempt) longjmp(attempt->out, 1);
    if (on_lack) on_lack(bytes);
    abort();
}

bool mp_memory_try(void (*run)(void *context), void *context)
{
    struct attempt mine, *const outer = attempt;
    bool lacked = setjmp(mine.out);
    attempt = lacked ? outer : &mine;
    if (!lacked) run(context);
    attempt = outer;
    return !lacked;
}

void *mp_alloc(size_t bytes)
{
    void *made = malloc(bytes ? bytes : 1);
    if (!made) mp_memory_lacks(bytes);
    return made;
}

void *mp_alloc_zeroed(size_t count, size_t each)
{
    size_t bytes;
    void *made = calloc(count ? count : 1, each);
    if (!made) mp_memory_lacks(__builtin_mul_overflow(count, each, &bytes) ? (size_t)-1 : bytes);
    return made;
}

void *mp_realloc(void *memory, size_t bytes)
{
    void *moved = realloc(memory, bytes ? bytes : 1);
    if (!moved) mp_memory_lacks(bytes);
    return moved;
}

char *mp_text_copy_part(const char *text, size_t length)
{
    char *made = strndup(length ? text : "", length);
    if (!made) mp_memory_lacks(length);
    return made;
}

char *mp_text_copy(const char *text)
{
    return mp_text_copy_part(text, strlen(text));
}

char *mp_text_make_of(const char *format, va_list arguments)
{
    char *made;
    if (vasprintf(&made, format, arguments) < 0) mp_memory_lacks(strlen(format));
    return made;
}

char *mp_text_make(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *made = mp_text_make_of(format, arguments);
    va_end(arguments);
    return made;
}
