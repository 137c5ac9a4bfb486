#include "base/web_address.h"

#include <string.h>

void mp_web_address(struct mp_buffer *to, const char *text)
{
    for (; *text; text++) {
        bool plain =
            (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || strchr("0123456789-._~/:", *text);
        mp_buffer_printf(to, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
}
