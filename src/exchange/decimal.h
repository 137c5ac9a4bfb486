/* Numbers of JSON, which come as text so that none is rounded. Pure; any thread. */
#ifndef MP_EXCHANGE_DECIMAL_H
#define MP_EXCHANGE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number times 10^shift, cut to an integer: exact but for numbers with an exponent. False where it does not fit. */
bool mp_decimal_integer(const char *text, size_t length, unsigned shift, int64_t *number);
/* An address, which some write with a sign: its 64 bits. */
bool mp_decimal_address(const char *text, size_t length, int64_t *number);

#endif
