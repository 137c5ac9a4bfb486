/* Reads a JSON text into values, as pickle.h does a pickle. One thread at a time. */
#ifndef MP_EXCHANGE_VALUES_JSON_H
#define MP_EXCHANGE_VALUES_JSON_H

#include "exchange/input.h"
#include "exchange/values.h"

/* *top is the value that the text stands for. Texts are kept up to MP_INPUT_WINDOW bytes. MP_DAMAGED, MP_NO_MEMORY,
 * MP_IO; the sentence names file and offset. */
enum mp_status mp_values_read_json(struct mp_input *input, struct mp_values *values, uint64_t *top,
                                   struct mp_error *error);

#endif
