/* A process's name, and its command line for its recording, with all apparent secrets masked. Pure except for /proc;
 * any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/config.h"

/* The kernel's name for a process, harmless in a terminal; "": the process is gone. */
void mp_process_name(uint32_t pid, char name[MP_PROCESS_NAME]);
/* Replaces what could move a terminal, since a process chooses its own name. */
void mp_process_name_clean(char *name);

/* Reads the arguments of a process, each NUL-terminated, with an empty one at the end, cut to `room` (at least 2). An
 * empty argument becomes ''. The list is empty if the arguments cannot be read. Secrets are not masked. */
void mp_command_line_read(uint32_t pid, char *arguments, size_t room);

/* Replaces secrets by ***, in place; a secret of one or two letters by as many stars. If memory is short, removes all
 * arguments. Masked are:
 *
 * - an option or assignment with a telling name: --token VALUE, --db-password=VALUE, HF_TOKEN=VALUE, password VALUE
 * - the same within an argument: {"password": "VALUE"}, Bearer VALUE, ?sig=VALUE, a line for a shell
 * - a value that a command takes without a name for it: wandb login VALUE, mysql -pVALUE, curl -u USER:VALUE
 * - the password in a URL: postgres://user:VALUE@host
 * - tokens by shape, webhooks, PEM blocks: collect/recording/secret_shapes.h
 *
 * These stay: --max-tokens 512, --tokenizer NAME, --pad-token "<pad>". */
void mp_command_line_mask(char *arguments);

/* Reads and masks the arguments, then cuts them to `room`: a token that was cut first could not be recognised. */
void mp_command_line_masked(uint32_t pid, char *arguments, size_t room);
