#include "capture/python/calls.h"
#include "capture/python/memory.h"

/* Bytecode is read in units of one opcode and one argument. A loop ends with a jump back; it reaches from the jump's
 * target to the jump. */

enum { EXTENDED_ARG = 144, EXTENDED_ARG_QUICK = 34, LAST_OF_9_AND_10 = 121, JUMP_ABSOLUTE = 113 };

struct code_units {
    const unsigned char *bytes;
    uint32_t count;
};

/* How many units of data follow an instruction of 3.11, even a specialised one. */
static uint32_t data_units(unsigned char op)
{
    static const unsigned char
        units[256] = {[3 ... 8] = 1,     [13] = 1,        [14] = 1,         [16] = 1,   [17 ... 25] = 4,
                      [26 ... 29] = 2,   [39 ... 43] = 4, [47] = 5,         [48] = 5,   [55] = 5,
                      [56 ... 59] = 10,  [60] = 1,        [62] = 10,        [63] = 10,  [64 ... 67] = 1,
                      [72] = 1,          [73] = 1,        [76 ... 81] = 1,  [92] = 1,   [95] = 4,
                      [106] = 4,         [107] = 2,       [113] = 1,        [116] = 5,  [121] = 1,
                      [122] = 1,         [127] = 1,       [141] = 1,        [143] = 1,  [153] = 4,
                      [154] = 4,         [158] = 4,       [159] = 4,        [160] = 10, [166] = 1,
                      [168 ... 170] = 1, [171] = 4,       [177 ... 180] = 1};
    return units[op];
}

/* True for JUMP_BACKWARD, its quick form, and POP_JUMP_BACKWARD_IF_*. */
static bool jumps_back(unsigned char op)
{
    return op == 140 || op == 38 || (op >= 173 && op <= 176);
}

static bool is_extended(unsigned minor, unsigned char op)
{
    return op == EXTENDED_ARG || (minor == 11 && op == EXTENDED_ARG_QUICK);
}

/* The target of a jump instruction of 3.9 or 3.10, in units. UINT32_MAX for other instructions. */
static uint32_t absolute_target(unsigned minor, unsigned char op, uint32_t argument)
{
    bool jump = op == LAST_OF_9_AND_10 || (op >= JUMP_ABSOLUTE - 2 && op <= JUMP_ABSOLUTE + 2);
    return !jump ? UINT32_MAX : minor == 9 ? argument / 2 : argument;
}

bool mp_python_loops_known(const struct mp_python_layout *layout)
{
    return layout->minor <= 11;
}

static bool find_units(const struct mp_python_layout *layout, const char *code, struct code_units *units)
{
    if (!mp_python_loops_known(layout)) return false;
    bool inline_code = layout->code_bytecode != 0;
    const char *holder = inline_code ? code : mp_load_pointer(code, layout->code_bytes);
    int64_t size = mp_load_i64(holder, layout->object_size);
    units->bytes = (const unsigned char *)(inline_code ? code + layout->code_bytecode : holder + layout->bytes_data);
    units->count = (uint32_t)(inline_code ? size : size / 2);
    return size > 0 && size < INT32_MAX;
}

bool mp_python_loops(const struct mp_python_layout *layout, const char *code, uint32_t before, uint32_t position)
{
    struct code_units units;
    if (!find_units(layout, code, &units)) return true;
    uint32_t argument = 0;
    before /= 2;
    position /= 2;
    for (uint32_t i = 0; i < units.count;) {
        unsigned char op = units.bytes[(size_t)i * 2];
        argument = argument << 8 | units.bytes[(size_t)i * 2 + 1];
        uint32_t at = i, target = UINT32_MAX;
        i += 1 + (layout->minor == 11 ? data_units(op) : 0);
        if (is_extended(layout->minor, op)) continue;
        if (layout->minor < 11)
            target = absolute_target(layout->minor, op, argument);
        else if (jumps_back(op) && argument <= at + 1)
            target = at + 1 - argument;
        argument = 0;
        if (target <= before && target <= position && before <= at && position <= at) return true;
    }
    return false;
}
