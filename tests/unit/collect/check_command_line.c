#include "collect/session/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

/* Arguments are written with spaces between them. */
static void check(const char *given, const char *wanted)
{
    char arguments[512] = {0}, shown[512] = {0};
    strcpy(arguments, given);
    for (char *at = arguments; *at; at++)
        if (*at == ' ') *at = '\0';
    mp_command_line_mask(arguments);
    for (const char *at = arguments; *at; at += strlen(at) + 1) {
        if (*shown) strcat(shown, " ");
        strcat(shown, at);
    }
    ck_assert_str_eq(shown, wanted);
}

START_TEST(values_of_options_that_say_so_are_masked)
{
    check("train --token abcdef --lr 1", "train --token *** --lr 1");
    check("train --hf-token=abcdef --lr 1", "train --hf-token=*** --lr 1");
    check("train --dbPassword abc.def x", "train --dbPassword *** x");
    check("env HF_TOKEN=abcdef WANDB_API_KEY=012345 python", "env HF_TOKEN=*** WANDB_API_KEY=*** python");
    check("x --api_key 12345 --secret-key=67890", "x --api_key *** --secret-key=***");
    check("x password:abc credentials.api.key=abcd", "x password:*** credentials.api.key=***");
    check("x --token", "x --token");
    check("x --pass X1 --wandb_key abc --api-key abcd --password -abc z",
          "x --pass ** --wandb_key *** --api-key *** --password *** z");
    check("mysql -psecret -P8080 -u me -u me:hunter2 db", "mysql -p*** -P8080 -u me -u me:*** db");
    check("x --client-secret=a --sshPrivateKey abc --jwt abc --authcookie x",
          "x --client-secret=* --sshPrivateKey *** --jwt *** --authcookie x");
    check("x --token --verbose abc", "x --token --verbose abc");
}

/* Arguments with blanks, one by one. */
static void check_one(const char *argument, const char *wanted)
{
    char arguments[1024] = "x";
    snprintf(arguments + 2, sizeof arguments - 3, "%s", argument);
    mp_command_line_mask(arguments);
    ck_assert_str_eq(arguments, "x");
    ck_assert_str_eq(arguments + 2, wanted);
}

START_TEST(secrets_within_an_argument_are_masked)
{
    check_one("Authorization: Bearer abcdef", "Authorization: Bearer ***");
    check_one("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***");
    check_one("X-Api-Key: abcdef", "X-Api-Key: ***");
    check_one("Cookie: a=b; c=d", "Cookie: ***");
    check_one("--header=Authorization: Bearer abcdef", "--header=Authorization: Bearer ***");
    check_one("{\"user\": \"me\", \"password\": \"hunter2\", \"lr\": 1}",
              "{\"user\": \"me\", \"password\": \"***\", \"lr\": 1}");
    check_one("{\"api_key\":\"abc\",\"wandb\":{\"wandb_key\":\"def\"}}",
              "{\"api_key\":\"***\",\"wandb\":{\"wandb_key\":\"***\"}}");
    check_one("{\\\"token\\\": \\\"abc def\\\", \\\"x\\\": 1}", "{\\\"token\\\": \\\"***\\\", \\\"x\\\": 1}");
    check_one("{'secret': 'it is', 'n': 2}", "{'secret': '***', 'n': 2}");
    check_one("export DB_PASSWORD=hunter2; run --lr 1", "export DB_PASSWORD=***; run --lr 1");
    check_one("python t.py --token abcdef --lr 1 && echo done", "python t.py --token *** --lr 1 && echo done");
    check_one("https://host/x?lr=1&access_token=abc&b=2", "https://host/x?lr=1&access_token=***&b=2");
    check_one("host=h user=me password='a b' dbname=x", "host=h user=me password='***' dbname=x");
    check_one("--conf=spark.token=abc,other=1", "--conf=spark.token=***,other=1");
    check_one("bearer abcdefghijkl", "bearer ***");
    check_one("git clone https://0123456789abcdef0123@host/r && curl http://me:pw1@h/",
              "git clone https://***@host/r && curl http://me:***@h/");
    check_one("a basic idea of tokens: use the key", "a basic idea of tokens: use the key");
    check_one("std::token::x monkey=abc max_tokens=4096", "std::token::x monkey=abc max_tokens=4096");
}

START_TEST(what_only_sounds_alike_is_kept)
{
    const char *const kept[] = {"train --tokenizer gpt2 --max-tokens 512 --num_tokens=77",
                                "train --token-dim 64 --author me --keyword=abc",
                                "train --monkey abc --turnkey=yes --key 5", "sk-learn --model sk-small hf_x",
                                "http://host/path?x=1 https://user@host:80/"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        check(kept[i], kept[i]);
}

START_TEST(passwords_in_addresses_are_masked)
{
    check("x --db=postgres://me:hunter2@host:5432/db?a=b", "x --db=postgres://me:***@host:5432/db?a=b");
    check("x https://me:p:w@rd@host/ y", "x https://me:***@host/ y");
}

START_TEST(tokens_of_services_are_masked_wherever_they_stand)
{
    check("x hf_abcdefghijklmnopqrstuvwx y", "x *** y");
    check("x --header=Bearer:ghp_0123456789abcdefghij0123456789abcdef,z y", "x --header=Bearer:***,z y");
    check("x sk-proj-0123456789abcdefghij.sk-proj-0123456789abcdefghij y", "x ***.*** y");
}

START_TEST(long_names_are_looked_at_from_their_end)
{
    char text[300] = "x --", wanted[300] = "x --";
    memset(text + 4, 'a', 200);
    memset(wanted + 4, 'a', 200);
    strcat(text, "-token=abcdef");
    strcat(wanted, "-token=***");
    check(text, wanted);
    check("", "");
}

START_TEST(nothing_of_a_secret_is_left_behind)
{
    char arguments[64] = "x\0--token\0hunter2hunter2\0y\0", none[64] = {0};
    mp_command_line_mask(arguments);
    ck_assert_mem_eq(arguments, "x\0--token\0***\0y\0", 17);
    ck_assert_mem_eq(arguments + 17, none, sizeof arguments - 17);
}

/* Random words with and without blanks; the sanitizers see what is read and written beyond the line. */
START_TEST(no_line_leads_beyond_itself)
{
    static const char *const words[] = {
        "-S",  "sudo",  "echo", "|",     "password", "=", "'",       "\"",  "{", "token", "--key", "by", "a@b:3306",
        "://", "login", "-p",   "mysql", "\\",       "(", "<token>", "%3D", "$", "sk-",   "@",     ":"};
    check_one("echo | sudo -S ls", "echo | sudo -S ls");
    check_one("echo abc | sudo -S ls", "echo *** | sudo -S ls");
    srand(1);
    for (int line = 0; line < 20000; line++) {
        char text[256];
        size_t used = 0;
        for (int left = 1 + rand() % 8; left; left--) {
            const char *word = words[(size_t)rand() % (sizeof words / sizeof *words)];
            used += (size_t)sprintf(text + used, "%s", word);
            if (rand() % 4) text[used++] = rand() % 3 ? '\0' : ' ';
        }
        text[used++] = '\0';
        text[used++] = '\0';
        char *own = malloc(used);
        ck_assert_ptr_nonnull(own);
        memcpy(own, text, used);
        mp_command_line_mask(own);
        free(own);
    }
}

START_TEST(a_process_tells_its_own)
{
    char arguments[4096], cut[4];
    mp_command_line_read((uint32_t)getpid(), arguments, sizeof arguments);
    ck_assert_ptr_nonnull(strstr(arguments, "check_command_line"));
    mp_command_line_read((uint32_t)getpid(), cut, sizeof cut);
    ck_assert_uint_eq(strlen(cut), 2);
    mp_command_line_read(UINT32_MAX, arguments, sizeof arguments);
    ck_assert_str_eq(arguments, "");
}

START_TEST(an_empty_argument_does_not_end_the_line)
{
    char arguments[4096] = "";
    int hold[2];
    ck_assert(!pipe(hold));
    pid_t child = fork();
    if (!child) {
        dup2(hold[0], 0);
        close(hold[1]);
        execl("/bin/sh", "sh", "-c", "read x", "", "--token", "hunter2", "", (char *)NULL);
        _exit(1);
    }
    for (int tries = 0; tries < 1000 && strcmp(arguments, "sh") != 0; tries++) {
        usleep(10000);
        mp_command_line_masked((uint32_t)child, arguments, sizeof arguments);
    }
    close(hold[1]);
    close(hold[0]);
    ck_assert_mem_eq(arguments, "sh\0-c\0read x\0''\0--token\0***\0\0", 31);
    waitpid(child, NULL, 0);
}

MP_SUITE("command line", an_empty_argument_does_not_end_the_line, values_of_options_that_say_so_are_masked,
         secrets_within_an_argument_are_masked, what_only_sounds_alike_is_kept, passwords_in_addresses_are_masked,
         tokens_of_services_are_masked_wherever_they_stand, long_names_are_looked_at_from_their_end,
         nothing_of_a_secret_is_left_behind, no_line_leads_beyond_itself, a_process_tells_its_own)
