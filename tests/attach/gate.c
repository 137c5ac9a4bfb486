/* Preloaded: waits for a byte on standard input once the program has mapped the driver. */
#include <unistd.h>
__attribute__((constructor)) static void wait_for_attach(void)
{
    char byte;
    if (read(0, &byte, 1) < 0) _exit(1);
}
