/* Allocates ten times, by a library that did so before main(). */
#include <stddef.h>

int early_allocate(size_t bytes);

int main(void)
{
    int failed = 0;
    for (int i = 0; i < 10; i++)
        failed |= early_allocate(1000);
    return failed;
}
