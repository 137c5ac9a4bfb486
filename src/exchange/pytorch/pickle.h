/*
 * Reads a Python pickle of plain data: protocols 2 to 5, dictionaries, lists, tuples, texts, numbers. Opcodes that
 * import, call or build anything are refused, so nothing in a file is ever executed. The error names opcode and offset.
 * The file's size bounds memory and time. One thread at a time.
 */
#pragma once

#include "exchange/common/input.h"
#include "exchange/common/values.h"

/* True if `data`, the beginning of a file, is that of a pickle with a protocol number (2 and later). */
bool mp_pickle_begins(const unsigned char *data, size_t size);

/* Reads to STOP; *top is the pickled value. Texts are kept up to MP_INPUT_WINDOW bytes. MP_DAMAGED, MP_UNSUPPORTED,
 * MP_IO; the sentence names file and offset. */
enum mp_status mp_pickle_read(struct mp_input *input, struct mp_values *values, uint64_t *top, struct mp_error *error);
