#include "exchange/decimal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool mp_decimal_integer(const char *text, size_t length, unsigned shift, int64_t *number)
{
    bool negative = length && *text == '-', fraction = false;
    uint64_t value = 0, most = negative ? UINT64_C(1) << 63 : INT64_MAX;
    for (size_t i = negative; i < length; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9') {
            char copy[64];
            if (length >= sizeof copy) return false;
            memcpy(copy, text, length);
            copy[length] = '\0';
            long double wide = strtold(copy, NULL);
            for (unsigned power = shift; power; power--)
                wide *= 10;
            if (!(wide > -9.2e18L && wide < 9.2e18L)) return false;
            *number = (int64_t)wide;
            return true;
        }
        if (fraction && !shift) continue;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text[i] - '0', &value))
            return false;
        shift -= fraction;
    }
    for (; shift; shift--)
        if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (value > most) return false;
    *number = negative ? (int64_t)-value : (int64_t)value;
    return true;
}

bool mp_decimal_address(const char *text, size_t length, int64_t *number)
{
    char copy[24], *end;
    if (length >= sizeof copy) return mp_decimal_integer(text, length, 0, number);
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (copy[strspn(copy, "-0123456789")]) return mp_decimal_integer(text, length, 0, number);
    errno = 0;
    unsigned long long value = strtoull(copy, &end, 10);
    *number = (int64_t)value;
    return !errno && !*end && (*copy != '-' || *number < 0 || !value);
}
