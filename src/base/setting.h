/* A text out of settings as a recording carries them: "key=value;key=value", with %XX. Never allocates; any thread. */
#ifndef MP_BASE_SETTING_H
#define MP_BASE_SETTING_H

#include <stddef.h>

/* The value of a key, decoded and cut to the room; "" where there is none. */
void mp_setting(char *to, size_t room, const char *settings, const char *key);

#endif
