#include "base/setting.h"

#include <stdbool.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | ('a' - 'A'));
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies the text up to ';' and decodes %XX. */
static void decode(char *to, size_t room, const char *from)
{
    size_t length = 0;
    while (*from && *from != ';' && length + 1 < room) {
        bool encoded = *from == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0;
        to[length++] = encoded ? (char)(hex_digit(from[1]) << 4 | hex_digit(from[2])) : *from;
        from += encoded ? 3 : 1;
    }
    to[length] = '\0';
}

void mp_setting(char *to, size_t room, const char *settings, const char *key)
{
    size_t length = strlen(key);
    *to = '\0';
    for (const char *at = settings; at && *at; at = strchr(at, ';')) {
        at += *at == ';';
        if (!strncmp(at, key, length) && at[length] == '=') decode(to, room, at + length + 1);
    }
}
