/* A library whose symbols, inlined calls and lines check_symbols knows or asks other programs about. */
#include <stddef.h>

#define NOINLINE __attribute__((noinline))

volatile int fixture_sink;

static inline __attribute__((always_inline)) int innermost(int value)
{
    fixture_sink = value;
    return fixture_sink * 3;
}

static inline __attribute__((always_inline)) int middle(int value)
{
    int sum = 0;
    for (int i = 0; i < value; i++) {
        int part = innermost(i + value);
        if (part & 1) {
            int other = innermost(part);
            sum += other;
        }
        sum += part;
    }
    return sum;
}

static NOINLINE int local_function(int value)
{
    return middle(value) + innermost(value);
}

NOINLINE int fixture_outer(int value)
{
    if (__builtin_expect(value < 0, 0)) {
        fixture_sink = local_function(-value);
        return fixture_sink;
    }
    return local_function(value) + middle(value + 1);
}

__attribute__((cold)) NOINLINE int fixture_cold(int value)
{
    return middle(value);
}

/* A C++ compiler's name of shop::Cart<int>::add(std::pair<int, char*> const&, unsigned long). */
int fixture_mangled(const void *pair, size_t count) __asm__("_ZN4shop4CartIiE3addERKSt4pairIiPcEm");
NOINLINE int fixture_mangled(const void *pair, size_t count)
{
    return innermost((int)count) + !pair;
}

int __fixture_alias(int value) __attribute__((alias("fixture_outer")));

/* Between two functions, code that no symbol with a size covers. */
__asm__(".text\n"
        ".globl fixture_sizeless\n"
        ".type fixture_sizeless, @function\n"
        "fixture_sizeless:\n"
        ".fill 16, 1, 0\n");
