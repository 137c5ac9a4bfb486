#include "collect/command_line.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MASK     "***"
#define NAME_MAX 64 /* a longer name is not looked at beyond its end */

void mp_command_line_read(uint32_t pid, char *arguments, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", (unsigned)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, arguments, room - 2);
    if (fd >= 0) close(fd);
    if (length < 0) length = 0;
    arguments[length] = arguments[length + 1] = '\0';
}

static void mask(char *secret, size_t length)
{
    if (length < strlen(MASK)) return;
    memcpy(secret, MASK, strlen(MASK));
    memmove(secret + strlen(MASK), secret + length, strlen(secret + length) + 1);
}

/* "--dbAccess_KEY" is "db.access.key": words in lower case, each ended by a dot. */
static void split_words(const char *name, size_t length, char words[2 * NAME_MAX])
{
    size_t used = 0;
    if (length > NAME_MAX) name += length - NAME_MAX, length = NAME_MAX;
    for (size_t i = 0; i < length && used + 2 < 2 * NAME_MAX; i++) {
        unsigned char letter = (unsigned char)name[i];
        bool begins = isupper(letter) && i && islower((unsigned char)name[i - 1]);
        if ((begins || !isalnum(letter)) && used && words[used - 1] != '.') words[used++] = '.';
        if (isalnum(letter)) words[used++] = (char)tolower(letter);
    }
    words[used++] = '.';
    words[used] = '\0';
}

static bool names_a_secret(const char *name, size_t length)
{
    static const char *const endings[] = {"token",      "secret",      "password",   "passwd",       "pwd",
                                          "passphrase", "credentials", "credential", "apikey",       "api.key",
                                          "access.key", "secret.key",  "auth.key",   "private.key",  "account.key",
                                          "authtoken",  "accesskey",   "secretkey",  "authorization"};
    char words[2 * NAME_MAX];
    split_words(name, length, words);
    size_t end = strlen(words) - 1; /* the dot */
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (size > end || strncmp(words + end - size, endings[i], size)) continue;
        if (size == end || words[end - size - 1] == '.') return true;
    }
    return false;
}

/* The password of scheme://user:PASSWORD@host. */
static void mask_url(char *argument)
{
    char *at = strstr(argument, "://");
    if (!at) return;
    at += 3;
    size_t authority = strcspn(at, "/?#");
    char *host = memrchr(at, '@', authority), *colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
    if (colon) mask(colon + 1, (size_t)(host - colon - 1));
}

static bool is_token_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '-';
}

/* Access tokens that stand anywhere: services begin theirs so that they can be found. */
static void mask_tokens(char *argument)
{
    static const char *const beginnings[] = {"hf_", "ghp_", "gho_",  "github_pat_", "glpat-",
                                             "sk-", "AKIA", "xoxb-", "xoxp-",       "ya29."};
    enum { TOKEN_MIN = 20 };
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        char *at = argument;
        while ((at = strstr(at, beginnings[i]))) {
            size_t length = strlen(beginnings[i]);
            while (is_token_letter(at[length]))
                length++;
            if ((at == argument || !is_token_letter(at[-1])) && length >= TOKEN_MIN) mask(at, length);
            at += strlen(MASK);
        }
    }
}

void mp_command_line_mask(char *arguments)
{
    bool value_is_secret = false; /* of the option before */
    for (char *argument = arguments, *next; *argument; argument = next) {
        next = argument + strlen(argument) + 1;
        char *equals = strchr(argument, '=');
        size_t name_length = equals ? (size_t)(equals - argument) : strlen(argument);
        bool is_option = *argument == '-';
        if (value_is_secret && !is_option)
            mask(argument, strlen(argument));
        else if (equals && names_a_secret(argument, name_length))
            mask(equals + 1, strlen(equals + 1));
        value_is_secret = is_option && !equals && names_a_secret(argument, name_length);
        mask_url(argument);
        mask_tokens(argument);
        ptrdiff_t length = (ptrdiff_t)strlen(argument) + 1;
        if (argument + length == next) continue;
        /* The arguments behind move up: all up to the empty one that ends them. */
        char *end = next;
        while (*end)
            end += strlen(end) + 1;
        memmove(argument + length, next, (size_t)(end - next) + 1);
        memset(end + 1 - (next - argument - length), 0, (size_t)(next - argument - length)); /* may hold the secret */
        next = argument + length;
    }
}
