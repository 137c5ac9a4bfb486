/*
 * libFuzzer target for what configures memprof: a byte that picks the command, then arguments, the file of --config and
 * the variable MEMPROF_CONF, apart by the byte 0xff. Understood settings are used as far as they need no recording.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/invocation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARGUMENTS 32

/* A copy up to the mark, NUL-terminated; moves on. */
static char *take_part(const uint8_t **data, size_t *size)
{
    const uint8_t *mark = *size ? memchr(*data, 0xff, *size) : NULL;
    size_t length = mark ? (size_t)(mark - *data) : *size;
    char *part = malloc(length + 1);
    if (!part) abort();
    memcpy(part, *data, length);
    part[length] = '\0';
    *data += length + (mark != NULL);
    *size -= length + (mark != NULL);
    return part;
}

static const struct mp_command *pick(uint8_t number)
{
    size_t count = 0;
    while (mp_commands[count])
        count++;
    return mp_commands[number % count];
}

static void check_values(const struct mp_invocation *invocation, size_t longest)
{
    for (int i = 0; i < MP_OPTIONS; i++)
        if (invocation->value[i] && strlen(invocation->value[i]) > longest) abort();
    mp_settings_name_origins(invocation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    size_t longest = size + 64;
    const struct mp_command *command = pick(*data++);
    size--;
    char *words = take_part(&data, &size), *file = take_part(&data, &size), *variable = take_part(&data, &size);
    char config[64], name[] = "command", option[] = "--config", *argv[ARGUMENTS + 4] = {name, option, config};
    int argc = 3, fd = memfd_create("config", MFD_CLOEXEC);
    snprintf(config, sizeof config, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, file, strlen(file)) < 0 || setenv("MEMPROF_CONF", variable, 1)) abort();
    char *rest = words;
    for (char *word; argc < ARGUMENTS && (word = strsep(&rest, "\n"));)
        if (*word) argv[argc++] = word;
    struct mp_invocation invocation;
    if (!mp_options_parse(command, argc, argv, &invocation)) check_values(&invocation, longest);
    mp_invocation_free(&invocation);
    close(fd);
    free(words);
    free(file);
    free(variable);
    return 0;
}
