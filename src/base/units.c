#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int decimals(double value)
{
    return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}

char *mp_format_bytes(char *to, uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(to, MP_UNIT_TEXT, "%u B", (unsigned)bytes);
        return to;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1023.5 && unit + 1 < sizeof names / sizeof *names; unit++)
        value /= 1024;
    snprintf(to, MP_UNIT_TEXT, "%.*f %s", decimals(value), value, names[unit]);
    return to;
}

char *mp_format_signed_bytes(char *to, int64_t bytes)
{
    char size[MP_UNIT_TEXT];
    uint64_t magnitude = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    snprintf(to, MP_UNIT_TEXT, "%c%.30s", bytes < 0 ? '-' : '+', mp_format_bytes(size, magnitude));
    return to;
}

char *mp_format_duration(char *to, uint64_t ns)
{
    static const struct {
        uint64_t below;
        double unit;
        const char *name;
    } scale[] = {{1000, 1, "ns"}, {1000000, 1e3, "us"}, {1000000000, 1e6, "ms"}, {UINT64_C(600000000000), 1e9, "s"}};
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++) {
        if (ns >= scale[i].below) continue;
        double value = (double)ns / scale[i].unit;
        snprintf(to, MP_UNIT_TEXT, "%.*f %s", i == 0 ? 0 : value >= 99.95 ? 0 : 1, value, scale[i].name);
        return to;
    }
    uint64_t minutes = (ns + UINT64_C(30000000000)) / UINT64_C(60000000000);
    if (minutes < 60)
        snprintf(to, MP_UNIT_TEXT, "%u min", (unsigned)minutes);
    else
        snprintf(to, MP_UNIT_TEXT, "%llu h %u min", (unsigned long long)(minutes / 60), (unsigned)(minutes % 60));
    return to;
}

char *mp_format_count(char *to, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *out = to;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) *out++ = ' ';
        *out++ = digits[i];
    }
    *out = '\0';
    return to;
}

struct unit {
    const char *name;
    double factor;
};

/* A number, then optional blanks and one of `units` (case ignored), then nothing. */
static bool parse_scaled(const char *text, const struct unit *units, size_t count, uint64_t *result)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || errno || !isfinite(value) || value < 0) return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(end, units[i].name)) continue;
        value *= units[i].factor;
        if (value >= 18446744073709549568.0) return false;
        *result = (uint64_t)(value + 0.5);
        return true;
    }
    return false;
}

bool mp_parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},           {"B", 1},           {"k", 1e3},           {"kB", 1e3},          {"M", 1e6},
        {"MB", 1e6},       {"G", 1e9},         {"GB", 1e9},          {"T", 1e12},          {"TB", 1e12},
        {"KiB", 1024.0},   {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    };
    return parse_scaled(text, units, sizeof units / sizeof *units, bytes);
}

bool mp_parse_duration(const char *text, uint64_t *ns)
{
    static const struct unit units[] = {
        {"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"min", 60e9}, {"m", 60e9}, {"h", 3600e9},
    };
    return parse_scaled(text, units, sizeof units / sizeof *units, ns);
}
