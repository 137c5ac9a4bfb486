#include "collect/session/command_line.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/recording/secret_shapes.h"

#define NAME_MAX       64  /* only this many letters of a name count, from its end */
#define LOGIN_MAX      256 /* most letters of a user and password before @ */
#define TOKEN_USER     16  /* letters: a user's name is shorter than an access token */
#define OPTION_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define NAME_LETTERS   OPTION_LETTERS "0123456789_-.+"

void mp_process_name_clean(char *name)
{
    name[strcspn(name, "\n")] = '\0';
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-+:/@ ", *at)) *at = '?';
}

void mp_process_name(uint32_t pid, char name[MP_PROCESS_NAME])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(name, MP_PROCESS_NAME, file)) *name = '\0';
    if (file) fclose(file);
    mp_process_name_clean(name);
}

static bool is_empty_argument(const char *text, size_t at)
{
    return !text[at] && (!at || !text[at - 1]);
}

/* Shows empty arguments as '', since an empty one ends the list. Leaves out empty arguments at the end: they remain
 * where a program has written a title over its longer command line. */
static size_t show_empty(char *text, size_t length, size_t room)
{
    size_t more = 0;
    while (length && !text[length - 1])
        length--;
    for (size_t i = 0; i < length; i++)
        more += is_empty_argument(text, i) ? 2 : 0;
    if (length + more > room) return length;
    for (size_t from = length, to = length + more; from-- > 0;) {
        bool is_empty = is_empty_argument(text, from);
        text[--to] = text[from];
        if (is_empty) text[--to] = '\'', text[--to] = '\'';
    }
    return length + more;
}

void mp_command_line_read(uint32_t pid, char *arguments, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", (unsigned)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, arguments, room - 2);
    if (fd >= 0) close(fd);
    size_t used = length < 0 ? 0 : show_empty(arguments, (size_t)length, room - 2);
    arguments[used] = arguments[used + 1] = '\0';
}

/* All arguments, each NUL-terminated, with marks on the letters that are secret. The text itself changes only after all
 * rules have seen it. */
struct marked {
    char *text, *marks;
};

static void mark(const struct marked *line, const char *secret, size_t length)
{
    memset(line->marks + (secret - line->text), 1, length);
}

/* "--dbAccess_KEY" becomes "db.access.key.": words in lower case, each followed by a dot. */
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

/* NAMES_KEY: names such as "--key" and "--text-key" may mean a column or a secret. */
static enum naming names_a_secret(const char *name, size_t length)
{
    /* The last words of a secret's name. For endings of the second list, the word may begin with other letters. */
    static const char *const endings[] = {
        "pwd", "pass", "passcode", "credentials", "credential", "creds",     "pat",  "auth", "cookie", "jwt",
        "pin", "sas",  "otp",      "bearer",      "pw",         "sessionid", "cred", "psk",  NULL};
    /* Words that may follow a secret's name: HF_TOKEN_2, DB_PASSWORD_PROD. */
    static const char *const qualifiers[] = {"prod", "dev", "test", "staging", "value", "old", "new", NULL};
    static const char *const tails[] = {
        "token",         "secret",          "password",   "passwd",        "passphrase", "apikey",      "accesskey",
        "secretkey",     "authtoken",       "authkey",    "authorization", "secrets",    "passwords",   "userpwd",
        "appkey",        "privatekey",      "accountkey", "wandbkey",      "signingkey", "sharedkey",   "masterkey",
        "encryptionkey", "accesssignature", "sshpass",    "storepass",     "keypass",    "fromliteral", "keybase",
        "apikeys",       "requirepass",     "masterauth", "passwort",      "kennwort",   "mnemonic",    "seedphrase",
        "dbpass",        "dbpwd",           "userpass",   "adminpass",     "rootpass",   NULL};
    /* Tokens of a model's vocabulary: --pad-token. */
    static const char *const alphabet[] = {"pad.token",   "eos.token", "bos.token",   "unk.token",     "mask.token",
                                           "sep.token",   "cls.token", "image.token", "special.token", "stop.token",
                                           "start.token", "end.token", "per.token",   "video.token",   "audio.token",
                                           "max.token",   "min.token", "num.token",   "n.token",       NULL};
    static const char *const keys[] = {"key", NULL};
    /* config.secrets.openai is one of them; secrets.backend tells where they are. */
    static const char *const groups[] = {"secrets", "credentials", "passwords", NULL};
    static const char *const abouts[] = {"path", "file", "dir", "name", "backend", "provider", "env",
                                         "json", "yaml", "yml", "toml", "py",      NULL};
    char words[2 * NAME_MAX], joined[2 * NAME_MAX], *end = joined;
    split_words(name, length, words);
    words[strlen(words) - 1] = '\0'; /* the dot */
    bool is_qualified = false;
    for (size_t used; (used = strlen(words));) {
        bool ends_qualified = strchr(words, '.') && ends_in_one_of(words, qualifiers, '.');
        if (!ends_qualified && !strchr("0123456789.", words[used - 1])) break;
        is_qualified |= ends_qualified;
        words[ends_qualified ? (size_t)(strrchr(words, '.') - words) : used - 1] = '\0';
    }
    for (const char *at = words; *at; at++)
        if (*at != '.') *end++ = *at;
    *end = '\0';
    if (ends_in_one_of(words, alphabet, '.')) return NO_SECRET;
    char *last = strrchr(words, '.');
    if (last && !ends_in_one_of(last, abouts, '.')) {
        *last = '\0';
        if (ends_in_one_of(words, groups, '.')) return NAMES_SECRET;
        *last = '.';
    }
    if (ends_in_one_of(words, endings, '.') || ends_in_one_of(joined, tails, '\0')) return NAMES_SECRET;
    return !is_qualified && ends_in_one_of(words, keys, '.') ? NAMES_KEY : NO_SECRET;
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
    return length == strlen(wanted) && !strncmp(word, wanted, length);
}

/* True if the value after a telling name is no secret: it is a constant of a language, a number, or after --text-key
 * (not --key) a column's name.
 */
static bool is_harmless(enum naming naming, const char *name, const char *value, size_t length)
{
    static const char *const constants[] = {"None", "True", "False", "true", "false", "null", "str", NULL};
    for (size_t i = 0; constants[i]; i++)
        if (is_word(value, length, constants[i])) return true;
    if (naming != NAMES_KEY || !length) return naming == NO_SECRET;
    if (strspn(value, "0123456789") >= length) return true;
    return strspn(value, "abcdefghijklmnopqrstuvwxyz_-.") >= length && (*name != '-' || strncasecmp(name, "--key", 5));
}

/* Masks the password of each scheme://user:PASSWORD@host and user:PASSWORD@host:port. A long user name may itself be a
 * token. */
static void mask_urls(const struct marked *line, char *argument)
{
    for (char *at = argument; (at = strstr(at, "://"));) {
        bool is_web = at - argument >= 4 && (!strncmp(at - 4, "http", 4) || !strncmp(at - 4, "ttps", 4));
        at += 3;
        size_t authority = strcspn(at, "/?# \t\n\"'");
        char *host = memrchr(at, '@', authority), *colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
        char *user_end = colon ? colon : host;
        if (colon) mark(line, colon + 1, (size_t)(host - colon - 1));
        if (host && is_web && user_end - at >= TOKEN_USER) mark(line, at, (size_t)(user_end - at));
    }
    for (char *at = argument; (at = strchr(at, '@')); at++) {
        size_t host = 1 + strspn(at + 1, NAME_LETTERS);
        size_t port = host > 1 && at[host] == ':' ? strspn(at + host + 1, "0123456789") : 0;
        char *user = at;
        while (user > argument && at - user < LOGIN_MAX && !strchr(" \t\n\"'=/", user[-1]))
            user--;
        char *colon = memchr(user, ':', (size_t)(at - user));
        if (!port || !strchr("/ \t\n\"'", at[host + 1 + port])) continue;
        if (colon && colon > user && strspn(colon + 1, "0123456789,") < (size_t)(at - colon - 1))
            mark(line, colon + 1, (size_t)(at - colon - 1));
    }
}

static bool is_name_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '-' || letter == '.';
}

/* The beginning of the secret, after "Bearer" or a similar word. */
static char *behind_scheme(char *value)
{
    static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest ", "apikey "};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (!strncasecmp(value, schemes[i], strlen(schemes[i]))) return value + strlen(schemes[i]);
    return value;
}

/* Masks a value that follows `separator` after a secret's name, up to its end. The end is the closing quote, or in a
 * header ("Name: value") the line's end. Otherwise it is a character that ends values in JSON, a query, a list or a
 * shell. Returns the position to continue from. */
static char *mask_value(const struct marked *line, enum naming naming, const char *name, char *value, char separator)
{
    char quote = '\0';
    value += strspn(value, " \t\\$"); /* $'...' */
    bool is_escaped = value[-1] == '\\';
    if (*value == '"' || *value == '\'') quote = *value++;
    char closes = *value == '{' ? '}' : *value == '(' ? ')' : *value == '[' ? ']' : '\0';
    if (closes && !quote && naming == NAMES_SECRET && value[-1] != '$') { /* auth=("me", "..."), "auth": {"x": "..."} */
        size_t all = strcspn(value, (char[]){closes, '\0'});
        mark(line, value, all);
        return value + all;
    }
    bool is_header = separator == ':' && !quote;
    value = behind_scheme(value);
    const char ends[] = {quote, '\\', '\0'};
    size_t length = strcspn(value, quote ? ends : is_header ? "\r\n\"'}" : " \t\r\n&,;\"'})]");
    while (quote && !is_escaped && value[length] == '\\' && value[length + 1])
        length += 2 + strcspn(value + length + 2, ends);
    if (!is_harmless(naming, name, value, length)) mark(line, value, length);
    return value + length;
}

/* True for names of signatures in a URL's query; elsewhere these names are harmless. */
static bool signs_a_query(const char *name, size_t length)
{
    static const char *const names[] = {"sig", "signature", "key", "code", "credential", "hmac", "st", "policy", NULL};
    char words[2 * NAME_MAX];
    split_words(name, length, words);
    words[strlen(words) - 1] = '\0';
    return ends_in_one_of(words, names, '.');
}

/* Masks secrets within an argument, after their names: {"password": "..."}, Authorization: Bearer ..., a=1&token=...,
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
        bool is_quoted = name > argument && strchr("\"'", name[-1]) && strchr("\"'\\", *behind);
        bool is_argument = is_quoted && name - argument >= 2 && strchr("([", name[-2]) && behind[1] == ',';
        if (name > argument && name[-1] == '<' && *behind == '>') mark(line, behind + 1, strcspn(behind + 1, "<"));
        behind += strspn(behind, "\\\"']");
        behind += strspn(behind, " \t");
        char *value = behind + strspn(behind, ", \t\n\"'\\"); /* {"name": "TOKEN", "value": "..."} */
        if (is_quoted && *behind == ',' && !strncmp(value, "value", 5))
            behind = value + 5 + strspn(value + 5, " \t\"'\\");
        if (!strncasecmp(behind, "%3D", 3)) mark(line, behind + 3, strcspn(behind + 3, "%&# "));
        bool is_assigned = *behind == '=' || (*behind == ':' && behind[1] != ':' && strncmp(behind, "://", 3));
        if (is_assigned || is_argument) /* setdefault("TOKEN", "...") */
            at = mask_value(line, naming, name, behind + 1, *behind);
        else if (is_option && *behind && *behind != '-')
            at = mask_value(line, naming, name, behind, ' ');
    }
}

enum rule_kind {
    VALUE,    /* the option's value, in the next word or attached */
    ATTACHED, /* only an attached value: mysql -pSECRET */
    LOGIN,    /* an attached value USER:SECRET */
    BARE,     /* each word that is no option; of NAME=SECRET only the value */
    ORACLE,   /* each word USER/SECRET */
};

/* Commands that take secrets without a name. A rule has the words that must come before the secret, if any; URL stands
 * for any URL. Each word has blanks around it. */
static const struct command_rule {
    const char *commands, *option;
    enum rule_kind kind;
    const char *behind;
} rules[] = {
    {" wandb vault bw cargo ngrok rclone redis-cli valkey-cli ", "", BARE,
     " login unlock unseal put write authtoken add-authtoken obscure AUTH "},
    {" hf huggingface-cli comet modelscope swanlab ", "", BARE, " login "},
    {" fly flyctl heroku pulumi conda kaggle llm gh wrangler ", "", BARE, " set put config:set "},
    {" aws az databricks rabbitmqctl consul etcdctl ", "", BARE,
     " put put-secret put-secret-value put-parameter create-secret keyvault add_user change_password "},
    {" poetry composer ", "", BARE, " config "},
    {" mc mcli ", "", BARE, " URL add "},
    {" htpasswd wpa_passphrase ", "", BARE, NULL},
    {" sqlplus sqlldr sqlcl rman expdp impdp ", "", ORACLE, NULL},
    {" docker podman nerdctl buildah skopeo crane oras helm oc az twine poetry uv ", "-p", VALUE,
     " login upload publish "},
    {" sshpass mongo mongosh mongodump mongorestore cqlsh influx yt-dlp youtube-dl rdesktop useradd usermod ", "-p",
     VALUE, NULL},
    {" mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mariadb mariadb-dump mycli 7z 7za 7zr unrar ", "-p",
     ATTACHED, NULL},
    {" redis-cli valkey-cli ", "-a", VALUE, NULL},
    {" ldapsearch ldapmodify ldapadd ldapwhoami ", "-w", VALUE, NULL},
    {" zip unzip sqlcmd bcp ipmitool mosquitto_pub mosquitto_sub ssh-keygen ", "-P", VALUE, NULL},
    {" ssh-keygen ", "-N", VALUE, NULL},
    {" uv anaconda influx rancher hf huggingface-cli ", "-t", VALUE, NULL},
    {" openssl ", "-pass", VALUE, NULL},
    {" openssl ", "-passin", VALUE, NULL},
    {" openssl ", "-passout", VALUE, NULL},
    {" openssl openai nuget dotnet prefect ", "-k", VALUE, NULL},
    {" curl ", "-b", VALUE, NULL},
    {" curl lftp ", "-u", LOGIN, NULL},
    {" curl ", "-E", LOGIN, NULL},
    {" curl ", "--cert", LOGIN, NULL},
    {" curl smbclient rpcclient ", "-U", LOGIN, NULL},
    {" http https ", "-a", LOGIN, NULL},
    {" ab ", "-A", LOGIN, NULL},
};

/* State of reading one command of a line: facts from earlier words that matter for the next word. */
struct words {
    const struct command_rule *rule; /* the rule whose option was the previous word; NULL: none */
    char command[NAME_MAX];          /* the command with blanks around it; empty: not known */
    const char *name;                /* the previous word, if it is an option or setting that names a secret */
    size_t name_length;
    uint32_t open;      /* bit i: all words that rules[i] demands have come */
    bool set, of_user;  /* "set" came before; "--user" came before */
    bool in_line;       /* the command is in a shell's line, which may be prose */
    const char *echoed; /* the text that `echo` pipes into this command; NULL: none */
    size_t echoed_length;
};

static void mark_login(const struct marked *line, const char *word, size_t length, const char *separators)
{
    size_t user = 0;
    while (user < length && !strchr(separators, word[user]))
        user++;
    if (user + 1 == length)
        mark(line, word, user); /* a token as user name, without a password */
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
    *words = (struct words){.in_line = words->in_line, .echoed = words->echoed, .echoed_length = words->echoed_length};
    memcpy(words->command, padded, sizeof padded);
}

/* True if the rule is for the command, and the words that it demands have come. */
static bool is_open(const struct words *words, size_t rule)
{
    return *words->command && strstr(rules[rule].commands, words->command) &&
           (!rules[rule].behind || words->open >> rule & 1);
}

/* Opens the rules that demand this word. */
static void open_rules(struct words *words, const char *word, size_t length)
{
    char padded[NAME_MAX];
    const char *slash = memrchr(word, '/', length), *last = slash ? slash + 1 : word; /* auth/approle/login */
    if (memmem(word, length, "://", 3))
        strcpy(padded, " URL ");
    else
        snprintf(padded, sizeof padded, " %.*s ", (int)(length - (size_t)(last - word)), last);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].behind && strstr(rules[i].behind, padded)) words->open |= (uint32_t)1 << i;
}

/* "password VALUE" without dashes, as for nmcli, wifi-sec.psk and SQL. */
static bool is_bare_name(const char *word, size_t length)
{
    static const char *const names[] = {"password",   "passwd",     "passphrase",        "psk", "requirepass",
                                        "masterauth", "identified", "secret_access_key", NULL};
    char lower[NAME_MAX];
    if (length >= sizeof lower) return false;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    lower[length] = '\0';
    return ends_in_one_of(lower, names, '.');
}

/* True if a word after a bare name is not its value: a path, an option, or in a line the next word of a sentence.
 */
static bool is_no_value(const struct words *words, const char *word, size_t length)
{
    bool is_quoted = strchr("\"'", word[-1]) != NULL;
    if (strchr("-/.~$", *word) || word[length - 1] == '/') return true;
    return words->in_line && !is_quoted && strspn(word, "abcdefghijklmnopqrstuvwxyz,.?!") >= length;
}

/* True for "-phunter2" after a client that the table lacks: letters and digits, but not -pix_fmt or -p8080:80. */
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
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct command_rule *rule = &rules[i];
        size_t size = strlen(rule->option);
        if (!size || size > length || !is_open(words, i)) continue;
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

/* Marks a word that the command takes as a secret without an option. */
static bool take_bare(const struct marked *line, const struct words *words, const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].kind < BARE || !is_open(words, i)) continue;
        const char *equals = rules[i].kind == BARE ? memchr(word, '=', length) : NULL,
                   *value = equals ? equals + 1 : word;
        if (rules[i].kind == BARE)
            mark(line, value, length - (size_t)(value - word));
        else if (isalnum((unsigned char)*word))
            mark_login(line, word, length, "/");
        return true;
    }
    return false;
}

/* Marks the secret in a word, if earlier words show that the word has one. */
static void take_word(const struct marked *line, struct words *words, const char *word, size_t length)
{
    struct words before = *words;
    words->rule = NULL;
    words->name = NULL;
    words->set = words->of_user = false;
    bool is_option = *word == '-' && length > 1;
    bool reads_input = is_word(word, length, "--password-stdin") || is_word(word, length, "--with-token") ||
                       is_word(word, length, "login") ||
                       (is_word(word, length, "-S") && word - line->text >= 5 && !strncmp(word - 5, "sudo ", 5));
    if (before.echoed && reads_input) mark(line, before.echoed, before.echoed_length);
    if (before.name && is_bare_name(before.name, before.name_length)) {
        if (is_word(word, length, "by") || is_word(word, length, "BY") || strspn(word, "=:") >= length)
            words->name = before.name, words->name_length = before.name_length;
        else if (!is_no_value(words, word, length))
            mark(line, word, length);
        if (words->name || !is_no_value(words, word, length)) return;
    } else if (before.name && is_word(word, length, "=")) {
        words->name = before.name, words->name_length = before.name_length;
        return;
    } else if (before.name && strncmp(word, "--", 2)) {
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
    if (!is_option && take_bare(line, words, word, length)) {
        words->set = before.set;
    } else if (equals && is_name) {
        const char *value = equals + 1, *end = word + length;
        if (value + 1 < end && *value == end[-1] && strchr("\"'", *value)) value++, end--;
        enum naming naming = names_a_secret(word, named);
        if (!is_harmless(naming, word, value, (size_t)(end - value))) mark(line, value, (size_t)(end - value));
        if (!is_option) take_command(words, word, length); /* ProxyCommand=sshpass */
    } else if (is_option) {
        words->set = before.set; /* set -x NAME VALUE */
        if (take_option(line, words, word, length)) return;
        if (seems_attached_password(word, length)) mark(line, word + 2, length - 2);
        words->of_user =
            is_word(word, length, "-u") || is_word(word, length, "--user") || is_word(word, length, "--proxy-user");
    } else {
        words->set = is_word(word, length, "set") || is_word(word, length, "setenv");
        open_rules(words, word, length);
        take_command(words, word, length);
    }
    const char *name = memrchr(word, ':', length); /* npm config set //host/:_authToken */
    name = before.set && name ? name + 1 : word;
    size_t size = length - (size_t)(name - word);
    bool is_named = (is_option || before.set) && (is_name || before.set) && names_a_secret(name, size);
    if (!equals && (is_named || is_bare_name(name, size))) words->name = name, words->name_length = size;
}

/* The length of a shell's word up to `end`, including quoted parts without blanks: -p'SECRET', TOKEN="...". */
static size_t word_length(const char *word, const char *end)
{
    size_t length = strcspn(word, " \t\r\n;|&<>()\"'");
    while (length && word[length] && strchr("\"'", word[length])) {
        const char *quoted = word + length + 1, *closes = quoted + strcspn(quoted, " \t\r\n;|&<>()\"'");
        if (closes >= end || *closes != word[length]) break;
        length = (size_t)(closes + 1 - word) + strcspn(closes + 1, " \t\r\n;|&<>()\"'");
    }
    return length;
}

/* Begins the next command of a line. The previous command, between `begin` and `end`, may echo a text into it. */
static void begin_command(struct words *words, const char *begin, const char *end, const char *separator)
{
    *words = (struct words){.in_line = true};
    if (separator[0] != '|' || separator[1] == '|' || (strncmp(begin, "echo ", 5) && strncmp(begin, "printf ", 7)))
        return;
    const char *echoed = strchr(begin, ' ') + 1;
    if (echoed >= end) return; /* nothing */
    words->echoed = echoed;
    words->echoed_length = (size_t)(end - echoed);
}

/* Masks the words of a shell's line, as in sh -c '...'. `depth`: levels of quoted lines to follow. */
static void mask_line(const struct marked *line, char *argument, size_t bytes, int depth)
{
    struct words words = {.in_line = true};
    for (char *at = argument, *command = at; *at && at < argument + bytes;) {
        at += *at == '$' && at[1] == '\'';
        char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
        size_t length = quote ? strcspn(at, (char[]){quote, '\0'}) : word_length(at, argument + bytes);
        if (length) take_word(line, &words, at, length);
        if (quote && depth) mask_line(line, at, length, depth - 1);
        at += length;
        if (quote && *at) at++;
        char *end = at;
        while (*at && strchr(" \t\r", *at))
            at++;
        bool separates = *at && strchr(";|&\n(", *at);
        if (separates) begin_command(&words, command, end, at);
        while (*at && strchr(" \t\r\n;|&<>()", *at))
            at++;
        if (separates) command = at;
    }
}

void mp_command_line_mask(char *arguments)
{
    size_t bytes = 0, used = 0;
    while (arguments[bytes])
        bytes += strlen(arguments + bytes) + 1;
    const struct marked line = {.text = arguments, .marks = calloc(bytes + 1, 1)};
    struct words words = {0};
    bool in_pem = false; /* inside of a PEM block that a shell has split */
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
    char *method = strncmp(arguments, "ray::", 5) ? NULL : strrchr(arguments, '.'); /* of the call that runs just now */
    if (method) memset(method, 0, strlen(method));
    free(all);
}
