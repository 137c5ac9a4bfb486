/* A process's command line as a recording keeps it, without anything that looks like a secret. Pure except for /proc;
 * any thread. */
#ifndef MP_COLLECT_COMMAND_LINE_H
#define MP_COLLECT_COMMAND_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Reads the arguments of a process, each NUL-terminated, with an empty one at the end, cut to `room` (at least 2).
 * Empty where they cannot be read. Not masked. */
void mp_command_line_read(uint32_t pid, char *arguments, size_t room);

/* Replaces anything that looks like a secret by ***, in place; an argument gets shorter or keeps its length. Masked
 * are: - the value of an option or assignment whose name says so: --token VALUE, --db-password=VALUE, HF_TOKEN=VALUE,
 * --pass
 *    VALUE, --wandb_key VALUE; not --max-tokens 512 or --tokenizer NAME; -pVALUE, but for a number;
 * - likewise within an argument: {"password": "VALUE"}, Authorization: Bearer VALUE, ?token=VALUE, a line for a shell;
 * - the password of -u USER:PASSWORD, and in a URL: postgres://user:PASSWORD@host; - what begins as the access tokens
 * of well-known services do: hf_..., ghp_..., sk-... Of a secret of one or two letters as many stars are left. */
void mp_command_line_mask(char *arguments);

#endif
