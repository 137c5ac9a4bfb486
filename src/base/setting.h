/* Reads one of a recording's settings: "key=value;key=value", with %XX. Never allocates; any thread. */
#pragma once

#include <stddef.h>

/* Copies the value of `key` to `to`, decoded and cut to `room` bytes; "" if there is none. */
void mp_setting(char *to, size_t room, const char *settings, const char *key);
