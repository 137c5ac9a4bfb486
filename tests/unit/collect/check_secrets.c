/* Five secrets of each shape in command lines, of which none may stay, and arguments that look alike, of which all but
 * 10 must. */
#include "collect/session/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/recording/secret_shapes.h"
#include "unit/suite.h"

#define EACH 5 /* secrets of each shape, arguments of each likeness */

/* ^ ends an argument. {a20} is 20 random characters of a kind:
 *
 *     a   alphanumeric              b   base64
 *     l   lower case                w   alphanumeric, _ and -
 *     x   hexadecimal               u   upper case and digits
 *     n   digits */
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
    "nmcli^dev^wifi^connect^home^password^{l10}",
    "nmcli^con^mod^home^wifi-sec.psk^{a10}",
    "x^esecret_{a40}",
    "mc^alias^set^store^https://host:9000^{a20}^{a40}",
    "sqlplus^-S^scott/{a12}@//db:1521/x",
    "ngrok^config^add-authtoken^{w49}",
    "rclone^config^create^x^s3^secret_access_key^{a40}",
    "vault^operator^unseal^{a24}",
    "vault^kv^put^app^value={a20}",
    "twine^upload^-u^__token__^-p^{a20}",
    "cargo^login^cio{a32}",
    "redis-cli^AUTH^{a20}",
    "redis-server^--requirepass^{l12}",
    "gh^secret^set^NAME^--body^{a20}",
    "fly^secrets^set^NAME={a20}",
    "pulumi^config^set^--secret^name^{a20}",
    "htpasswd^-nbB^me^{a12}",
    "ssh-keygen^-N^{a12}^-f^id",
    "kaggle^config^set^-n^key^-v^{x32}",
    "aws^ssm^put-parameter^--name^n^--value^{a20}",
    "x^csk-{a48}",
    "x^tvly-{a32}",
    "x^pcsk_{a6}_{a50}",
    "x^phc_{a43}",
    "x^sbp_{x40}",
    "x^sb_secret_{w30}",
    "x^KGAT_{x32}",
    "x^--token-id=ak-{a22}",
    "x^123456789:AA{w33}",
    "x^1//0{w60}",
    "psql^-c^ALTER USER me WITH PASSWORD '{a12}'",
    "mysql^-e^CREATE USER me IDENTIFIED BY '{l12}'",
    "sh^-c^mysql -uroot -p'{l12}' db",
    "sh^-c^curl -u me:'{a16}' host",
    "sh^-c^echo -n {a20} | docker login -u me --password-stdin",
    "sh^-c^echo {l12} | sudo -S apt update",
    "sh^-c^printf {a20} | gh auth login --with-token",
    "curl^-x^me:{a12}@proxy.host:3128^https://host",
    "pip^install^-i^https://{a20}:@host/simple",
    "python^-c^requests.get(u, auth=(\"me\", \"{a16}\"))",
    "x^{\"auth\": {\"type\": \"x\", \"value\": \"{a16}\"}}",
    "x^{\"env\": [{\"name\": \"HF_TOKEN\", \"value\": \"{a16}\"}]}",
    "x^{\"pwd\": \"{a8}\\\"{a8}\"}",
    "x^<password>{a16}</password>",
    "x^https://host/?to=https%3A%2F%2Fh%2F%3Ftoken%3D{a16}",
    "x^HF_TOKEN_2={a16}",
    "x^DB_PASSWORD_PROD={l12}",
    "x^--secret-key-base^{a30}",
    "x^--token^=^{a16}",
    "huggingface-cli^login^{a24}",
    "sh^-c^hf auth login {a24} && comet login {a25}",
    "x^--dbpass^{l12}",
    "x^--config.secrets.openai={l12}",
    "curl^https://outlook.office.com/webhook/{x8}-{x4}-4{x3}@{x8}/IncomingWebhook/{x32}/{x8}",
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
    "mistralai/Mixtral-8x{n1}B-v0.1@main",
    "library/python:3.{n2}@sha256:{x64}",
    "registry:5000/img:{a6}@sha256:{x64}",
    "deepspeed^--include^host1:{n1},{n1}@host2:{n1}",
    "ssh^-L^{n4}:localhost:80^me@host",
    "--max-token^{n3}",
    "--prompt^What is the password for the {l8}?",
    "git^commit^-m^fix password {l6}",
    "grep^-rn^password^{l8}/",
    "sh^-c^echo {l8} | tee login.txt",
    "wandb^sync^run-2024{n4}_{n6}-{a8}",
    "hf^download^org/{a8}^--revision^{x40}",
    "vault^kv^get^app/{a8}",
    "mc^cp^a/{a8}^c/{a8}",
    "docker^run^--name^{a8}^img",
    "as-1b-instruct-{a6}",
    "re_train_{l8}_{n4}",
    "python^-c^login(name='{l8}', token=None)",
    "uv^run^-p^3.{n2}^{l8}.py",
    "passwords_{a8}",
    "huggingface-cli^download^org/{a8}^{l8}",
    "comet^upload^{a8}.zip",
    "--compass^{l8}",
    "--bypass={l6}",
    "--config.secrets.backend={l6}",
    "https://outlook.office.com/mail/{l8}-{l10}-{l8}",
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

START_TEST(paths_are_masked_by_shape)
{
    char *copy;
    ck_assert(mp_secret_shapes_without("/home/me/hf_abcdefghijklmnopqrstuvwx/t.py", 41, &copy));
    ck_assert_str_eq(copy, "/home/me/***/t.py");
    free(copy);
    ck_assert(mp_secret_shapes_without("/home/me/hf_cache/t.py", 22, &copy));
    ck_assert_ptr_null(copy);
}

/* Each was quadratic, some 30 s, in which the collector does nothing else; the suite's own limit ends it. */
START_TEST(no_line_holds_the_collector)
{
    enum { ALL = 256 << 10 };
    static const char *const repeated[] = {"sk-", "re_", "@", "a:@", "'a", "\\\"", "://"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        char *arguments = calloc(ALL + 2, 1);
        size_t length = strlen(repeated[i]);
        for (size_t at = 0; at + length <= ALL; at += length)
            memcpy(arguments + at, repeated[i], length);
        mp_command_line_mask(arguments);
        ck_assert_uint_gt(strlen(arguments), 0);
        free(arguments);
    }
}

MP_SUITE("secrets", no_line_holds_the_collector, paths_are_masked_by_shape, no_planted_secret_stays,
         arguments_that_look_alike_stay)
