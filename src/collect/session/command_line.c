#include "collect/session/collector_parts.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/recording/secret_shapes.h"

#define NAME_MAX       64 /* letters of a longer name beyond its end do not count */
#define TOKEN_USER     16 /* letters: a user's name is shorter than an access token */
#define OPTION_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define NAME_LETTERS   OPTION_LETTERS "0123456789_-.+"

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

/* All arguments, NUL-terminated each, and which of their letters are secret. The text stays until all rules have seen
 * it. */
struct marked {
    char *text, *marks;
};

static void mark(const struct marked *line, const char *secret, size_t length)
{
    memset(line->marks + (secret - line->text), 1, length);
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

static bool ends_in_one_of(const char *text, const char *const *list, char before)
{
    size_t end = strlen(text);
    for (; *list; list++) {
        size_t size = strlen(*list);
        if (size > end || strcmp(text + end - size, *list)) continue;
        if (!before || size == end || text[end - size - 1] == before) return true;
    }
    return false;
}

enum naming { NO_SECRET, NAMES_KEY, NAMES_SECRET };

/* NAMES_KEY: "--key" and "--text-key" name a column as often as a secret. */
static enum naming names_a_secret(const char *name, size_t length)
{
    /* The last words of a name; before those of the second list something may stand within the word. */
    static const char *const endings[] = {"pwd", "pass",   "passcode", "credentials", "credential", "creds",
                                          "pat", "auth",   "cookie",   "jwt",         "pin",        "sas",
                                          "otp", "bearer", "pw",       "sessionid",   "cred",       NULL};
    static const char *const tails[] = {
        "token",         "secret",          "password",   "passwd",        "passphrase", "apikey",      "accesskey",
        "secretkey",     "authtoken",       "authkey",    "authorization", "secrets",    "passwords",   "userpwd",
        "appkey",        "privatekey",      "accountkey", "wandbkey",      "signingkey", "sharedkey",   "masterkey",
        "encryptionkey", "accesssignature", "sshpass",    "storepass",     "keypass",    "fromliteral", NULL};
    /* Tokens of a model's alphabet: --pad-token. */
    static const char *const alphabet[] = {"pad.token",     "eos.token",   "bos.token",   "unk.token",
                                           "mask.token",    "sep.token",   "cls.token",   "image.token",
                                           "special.token", "stop.token",  "start.token", "end.token",
                                           "per.token",     "video.token", "audio.token", NULL};
    static const char *const keys[] = {"key", NULL};
    char words[2 * NAME_MAX], joined[2 * NAME_MAX], *end = joined;
    split_words(name, length, words);
    words[strlen(words) - 1] = '\0'; /* the dot */
    for (const char *at = words; *at; at++)
        if (*at != '.') *end++ = *at;
    *end = '\0';
    if (ends_in_one_of(words, alphabet, '.')) return NO_SECRET;
    if (ends_in_one_of(words, endings, '.') || ends_in_one_of(joined, tails, '\0')) return NAMES_SECRET;
    return ends_in_one_of(words, keys, '.') ? NAMES_KEY : NO_SECRET;
}

/* True if the value behind such a name is no secret: a number, or behind --text-key (not --key) the name of a column.
 */
static bool is_harmless(enum naming naming, const char *name, const char *value, size_t length)
{
    if (naming != NAMES_KEY || !length) return naming == NO_SECRET;
    if (strspn(value, "0123456789") >= length) return true;
    return strspn(value, "abcdefghijklmnopqrstuvwxyz_-.") >= length && (*name != '-' || strncasecmp(name, "--key", 5));
}

/* Masks the password of each scheme://user:PASSWORD@host; where there is no colon, the user may be a token. */
static void mask_urls(const struct marked *line, char *argument)
{
    for (char *at = argument; (at = strstr(at, "://"));) {
        bool is_web = at - argument >= 4 && (!strncmp(at - 4, "http", 4) || !strncmp(at - 4, "ttps", 4));
        at += 3;
        size_t authority = strcspn(at, "/?# \t\n\"'");
        char *host = memrchr(at, '@', authority), *colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
        if (colon)
            mark(line, colon + 1, (size_t)(host - colon - 1));
        else if (host && is_web && host - at >= TOKEN_USER)
            mark(line, at, (size_t)(host - at));
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

/* Masks a value that follows `separator` behind a secret's name, up to its end. The end is its quote, or in a header
 * ("Name: value") the end of the line. Otherwise a character ends it that ends a value in JSON, a query, a list or a
 * shell. Returns where to go on. */
static char *mask_value(const struct marked *line, enum naming naming, const char *name, char *value, char separator)
{
    char quote = '\0';
    value += strspn(value, " \t\\$"); /* $'...' */
    if (*value == '"' || *value == '\'') quote = *value++;
    bool is_header = separator == ':' && !quote;
    value = behind_scheme(value);
    const char ends[] = {quote, '\\', '\0'};
    size_t length = strcspn(value, quote == '"' ? ends : quote ? ends : is_header ? "\r\n\"'}" : " \t\r\n&,;\"'})]");
    if (!is_harmless(naming, name, value, length)) mark(line, value, length);
    return value + length;
}

/* Names that sign an address in its query, and are harmless elsewhere. */
static bool signs_a_query(const char *name, size_t length)
{
    static const char *const names[] = {"sig", "signature", "key", "code", "credential", "hmac", "st", NULL};
    char words[2 * NAME_MAX];
    split_words(name, length, words);
    words[strlen(words) - 1] = '\0';
    return ends_in_one_of(words, names, '.');
}

/* Masks secrets within an argument, behind their names: {"password": "..."}, Authorization: Bearer ..., a=1&token=...,
 * PASSWORD=... and --token ... in a shell's line. */
static void mask_named(const struct marked *line, char *argument)
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
        bool is_scheme =
            (length == 6 && !strncasecmp(name, "bearer", 6)) || (length == 5 && !strncasecmp(name, "basic", 5));
        size_t token = is_scheme && *behind == ' ' ? strcspn(behind + 1, " \t\r\n\"'") : 0;
        if (token >= 8) mark(line, behind + 1, token);
        enum naming naming = names_a_secret(name, length);
        if (name > argument && strchr("?&", name[-1]) && *behind == '=' && signs_a_query(name, length))
            naming = NAMES_SECRET;
        bool is_passed = *behind == '=' && behind[1] && strchr("\"'", behind[1]);                 /* login(key="...") */
        if (naming == NAMES_KEY && length == 3 && *name != '-' && !is_passed) naming = NO_SECRET; /* {"key": 1} */
        if (naming == NO_SECRET || is_scheme) continue;
        bool is_option = *name == '-' && *behind == ' ';
        bool is_argument = name - argument >= 2 && name[-2] == '(' && *behind == name[-1] && behind[1] == ',';
        behind += strspn(behind, "\\\"']");
        behind += strspn(behind, " \t");
        bool is_assigned = *behind == '=' || (*behind == ':' && behind[1] != ':' && strncmp(behind, "://", 3));
        if (is_assigned || is_argument) /* setdefault("TOKEN", "...") */
            at = mask_value(line, naming, name, behind + 1, *behind);
        else if (is_option && *behind && *behind != '-')
            at = mask_value(line, naming, name, behind, ' ');
    }
}

enum rule_kind {
    VALUE,    /* the option's value, in the next word or attached */
    ATTACHED, /* attached alone: mysql -pSECRET */
    LOGIN,    /* likewise a value USER:SECRET */
    BARE,     /* each word that is no option */
};

/* Commands whose secrets have no name; `login`: behind that word alone. Blanks around each command. */
static const struct command_rule {
    const char *commands, *option;
    enum rule_kind kind;
    bool login;
} rules[] = {
    {" wandb vault ", "", BARE, true},
    {" docker podman nerdctl buildah skopeo crane oras helm oc az ", "-p", VALUE, true},
    {" sshpass mongo mongosh mongodump mongorestore ", "-p", VALUE, false},
    {" mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mariadb mariadb-dump mycli 7z 7za 7zr ", "-p",
     ATTACHED, false},
    {" redis-cli valkey-cli ", "-a", VALUE, false},
    {" ldapsearch ldapmodify ldapadd ldapwhoami ", "-w", VALUE, false},
    {" zip unzip sqlcmd bcp ", "-P", VALUE, false},
    {" openssl ", "-pass", VALUE, false},
    {" openssl ", "-passin", VALUE, false},
    {" openssl ", "-passout", VALUE, false},
    {" openssl ", "-k", VALUE, false},
    {" curl ", "-b", VALUE, false},
    {" curl lftp ", "-u", LOGIN, false},
    {" curl ", "-E", LOGIN, false},
    {" curl ", "--cert", LOGIN, false},
    {" curl smbclient rpcclient ", "-U", LOGIN, false},
    {" http https ", "-a", LOGIN, false},
    {" ab ", "-A", LOGIN, false},
};

/* One command of a line: what earlier words say of the next. */
struct words {
    const struct command_rule *rule; /* its option came before; NULL: none */
    char command[NAME_MAX];          /* with blanks around; empty: none known */
    const char *name;                /* an option or setting that names a secret came before */
    size_t name_length;
    bool login, set, of_user; /* "login", "set", "--user" came before */
};

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return length == strlen(wanted) && !strncmp(word, wanted, length);
}

static void mark_login(const struct marked *line, const char *word, size_t length, const char *separators)
{
    size_t user = 0;
    while (user < length && !strchr(separators, word[user]))
        user++;
    if (user + 1 == length)
        mark(line, word, user); /* a token as the user, without a password */
    else if (user < length && strspn(word + user + 1, "0123456789") < length - user - 1)
        mark(line, word + user + 1, length - user - 1);
}

static bool knows_command(const char *padded)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strstr(rules[i].commands, padded)) return true;
    return false;
}

static void take_command(struct words *words, const char *word, size_t length)
{
    size_t skip = length; /* /usr/bin/curl, ProxyCommand=sshpass */
    while (skip && !strchr("/=", word[skip - 1]))
        skip--;
    char padded[NAME_MAX];
    if (length - skip + 3 > sizeof padded) return;
    snprintf(padded, sizeof padded, " %.*s ", (int)(length - skip), word + skip);
    if (!knows_command(padded)) return;
    *words = (struct words){0};
    memcpy(words->command, padded, sizeof padded);
}

/* "-phunter2" of a client that the table does not know: letters and digits, but no -pix_fmt and no -p8080:80. */
static bool seems_attached_password(const char *word, size_t length)
{
    bool digits = false, letters = false;
    if (length < 6 || strncmp(word, "-p", 2)) return false;
    for (size_t i = 2; i < length; i++) {
        if (strchr("=:/", word[i])) return false;
        if (isdigit((unsigned char)word[i])) digits = true;
        if (isalpha((unsigned char)word[i])) letters = true;
    }
    return digits && letters;
}

static bool take_option(const struct marked *line, struct words *words, const char *word, size_t length)
{
    for (size_t i = 0; *words->command && i < sizeof rules / sizeof *rules; i++) {
        const struct command_rule *rule = &rules[i];
        size_t size = strlen(rule->option);
        if (!size || !strstr(rule->commands, words->command) || (rule->login && !words->login) || size > length)
            continue;
        bool begins = !strncmp(word, rule->option, size);
        bool ends_letters = rule->kind == LOGIN && size == 2 && word[length - 1] == rule->option[1] &&
                            strspn(word + 1, OPTION_LETTERS) >= length - 1; /* curl -sSLu */
        if (!begins && !ends_letters) continue;
        if (length == size || !begins) {
            words->rule = rule->kind == ATTACHED ? NULL : rule;
            return true;
        }
        if (size > 2) continue;
        if (rule->kind == LOGIN)
            mark_login(line, word + size, length - size, ":%,");
        else
            mark(line, word + size, length - size);
        return true;
    }
    return false;
}

/* Marks a word's secret, as far as the words before it say that it is one. */
static void take_word(const struct marked *line, struct words *words, const char *word, size_t length)
{
    struct words before = *words;
    words->rule = NULL;
    words->name = NULL;
    words->set = words->of_user = false;
    bool is_option = *word == '-' && length > 1;
    if (before.name && strncmp(word, "--", 2)) {
        enum naming naming = names_a_secret(before.name, before.name_length);
        if (!is_harmless(naming, before.name, word, length)) mark(line, word, length);
        return;
    }
    if (before.rule || before.of_user) {
        if (before.rule && before.rule->kind == VALUE)
            mark(line, word, length);
        else
            mark_login(line, word, length, before.rule ? ":%," : ":");
        return;
    }
    const char *equals = memchr(word, '=', length);
    size_t named = equals ? (size_t)(equals - word) : length;
    bool is_name = strspn(word, NAME_LETTERS) >= named;
    if (equals && is_option && is_word(word, named, "--user")) mark_login(line, equals + 1, length - named - 1, ":");
    if (equals && is_name) {
        enum naming naming = names_a_secret(word, named);
        if (!is_harmless(naming, word, equals + 1, length - named - 1)) mark(line, equals + 1, length - named - 1);
        if (!is_option) take_command(words, word, length); /* ProxyCommand=sshpass */
    } else if (is_option) {
        words->set = before.set; /* set -x NAME VALUE */
        if (take_option(line, words, word, length)) return;
        if (seems_attached_password(word, length)) mark(line, word + 2, length - 2);
        words->of_user =
            is_word(word, length, "-u") || is_word(word, length, "--user") || is_word(word, length, "--proxy-user");
    } else if (words->login && (strstr(rules[0].commands, *words->command ? words->command : "-"))) {
        mark(line, word, length);
    } else {
        words->set = is_word(word, length, "set") || is_word(word, length, "setenv");
        words->login |= is_word(word, length, "login");
        take_command(words, word, length);
    }
    const char *name = memrchr(word, ':', length); /* npm config set //host/:_authToken */
    name = before.set && name ? name + 1 : word;
    size_t size = length - (size_t)(name - word);
    if ((is_option || before.set) && !equals && (is_name || before.set) && names_a_secret(name, size))
        words->name = name, words->name_length = size;
}

/* The words of a shell's line, as of sh -c '...'; `depth` lines lie in its quotes at most. */
static void mask_line(const struct marked *line, char *argument, size_t bytes, int depth)
{
    struct words words = {0};
    for (char *at = argument; *at && at < argument + bytes;) {
        at += *at == '$' && at[1] == '\'';
        char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
        size_t length = quote ? strcspn(at, (char[]){quote, '\0'}) : strcspn(at, " \t\r\n;|&<>()\"'");
        if (length) take_word(line, &words, at, length);
        if (quote && depth) mask_line(line, at, length, depth - 1);
        at += length;
        if (quote && *at) at++;
        if (*at && strchr(";|&\n(", *at)) words = (struct words){0};
        while (*at && strchr(" \t\r\n;|&<>()", *at))
            at++;
    }
}

void mp_command_line_mask(char *arguments)
{
    size_t bytes = 0, used = 0;
    while (arguments[bytes])
        bytes += strlen(arguments + bytes) + 1;
    const struct marked line = {.text = arguments, .marks = calloc(bytes + 1, 1)};
    struct words words = {0};
    bool in_pem = false; /* of a block that a shell has split */
    for (char *argument = arguments; line.marks && *argument; argument += strlen(argument) + 1) {
        bool ends_pem = in_pem && strstr(argument, "-----END"), begins_pem = strstr(argument, "-----BEGIN");
        if (in_pem) mark(&line, argument, strlen(argument));
        in_pem = (in_pem && !ends_pem) || (begins_pem && !strstr(argument, "-----END"));
        take_word(&line, &words, argument, strlen(argument));
        if (strpbrk(argument, " \t\n")) mask_line(&line, argument, strlen(argument), 2);
        mask_urls(&line, argument);
        mask_named(&line, argument);
        mp_secret_shapes_mark(argument, line.marks + (argument - arguments));
    }
    for (size_t at = 0; line.marks && at < bytes;) {
        size_t length = strlen(arguments + at), masked = mp_secret_shapes_mask(arguments + at, line.marks + at);
        memmove(arguments + used, arguments + at, masked + 1);
        used += masked + 1;
        at += length + 1;
    }
    memset(arguments + used, 0, bytes - used);
    free(line.marks);
}

void mp_command_line_masked(uint32_t pid, char *arguments, size_t room)
{
    enum { ALL = 256 << 10 };
    char *all = malloc(ALL);
    memset(arguments, 0, room);
    if (!all) return;
    mp_command_line_read(pid, all, ALL);
    size_t used = 0;
    mp_command_line_mask(all);
    while (all[used])
        used += strlen(all + used) + 1;
    memcpy(arguments, all, used < room - 2 ? used : room - 2);
    free(all);
}
