#include "capture/python/lines.h"

/* co_lnotab (3.9): pairs of (bytes, signed lines). Before its first instruction, a function counts as being on its
 * first line. */
static uint32_t line_of_pairs(const unsigned char *table, size_t size, uint32_t first_line, uint32_t instruction)
{
    uint32_t address = 0, line = first_line;
    for (size_t i = 0; i + 1 < size; i += 2) {
        address += table[i];
        if (instruction == MP_PYTHON_INSTRUCTION_UNKNOWN || address > instruction) break;
        line += (uint32_t)(int8_t)table[i + 1];
    }
    return line;
}

/* co_linetable of 3.10: pairs of (bytes, signed lines), each for the range that ends with it; -128 means "no line". */
static uint32_t line_of_ranges(const unsigned char *table, size_t size, uint32_t first_line, uint32_t instruction)
{
    enum { NO_LINE = -128 };
    if (instruction == MP_PYTHON_INSTRUCTION_UNKNOWN) return first_line;
    uint32_t end = 0, line = first_line;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int8_t delta = (int8_t)table[i + 1];
        end += table[i];
        if (delta != NO_LINE) line += (uint32_t)delta;
        if (instruction < end) return delta == NO_LINE ? 0 : line;
    }
    return 0;
}

struct cursor {
    const unsigned char *at, *end;
};

/* Reads six bits of each byte, lowest first. Bit 6 means that more bytes follow; bit 7 marks the begin of the next
 * entry. */
static uint32_t read_varint(struct cursor *cursor)
{
    uint32_t value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end && shift < 32; shift += 6) {
        unsigned char byte = *cursor->at++;
        value |= (uint32_t)(byte & 0x3f) << shift;
        if (!(byte & 0x40)) break;
    }
    return value;
}

static uint32_t read_signed_varint(struct cursor *cursor)
{
    uint32_t value = read_varint(cursor);
    return value & 1 ? 0 - (value >> 1) : value >> 1;
}

/* co_linetable since 3.11, as Objects/locations.md describes it. */
static uint32_t line_of_locations(const unsigned char *table, size_t size, uint32_t first_line, uint32_t instruction)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15, BYTES_PER_UNIT = 2 };
    if (instruction == MP_PYTHON_INSTRUCTION_UNKNOWN) return 0;
    struct cursor cursor = {table, table + size};
    uint32_t end = 0, line = first_line;
    while (cursor.at < cursor.end) {
        unsigned char head = *cursor.at++;
        unsigned kind = head >> 3 & 15;
        end += ((head & 7u) + 1) * BYTES_PER_UNIT;
        if (kind == NO_COLUMNS || kind == LONG)
            line += read_signed_varint(&cursor);
        else if (kind >= ONE_LINE && kind < NO_COLUMNS)
            line += kind - ONE_LINE;
        if (instruction < end) return kind == NONE ? 0 : line;
        while (cursor.at < cursor.end && !(*cursor.at & 0x80))
            cursor.at++;
    }
    return 0;
}

uint32_t mp_python_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first_line,
                        uint32_t instruction)
{
    if (minor <= 9) return line_of_pairs(table, size, first_line, instruction);
    if (minor == 10) return line_of_ranges(table, size, first_line, instruction);
    return line_of_locations(table, size, first_line, instruction);
}
