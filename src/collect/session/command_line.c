#include "collect/session/collector_parts.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MASK         "***"
#define NAME_MAX     64 /* letters of a longer name beyond its end do not count */
#define TOKEN_USER   16 /* letters: a user's name is shorter than an access token */
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+"

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

/* Masks a secret; the rest moves up. Where the mask is longer, there are as many stars as there were letters. */
static void mask(char *secret, size_t length)
{
    size_t stars = length < strlen(MASK) ? length : strlen(MASK);
    memset(secret, *MASK, stars);
    memmove(secret + stars, secret + length, strlen(secret + length) + 1);
}

/* "--dbAccess_KEY" becomes "db.access.key": words in lower case, each ended by a dot. */
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
    /* The last words of a name; before those of the second list something may stand within the word. */
    static const char *const endings[] = {"pwd",  "pass",   "passcode", "credentials", "credential", "creds", "pat",
                                          "auth", "cookie", "jwt",      "pin",         "sas",        "otp",   "key"};
    static const char *const tails[] = {"token",      "secret",        "password",  "passwd",    "passphrase",
                                        "apikey",     "accesskey",     "secretkey", "authtoken", "authkey",
                                        "privatekey", "authorization", "secrets",   "passwords", "userpwd",
                                        "wandbkey",   "appkey"};
    char words[2 * NAME_MAX];
    split_words(name, length, words);
    size_t end = strlen(words) - 1; /* the dot */
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (size > end || strncmp(words + end - size, endings[i], size)) continue;
        bool is_alone = size == end; /* "--key 5" is no secret, "--wandb_key" is */
        if (is_alone ? strcmp(endings[i], "key") != 0 : words[end - size - 1] == '.') return true;
    }
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t size = strlen(tails[i]);
        if (size <= end && !strncmp(words + end - size, tails[i], size)) return true;
    }
    return false;
}

/* Masks the password of each scheme://user:PASSWORD@host; where there is no colon, the user may be a token. */
static void mask_urls(char *argument)
{
    for (char *at = argument; (at = strstr(at, "://"));) {
        bool is_web = at - argument >= 4 && (!strncmp(at - 4, "http", 4) || !strncmp(at - 4, "ttps", 4));
        at += 3;
        size_t authority = strcspn(at, "/?# \t\n\"'");
        char *host = memrchr(at, '@', authority), *colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
        if (colon)
            mask(colon + 1, (size_t)(host - colon - 1));
        else if (host && is_web && host - at >= TOKEN_USER)
            mask(at, (size_t)(host - at));
    }
}

static bool is_name_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '-' || letter == '.';
}

/* "Bearer" and similar words stand before a secret; returns the secret's beginning. */
static char *behind_scheme(char *value)
{
    static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest ", "apikey "};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncasecmp(value, schemes[i], strlen(schemes[i]))) return value + strlen(schemes[i]);
    return value;
}

/* Masks a value that follows `separator` behind a secret's name, up to its end: its quote; in a header ("Name: value")
 * the end of the line; else the characters that end a value in JSON, a query, a list or a shell. Returns where to go
 * on. */
static char *mask_value(char *value, char separator)
{
    char quote = '\0';
    value += strspn(value, " \t");
    while (*value == '\\')
        value++;
    if (*value == '"' || *value == '\'') quote = *value++;
    bool is_header = separator == ':' && !quote;
    value = behind_scheme(value);
    const char ends[] = {quote, '\\', '\0'};
    size_t length = strcspn(value, quote == '"' ? ends : quote ? ends : is_header ? "\r\n\"'}" : " \t\r\n&,;\"'})]");
    mask(value, length);
    return value + (length < strlen(MASK) ? length : strlen(MASK));
}

/* Masks secrets within an argument, behind their names: {"password": "..."}, Authorization: Bearer ..., a=1&token=...,
 * PASSWORD=... and --token ... in a shell's line. */
static void mask_named(char *argument)
{
    for (char *at = argument; *at;) {
        size_t length = 0;
        while (is_name_letter(at[length]))
            length++;
        if (!length) {
            at++;
            continue;
        }
        char *name = at, *behind = at + length;
        at = behind;
        if (!names_a_secret(name, length)) {
            bool is_scheme =
                (length == 6 && !strncasecmp(name, "bearer", 6)) || (length == 5 && !strncasecmp(name, "basic", 5));
            size_t token = is_scheme && *behind == ' ' ? strcspn(behind + 1, " \t\r\n\"'") : 0;
            if (token >= 8) mask(behind + 1, token);
            continue;
        }
        bool is_option = *name == '-' && *behind == ' ';
        behind += strspn(behind, "\\\"'");
        behind += strspn(behind, " \t");
        bool is_assigned = *behind == '=' || (*behind == ':' && behind[1] != ':' && strncmp(behind, "://", 3));
        if (is_assigned)
            at = mask_value(behind + 1, *behind);
        else if (is_option && *behind && *behind != '-')
            at = mask_value(behind, ' ');
    }
}

static bool is_token_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '-';
}

/* Masks access tokens anywhere: services give theirs a fixed beginning so that they can be found. */
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

/* "-psecret", as database clients have it; "-p8080" is a port. */
static bool is_attached_password(const char *argument)
{
    return !strncmp(argument, "-p", 2) && argument[2] && strspn(argument + 2, "0123456789") < strlen(argument + 2);
}

void mp_command_line_mask(char *arguments)
{
    bool value_is_secret = false, value_is_login = false; /* of the option before; user:password */
    for (char *argument = arguments, *next; *argument; argument = next) {
        next = argument + strlen(argument) + 1;
        char *equals = strchr(argument, '=');
        size_t name_length = equals ? (size_t)(equals - argument) : strlen(argument);
        bool is_option = *argument == '-', is_long = !strncmp(argument, "--", 2);
        bool is_name = strspn(argument, NAME_LETTERS) >= name_length;
        char *colon = value_is_login ? strchr(argument, ':') : NULL;
        if (value_is_secret && !is_long)
            mask(argument, strlen(argument));
        else if (equals && is_name && names_a_secret(argument, name_length))
            mask(equals + 1, strlen(equals + 1));
        else if (colon)
            mask(colon + 1, strlen(colon + 1));
        else if (is_attached_password(argument))
            mask(argument + 2, strlen(argument + 2));
        value_is_secret = is_option && !equals && is_name && names_a_secret(argument, name_length);
        value_is_login = !strcmp(argument, "-u") || !strcmp(argument, "--user") || !strcmp(argument, "--proxy-user");
        mask_urls(argument);
        mask_named(argument);
        mask_tokens(argument);
        ptrdiff_t length = (ptrdiff_t)strlen(argument) + 1;
        if (argument + length == next) continue;
        /* The following arguments move up: all up to the empty one that ends them. */
        char *end = next;
        while (*end)
            end += strlen(end) + 1;
        memmove(argument + length, next, (size_t)(end - next) + 1);
        memset(end + 1 - (next - argument - length), 0, (size_t)(next - argument - length)); /* may hold the secret */
        next = argument + length;
    }
}
