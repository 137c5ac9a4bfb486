/* Five secrets of each shape in command lines, of which none may stay, and 220 arguments that look alike, of which at
 * least 210 must. */
#include "collect/session/collector_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/recording/secret_shapes.h"
#include "unit/suite.h"

#define EACH 5 /* secrets of each shape, arguments of each likeness */

/* ^ ends an argument; {a20} is 20 random letters: a alphanumeric, l lower case, x hexadecimal, b base64, w with _ and
 * -, u upper case and digits, n digits. */
static const char *const secret_shapes[] = {
    "train^--jwt-less^eyJhbGciOiJIUzI1NiJ9.{w40}.{w43}",
    "curl^https://maps/api?x=AIza{w35}",
    "npm^publish^npm_{a36}",
    "twine^upload^pypi-AgEIcHlwaS5vcmc{w60}",
    "pay^sk_live_{a24}",
    "x^--groq=gsk_{a52}",
    "x^nvapi-{w64}",
    "x^r8_{a37}",
    "x^rpa_{u40}",
    "x^dckr_pat_{w27}",
    "x^dop_v1_{x64}",
    "x^local-{x40}",
    "x^--cert=-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b64}\n-----END RSA PRIVATE KEY-----",
    "x^postgres://me:{a20}@host:5432/db",
    "wget^https://host.blob/x?sv=2024&sig={a44}%3D&se=1",
    "wget^https://s3.host/x?X-Amz-Date=2024&X-Amz-Signature={x64}",
    "wget^https://host/x?token={a20}&page=2",
    "x^https://hooks.slack.com/services/T0{u9}/B0{u9}/{a24}",
    "wandb^login^{x40}",
    "wandb^login^--relogin^--host^https://w^{x40}",
    "sshpass^-p^{a10}^ssh^host",
    "curl^-u^me:{a16}^https://host/",
    "curl^--user=me:{a16}^https://host/",
    "curl^-ume:{a16}^https://host/",
    "curl^-u^{a20}:^https://host/",
    "mysql^-p{l12}^db",
    "mysqldump^-p{n8}^db",
    "docker^login^-u^me^-p^{a16}^host",
    "x^--bearer^{a16}",
    "x^--key^{l16}",
    "x^--pw^{l10}",
    "x^--pass-phrase^{l10}",
    "sh^-c^cd x && wandb login {x40} && python t.py",
    "bash^-lc^sshpass -p '{l10}' ssh host",
    "sh^-c^echo hi; mysql -p{l10} db | docker login -u me --password {a12}",
    "openssl^enc^-pass^pass:{a12}",
    "npm^config^set^//host/:_authToken^{a36}",
    "aws^configure^set^aws_secret_access_key^{b40}",
    "python^-c^import os; os.environ['MY_TOKEN']='{a20}'; print(1)",
    "redis-cli^-h^host^-a^{a16}",
    "sh^-c^sh -c \"sshpass -p {l10} ssh host\"",
    "sh^-c^bash -c 'curl -u me:{a16} host'",
    "sh^-c^python t.py --token $'{l12}'",
    "ssh^-o^ProxyCommand=sshpass -p {l10} ssh gate^host",
    "curl^-sSLu^me:{a16}^host",
    "curl^--cert^cert.pem:{a16}^host",
    "fish^-c^set -x HF_TOKEN {a16}; python t.py",
    "csh^-c^setenv HF_TOKEN {a16}; python t.py",
    "python^-c^os.environ.setdefault(\"API_KEY\", \"{a16}\")",
    "python^-c^wandb.login(key='x{n6}{a16}')",
    "kubectl^create^secret^generic^x^--from-literal=value={a16}",
    "keytool^-storepass^{l10}",
    "x^--cred^{l10}",
};

static const char *const harmless[] = {
    "{x40}",
    "{x64}",
    "sha256:{x64}",
    "{x8}-{x4}-{x4}-{x4}-{x12}",
    "--revision={x40}",
    "run-2024{n4}_{n6}-{a8}",
    "meta-llama/Llama-3.{n1}-8B-Instruct",
    "sk-learn-contrib-large-model-v{n1}",
    "hf_transformers_cache_dir_{l6}",
    "npm_config_cache_folder_{l6}",
    "pypi-mirror-of-{l8}",
    "local-{l8}-mirror",
    "--tokenizer^{l8}",
    "--max-tokens^{n4}",
    "--pad-token^<{l3}>",
    "--eos_token=</{l1}>",
    "--text-key^{l7}",
    "--sort-key={l5}",
    "--monkey^{a8}",
    "--author^{l8}",
    "--keyword={l6}",
    "-pix_fmt^yuv{n3}p",
    "docker^run^-p^{n4}:80",
    "docker^run^-u^{n4}:{n4}",
    "--save-path^/data/{a10}/{a12}",
    "s3://bucket-{a6}/run/{x32}",
    "https://host/{a20}?page={n2}&lr=1e-4",
    "checkpoint-{n6}/model.safetensors",
    "gs://{l6}/{x40}.ckpt",
    "--ids^{n8},{n8}",
    "mkdir^-pv^{a8}",
    "--resume^{a8}-{a8}",
    "--seed^{n9}",
    "--token-dim^{n3}",
    "-Dpath.{l6}={a10}",
    "--signature-version^v{n1}",
    "ghp_{l4}.py",
    "AKIA-{l6}",
    "task-{x8}-{x8}-{x8}",
    "--config=cfg_{a6}/{l8}.yaml",
    "python^-c^sorted(rows, key='{l8}')",
    "sh^-c^set -e; python t.py 'hello {l8}' --lr=1e-{n1}",
    "curl^-sSfL^https://host/{a10}^-o^{l8}.tgz",
    "python^-c^d.get(\"key\", \"{l8}\")",
};

static uint64_t state = 1;

static char random_letter(char of)
{
    static const char all[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_+/";
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t r = (uint32_t)(state >> 33);
    switch (of) {
    case 'n':
        return all[r % 10];
    case 'x':
        return all[r % 16];
    case 'l':
        return all[10 + r % 26];
    case 'u':
        return r % 36 < 10 ? all[r % 36] : all[26 + r % 36];
    case 'w':
        return all[r % 64];
    case 'b':
        return r % 64 < 62 ? all[r % 64] : all[2 + r % 64];
    default:
        return all[r % 62];
    }
}

/* Makes the arguments of a shape; its random parts, NUL-terminated each, are the secrets. */
static void make(const char *shape, char *arguments, char *secrets)
{
    while (*shape) {
        char of;
        int length, used;
        if (sscanf(shape, "{%c%d}%n", &of, &length, &used) == 2) {
            for (; length; length--)
                *arguments++ = *secrets++ = random_letter(of);
            *secrets++ = '\0';
            shape += used;
        } else {
            *arguments++ = *shape == '^' ? '\0' : *shape;
            shape++;
        }
    }
    arguments[0] = arguments[1] = secrets[0] = '\0';
}

/* The arguments as one line. */
static void join(const char *arguments, char *line)
{
    for (*line = '\0'; *arguments; arguments += strlen(arguments) + 1)
        strcat(strcat(line, arguments), "^");
}

START_TEST(no_planted_secret_stays)
{
    char arguments[1024], secrets[1024], line[1024], given[1024];
    for (size_t i = 0; i < EACH * sizeof secret_shapes / sizeof *secret_shapes; i++) {
        make(secret_shapes[i / EACH], arguments, secrets);
        join(arguments, given);
        mp_command_line_mask(arguments);
        join(arguments, line);
        ck_assert_msg(strstr(line, "***") != NULL, "%s: %s", given, line);
        for (const char *secret = secrets; *secret; secret += strlen(secret) + 1)
            for (size_t at = 0; at + 4 <= strlen(secret); at++)
                if (at + 8 <= strlen(secret) || strlen(secret) < 8) {
                    char part[16];
                    snprintf(part, sizeof part, "%.8s", secret + at);
                    ck_assert_msg(!strstr(line, part), "%s: %s", given, line);
                }
    }
}
END_TEST

START_TEST(arguments_that_look_alike_stay)
{
    char arguments[1024], secrets[1024], line[1024], given[1024];
    unsigned masked = 0;
    for (size_t i = 0; i < EACH * sizeof harmless / sizeof *harmless; i++) {
        make(harmless[i / EACH], arguments, secrets);
        join(arguments, given);
        mp_command_line_mask(arguments);
        join(arguments, line);
        if (strcmp(line, given)) printf("%u: %s became %s\n", ++masked, given, line);
    }
    ck_assert_uint_le(masked, 10);
}
END_TEST

START_TEST(paths_are_masked_by_shape)
{
    char *copy;
    ck_assert(mp_secret_shapes_without("/home/me/hf_abcdefghijklmnopqrstuvwx/t.py", 41, &copy));
    ck_assert_str_eq(copy, "/home/me/***/t.py");
    free(copy);
    ck_assert(mp_secret_shapes_without("/home/me/hf_cache/t.py", 22, &copy));
    ck_assert_ptr_null(copy);
}
END_TEST

MP_SUITE("secrets", paths_are_masked_by_shape, no_planted_secret_stays, arguments_that_look_alike_stay)
