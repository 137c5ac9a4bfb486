/*
 * The recorder's own memcpy(), memset() and so on. The program may define these names too. The program's versions may
 * count calls, take a lock, not be ready yet, or cause an event. Ours are hidden, so that all calls of the recorder
 * come here, even the ones that the compiler inserts. Most copies are short, so simple loops are fast enough. Names in
 * parentheses are macros in newer C libraries, with a const result for a const text.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Keeps the compiler from replacing a loop by a call of the very function that contains the loop. */
#define STAY_A_LOOP() __asm__ volatile("" ::: "memory")

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    void *at = to;
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
#else
    for (unsigned char *end = (unsigned char *)at + bytes; at != end; at = (unsigned char *)at + 1) {
        *(unsigned char *)at = *(const unsigned char *)from;
        from = (const unsigned char *)from + 1;
        STAY_A_LOOP();
    }
#endif
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to - (uintptr_t)from >= bytes) return memcpy(to, from, bytes);
    for (size_t i = bytes; i-- > 0;) {
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
        STAY_A_LOOP();
    }
    return to;
}

void *memset(void *to, int byte, size_t bytes)
{
    void *at = to;
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(byte) : "memory");
#else
    for (unsigned char *end = (unsigned char *)at + bytes; at != end; at = (unsigned char *)at + 1) {
        *(unsigned char *)at = (unsigned char)byte;
        STAY_A_LOOP();
    }
#endif
    return to;
}

int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i]) return a[i] - b[i];
        STAY_A_LOOP();
    }
    return 0;
}

static size_t length_up_to(const char *text, size_t most)
{
    size_t length = 0;
    while (length < most && text[length]) {
        length++;
        STAY_A_LOOP();
    }
    return length;
}

size_t strnlen(const char *text, size_t most)
{
    return length_up_to(text, most);
}

size_t strlen(const char *text)
{
    return length_up_to(text, SIZE_MAX);
}

static int compare_up_to(const char *one, const char *other, size_t most)
{
    const unsigned char *a = (const unsigned char *)one, *b = (const unsigned char *)other;
    for (size_t i = 0; i < most; i++) {
        if (a[i] != b[i] || !a[i]) return a[i] - b[i];
        STAY_A_LOOP();
    }
    return 0;
}

int strncmp(const char *one, const char *other, size_t most)
{
    return compare_up_to(one, other, most);
}

int strcmp(const char *one, const char *other)
{
    return compare_up_to(one, other, SIZE_MAX);
}

char *strncpy(char *restrict to, const char *restrict from, size_t most)
{
    size_t length = length_up_to(from, most);
    memcpy(to, from, length);
    memset(to + length, 0, most - length);
    return to;
}

char *(strchr)(const char *text, int wanted)
{
    while (*text != (char)wanted) {
        if (!*text++) return NULL;
        STAY_A_LOOP();
    }
    return (char *)(uintptr_t)text;
}

char *(strrchr)(const char *text, int wanted)
{
    const char *found = NULL;
    for (;; text++) {
        if (*text == (char)wanted) found = text;
        if (!*text) return (char *)(uintptr_t)found;
        STAY_A_LOOP();
    }
}

size_t strcspn(const char *text, const char *ends)
{
    size_t length = 0;
    while (text[length] && !strchr(ends, text[length]))
        length++;
    return length;
}

char *(strstr)(const char *text, const char *part)
{
    size_t length = length_up_to(part, SIZE_MAX);
    for (; *text || !length; text++)
        if (!compare_up_to(text, part, length)) return (char *)(uintptr_t)text;
    return NULL;
}
