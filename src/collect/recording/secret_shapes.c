#include "collect/recording/secret_shapes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MASK "***"
/* Only this many letters of a word decide whether it is a token, which bounds the time for a hostile "sk-sk-sk-...". */
#define LOOKED_AT 256

enum letters { HEX, ALNUM, WORD, DOTTED, BASE64, TO_BLANK };

/* Shapes of tokens with a fixed beginning, from the rules of gitleaks and detect-secrets. Least lengths are those of
 * these rules or shorter, since services change the lengths of their tokens. */
static const struct shape {
    const char *begins;
    unsigned char least; /* least number of letters after the beginning */
    unsigned char letters;
} shapes[] = {
    /* Models and their services */
    {"hf_", 20, ALNUM},
    {"api_org_", 20, ALNUM},
    {"sk-ant-", 16, WORD},
    {"sk-or-", 16, WORD},
    {"sk-", 17, WORD},
    {"gsk_", 20, ALNUM},
    {"xai-", 20, ALNUM},
    {"nvapi-", 20, WORD},
    {"r8_", 20, ALNUM},
    {"rpa_", 20, ALNUM},
    {"pplx-", 20, ALNUM},
    {"tgp_v1_", 20, WORD},
    {"fw_", 20, ALNUM},
    {"jina_", 20, ALNUM},
    {"lsv2_", 20, WORD},
    {"wandb_v1_", 20, WORD},
    {"local-", 32, HEX},
    {"esecret_", 16, ALNUM},
    {"csk-", 30, ALNUM},
    {"tvly-", 20, WORD},
    {"pcsk_", 20, WORD},
    {"llx-", 30, ALNUM},
    {"pa-", 40, WORD},
    {"fal_", 30, ALNUM},
    {"cohere_", 30, ALNUM},
    {"KGAT_", 32, HEX},
    {"ak-", 20, ALNUM},
    {"as-", 20, ALNUM},
    {"sk_", 48, HEX},
    {"sk_car_", 20, ALNUM},
    {"dapi", 32, HEX},
    {"ABSK", 60, BASE64},
    {"bedrock-api-key-", 20, BASE64},
    /* Clouds */
    {"AKIA", 16, ALNUM},
    {"ASIA", 16, ALNUM},
    {"ABIA", 16, ALNUM},
    {"ACCA", 16, ALNUM},
    {"A3T", 17, ALNUM},
    {"AIza", 30, WORD},
    {"GOCSPX-", 20, WORD},
    {"ya29.", 15, WORD},
    {"1//0", 20, WORD},
    {"AKID", 32, ALNUM},
    {"AKLT", 40, ALNUM},
    {"sbp_", 40, HEX},
    {"sb_secret_", 20, WORD},
    {"vcp_", 20, ALNUM},
    {"vercel_blob_rw_", 20, WORD},
    {"nfp_", 36, ALNUM},
    {"napi_", 40, ALNUM},
    {"rnd_", 24, ALNUM},
    {"dt0c01.", 24, DOTTED},
    {"LTAI", 16, ALNUM},
    {"dop_v1_", 32, HEX},
    {"doo_v1_", 32, HEX},
    {"dor_v1_", 32, HEX},
    {"HRKU-", 20, WORD},
    {"fo1_", 20, WORD},
    {"fm1a_", 20, BASE64},
    {"fm1r_", 20, BASE64},
    {"fm2_", 20, BASE64},
    {"sha256~", 40, WORD},
    {"hvs.", 20, WORD},
    {"hvb.", 20, WORD},
    {"pul-", 32, HEX},
    {"pscale_", 20, DOTTED},
    {"dp.pt.", 20, ALNUM},
    {"dp.st.", 20, DOTTED},
    {"tskey-", 16, WORD},
    {"AGE-SECRET-KEY-1", 40, ALNUM},
    {"ops_eyJ", 20, BASE64},
    {"A3-", 30, WORD},
    /* Code and packages */
    {"ghp_", 20, ALNUM},
    {"gho_", 20, ALNUM},
    {"ghu_", 20, ALNUM},
    {"ghs_", 20, ALNUM},
    {"ghr_", 20, ALNUM},
    {"github_pat_", 20, WORD},
    {"glpat-", 14, DOTTED},
    {"gldt-", 16, WORD},
    {"glrt-", 16, DOTTED},
    {"glcbt-", 16, WORD},
    {"glptt-", 16, WORD},
    {"glft-", 16, WORD},
    {"glsoat-", 16, WORD},
    {"gloas-", 16, WORD},
    {"glagent-", 16, WORD},
    {"glimt-", 16, WORD},
    {"glffct-", 16, WORD},
    {"GR1348941", 16, WORD},
    {"ATATT3", 20, BASE64},
    {"ATBB", 24, ALNUM},
    {"ATCTT3", 20, BASE64},
    {"CCIPAT_", 20, WORD},
    {"bkua_", 40, HEX},
    {"figd_", 20, WORD},
    {"squ_", 40, HEX},
    {"sqp_", 40, HEX},
    {"sqa_", 40, HEX},
    {"cio", 32, ALNUM},
    {"b3BlbnNzaC1rZXkt", 20, BASE64}, /* "openssh-key-" */
    {"npm_", 20, ALNUM},
    {"pypi-", 20, WORD},
    {"rubygems_", 20, HEX},
    {"oy2", 43, ALNUM},
    {"dckr_pat_", 16, WORD},
    {"dckr_oat_", 16, WORD},
    {"AKCp", 30, ALNUM},
    {"cmVmd", 50, ALNUM},
    {"sgp_", 30, WORD},
    {"lin_api_", 20, ALNUM},
    {"PMAK-", 20, WORD},
    {"rdme_", 32, ALNUM},
    {"pnu_", 30, ALNUM},
    {"sntryu_", 32, HEX},
    {"sntrys_", 20, BASE64},
    {"glc_", 32, BASE64},
    {"glsa_", 20, WORD},
    {"NRAK-", 20, ALNUM},
    {"ntn_", 30, ALNUM},
    {"secret_", 40, ALNUM},
    /* Payment, mail and chat */
    {"sk_live_", 10, ALNUM},
    {"sk_test_", 10, ALNUM},
    {"sk_prod_", 10, ALNUM},
    {"rk_live_", 10, ALNUM},
    {"rk_test_", 10, ALNUM},
    {"whsec_", 20, BASE64},
    {"sq0atp-", 20, WORD},
    {"sq0csp-", 20, WORD},
    {"shpat_", 30, HEX},
    {"shpca_", 30, HEX},
    {"shppa_", 30, HEX},
    {"shpss_", 30, HEX},
    {"SG.", 40, DOTTED},
    {"key-", 32, HEX},
    {"xkeysib-", 40, WORD},
    {"SK", 32, HEX},
    {"xoxa-", 8, WORD},
    {"xoxb-", 15, WORD},
    {"xoxe-", 15, WORD},
    {"xoxe.", 15, DOTTED},
    {"xoxo-", 15, WORD},
    {"xoxp-", 15, WORD},
    {"xoxr-", 8, WORD},
    {"xoxs-", 15, WORD},
    {"xapp-", 15, WORD},
    {"EAA", 80, ALNUM},
    {"phc_", 40, ALNUM},
    {"phx_", 40, ALNUM},
    {"re_", 20, WORD},
    {":AA", 33, WORD}, /* Telegram: after the bot's number */
    /* Tokens of any service */
    {"eyJ", 17, DOTTED},
    {"hooks.slack.com/", 20, TO_BLANK},
    {"discord.com/api/webhooks/", 20, TO_BLANK},
    {"discordapp.com/api/webhooks/", 20, TO_BLANK},
    {"webhook.office.com/", 20, TO_BLANK},
    {"outlook.office.com/webhook/", 20, TO_BLANK},
    {"outlook.office365.com/webhook/", 20, TO_BLANK},
    {"api.telegram.org/bot", 20, TO_BLANK},
};

static bool belongs(unsigned char letter, unsigned letters)
{
    switch (letters) {
    case HEX:
        return isxdigit(letter);
    case ALNUM:
        return isalnum(letter);
    case WORD:
        return isalnum(letter) || letter == '_' || letter == '-';
    case DOTTED:
        return isalnum(letter) || (letter && strchr("_-.=", letter));
    case BASE64:
        return isalnum(letter) || (letter && strchr("_-+/=", letter));
    default:
        return letter && !strchr(" \t\r\n\"'`<>|;", letter);
    }
}

/* True if the text looks like a token: it has 20 letters and digits in a row, or 6 with at least one of each. Words in
 * lower case, as in sk-learn-contrib-models, do not. */
static bool looks_random(const char *text, size_t length)
{
    size_t run = 0;
    bool digits = false, others = false;
    for (size_t i = 0; i < length; i++) {
        unsigned char letter = (unsigned char)text[i];
        if (!isalnum(letter)) {
            run = 0, digits = others = false;
            continue;
        }
        run++;
        if (isdigit(letter))
            digits = true;
        else
            others = true;
        if (run >= 20 || (run >= 6 && digits && others)) return true;
    }
    return false;
}

/* True if a word begins at `at`, where a token may begin. A word may follow an escape of shells, JSON or URLs: \nTOKEN,
 * %20TOKEN. */
static bool begins_word(const char *text, const char *at)
{
    if (at == text || !isalnum((unsigned char)*at) || !isalnum((unsigned char)at[-1])) return true;
    if (at - text >= 2 && at[-2] == '\\') return true;
    return at - text >= 3 && at[-3] == '%' && isxdigit((unsigned char)at[-2]) && isxdigit((unsigned char)at[-1]);
}

/* The length of the token at the beginning of `text`; 0: none. */
static size_t token_length(const char *text)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t begin = strlen(shapes[i].begins), length = begin;
        if (*text != *shapes[i].begins || strncmp(text, shapes[i].begins, begin)) continue;
        while (length < LOOKED_AT && belongs((unsigned char)text[length], shapes[i].letters))
            length++;
        if (length - begin < shapes[i].least || !looks_random(text + begin, length - begin)) continue;
        while (belongs((unsigned char)text[length], shapes[i].letters))
            length++;
        return length;
    }
    return 0;
}

/* The length of the PEM block at the beginning of `text`, even if its end is missing; 0: none. */
static size_t pem_length(const char *text)
{
    static const char begin[] = "-----BEGIN ", end[] = "-----END ";
    if (strncmp(text, begin, sizeof begin - 1)) return 0;
    const char *behind = strstr(text, end), *last = behind ? strstr(behind + sizeof end - 1, "-----") : NULL;
    return last ? (size_t)(last - text) + 5 : strlen(text);
}

/* The length of the secret that begins at `at`; 0: none. */
static size_t secret_length(const char *text, const char *at)
{
    size_t length = *at == '-' ? pem_length(at) : 0;
    return !length && begins_word(text, at) ? token_length(at) : length;
}

void mp_secret_shapes_mark(const char *text, char *marks)
{
    for (const char *at = text; *at;) {
        size_t length = secret_length(text, at);
        memset(marks + (at - text), 1, length);
        at += length ? length : 1;
    }
}

size_t mp_secret_shapes_mask(char *text, const char *marks)
{
    size_t used = 0, run = 0;
    for (size_t i = 0; text[i]; i++) {
        run = marks[i] ? run + 1 : 0;
        if (run <= strlen(MASK)) text[used++] = run ? *MASK : text[i];
    }
    text[used] = '\0';
    return used;
}

bool mp_secret_shapes_without(const char *text, size_t length, char **copy)
{
    const char *at = text;
    while (*at && !secret_length(text, at))
        at++;
    *copy = *at ? calloc(2, length + 1) : NULL; /* for the text and the marks */
    if (!*copy) return !*at;
    memcpy(*copy, text, length);
    mp_secret_shapes_mark(text, *copy + length + 1);
    mp_secret_shapes_mask(*copy, *copy + length + 1);
    return true;
}
