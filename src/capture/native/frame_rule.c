/* Sources of the format: the Linux Standard Base ("Exception Frames"), DWARF 5, section 6.4, and the System V ABI for
 * AMD64, figure 3.36. */
#include "capture/native/frame_rule.h"

#include <stddef.h>
#include <string.h>

#include "capture/native/loaded.h"

enum { REGISTER_BP = 6, REGISTER_SP = 7, REGISTER_RETURN = 16, RETURN_OFFSET = -8, REMEMBERED_MAX = 8 };
enum { ABSOLUTE = 0x00, U4 = 0x03, U8 = 0x04, S4 = 0x0b, S8 = 0x0c, PC_RELATIVE = 0x10, SORTED_TABLE = 0x3b };

/* Reads a module's tables. If another thread may unload the module, it reads through the kernel, several bytes at
 * once. */
struct memory {
    bool by_kernel;
    uintptr_t from;
    size_t count;
    unsigned char bytes[128];
};

static bool fetch(struct memory *memory, void *to, uintptr_t from, size_t bytes)
{
    enum { PAGE = 4096 };
    if (!memory->by_kernel) {
        memcpy(to, (const void *)from, bytes); /* NOLINT(performance-no-int-to-ptr) */
        return true;
    }
    for (size_t done = 0, part; done < bytes; done += part, from += part) {
        if (from - memory->from >= memory->count) {
            size_t in_page = PAGE - from % PAGE;
            memory->from = from;
            memory->count = in_page < sizeof memory->bytes ? in_page : sizeof memory->bytes;
            if (!mp_read_memory(memory->bytes, from, memory->count)) memory->count = 0;
            if (!memory->count) return false;
        }
        size_t known = memory->from + memory->count - from;
        part = bytes - done < known ? bytes - done : known;
        memcpy((unsigned char *)to + done, memory->bytes + (from - memory->from), part);
    }
    return true;
}

struct cursor {
    struct memory *memory;
    uintptr_t at, end;
    bool bad; /* a read went past the end, or its memory is unmapped: all further reads give 0 */
};

/* Skips bytes and returns their address. 0: fewer bytes are left. */
static uintptr_t pass_bytes(struct cursor *cursor, uint64_t bytes)
{
    if (bytes > cursor->end - cursor->at) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return 0;
    }
    cursor->at += bytes;
    return cursor->at - bytes;
}

static bool take_bytes(struct cursor *cursor, void *to, size_t bytes)
{
    uintptr_t from = pass_bytes(cursor, bytes);
    if (from && !fetch(cursor->memory, to, from, bytes)) {
        cursor->bad = true;
        cursor->at = cursor->end;
    }
    return from && !cursor->bad;
}

static uint64_t take_number(struct cursor *cursor, size_t bytes)
{
    uint64_t value = 0;
    return take_bytes(cursor, &value, bytes) ? value : 0;
}

static bool take_expected(struct cursor *cursor, const unsigned char *expected, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (take_number(cursor, 1) != expected[i] || cursor->bad) return false;
    return true;
}

static uint64_t take_leb(struct cursor *cursor, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    for (unsigned char byte; take_bytes(cursor, &byte, 1); shift += 7) {
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (is_signed && byte & 0x40 && shift + 7 < 64) value |= UINT64_MAX << (shift + 7);
        break;
    }
    return value;
}

/* Reads an address in one of the usual encodings. Other encodings make the cursor bad. */
static uintptr_t take_pointer(struct cursor *cursor, unsigned encoding)
{
    uintptr_t base = (encoding & 0x70) == PC_RELATIVE ? cursor->at : 0;
    if (encoding & 0x80 || (encoding & 0x70 && (encoding & 0x70) != PC_RELATIVE)) cursor->bad = true;
    switch (encoding & 0x0f) {
    case ABSOLUTE:
    case U8:
    case S8:
        return base + take_number(cursor, 8);
    case U4:
        return base + take_number(cursor, 4);
    case S4:
        return base + (uintptr_t)(int64_t)(int32_t)take_number(cursor, 4);
    default:
        cursor->bad = true;
        return 0;
    }
}

/* Finds the frame description for an address in the sorted table of an .eh_frame_hdr; 0: there is none. */
static uintptr_t search(struct memory *memory, uintptr_t header, uintptr_t address)
{
    struct entry {
        int32_t start, description;
    } entry;
    enum { HEADER_BYTES = 4 };
    unsigned char forms[HEADER_BYTES];
    if (!header || !fetch(memory, forms, header, sizeof forms)) return 0;
    if (forms[0] != 1 || forms[3] != SORTED_TABLE || forms[2] != U4) return 0;
    struct cursor cursor = {memory, header + HEADER_BYTES, header + HEADER_BYTES + 16, false};
    take_pointer(&cursor, forms[1]);
    uint64_t count = take_number(&cursor, 4), low = 0;
    if (cursor.bad || !count) return 0;
    int64_t wanted = (int64_t)(address - header);
    for (uint64_t high = count; high - low > 1;) {
        uint64_t middle = low + (high - low) / 2;
        if (!fetch(memory, &entry, cursor.at + middle * sizeof entry, sizeof entry)) return 0;
        if (entry.start <= wanted)
            low = middle;
        else
            high = middle;
    }
    if (!fetch(memory, &entry, cursor.at + low * sizeof entry, sizeof entry)) return 0;
    return entry.start <= wanted ? header + (uintptr_t)(intptr_t)entry.description : 0;
}

/* DWARF's CIE: what several frame descriptions have in common. */
struct shared {
    struct cursor instructions;
    uint64_t code_unit;
    int64_t data_unit;
    unsigned encoding;
    bool has_augmentation, is_signal;
};

/* Past the end of the descriptions, a length field may hold anything. */
static struct cursor open_entry(struct memory *memory, uintptr_t at)
{
    enum { LONGEST = 1 << 16 };
    uint32_t length;
    bool usable =
        fetch(memory, &length, at, sizeof length) && length < UINT32_MAX && (!memory->by_kernel || length <= LONGEST);
    at += sizeof length;
    return (struct cursor){memory, at, usable ? at + length : at, !usable};
}

/* Reads the augmentation text up to its 0. Letters that do not fit are ignored: no known augmentation is so long. */
static void take_augmentation(struct cursor *cursor, char *letters, size_t room)
{
    size_t length = 0;
    for (char letter; take_bytes(cursor, &letter, 1) && letter; length++)
        if (length < room - 1) letters[length] = letter;
    letters[length < room ? length : room - 1] = '\0';
}

static bool read_shared(struct memory *memory, uintptr_t at, struct shared *shared)
{
    enum { LETTERS = 8 };
    char letters[LETTERS], *augmentation = letters;
    struct cursor cursor = open_entry(memory, at);
    *shared = (struct shared){.encoding = ABSOLUTE};
    uint64_t id = take_number(&cursor, 4), version = take_number(&cursor, 1);
    if (id || (version != 1 && version != 3)) return false;
    take_augmentation(&cursor, letters, sizeof letters);
    shared->code_unit = take_leb(&cursor, false);
    shared->data_unit = (int64_t)take_leb(&cursor, true);
    uint64_t return_register = version == 1 ? take_number(&cursor, 1) : take_leb(&cursor, false);
    if (cursor.bad || return_register != REGISTER_RETURN || (*augmentation && *augmentation != 'z')) return false;
    shared->has_augmentation = *augmentation == 'z';
    uintptr_t end = cursor.at;
    if (shared->has_augmentation) {
        uint64_t length = take_leb(&cursor, false);
        if (length > cursor.end - cursor.at) return false;
        end = cursor.at + length;
        while (*++augmentation) {
            if (*augmentation == 'L')
                take_number(&cursor, 1);
            else if (*augmentation == 'P')
                take_pointer(&cursor, (unsigned)take_number(&cursor, 1) & 0x7f);
            else if (*augmentation == 'R')
                shared->encoding = (unsigned)take_number(&cursor, 1);
            else if (*augmentation == 'S')
                shared->is_signal = true;
            else
                return false;
        }
    }
    shared->instructions = (struct cursor){memory, end, cursor.end, false};
    return !cursor.bad;
}

/* A row of the table that the instructions describe. It has only the columns that are needed here. */
enum saved { SAME, AT_OFFSET, AT_BP, UNDEFINED, ELSEWHERE };
struct row {
    uint64_t base_register;
    int64_t base_offset;
    bool base_is_expression, base_is_known_expression;
    enum saved bp, address; /* the caller's frame pointer; the return address */
    int64_t bp_offset, address_offset;
};

struct machine {
    const struct shared *shared;
    uintptr_t address; /* the address whose row is wanted */
    struct row row, initial, remembered[REMEMBERED_MAX];
    unsigned depth;
    uintptr_t location;
};

static void set_saved(struct row *row, uint64_t number, enum saved how, int64_t offset)
{
    if (number == REGISTER_BP) {
        row->bp = how;
        row->bp_offset = offset;
    } else if (number == REGISTER_RETURN) {
        row->address = how;
        row->address_offset = offset;
    }
}

static void restore(struct machine *machine, uint64_t number)
{
    if (number == REGISTER_BP) set_saved(&machine->row, number, machine->initial.bp, machine->initial.bp_offset);
    if (number == REGISTER_RETURN)
        set_saved(&machine->row, number, machine->initial.address, machine->initial.address_offset);
}

enum { BREG_BP = 0x76, BREG_SP = 0x77, BREG_ADDRESS = 0x80, DEREF = 0x06 };
enum { AND = 0x1a, PLUS = 0x22, SHIFT_LEFT = 0x24, GREATER_EQUAL = 0x2a, LITERAL = 0x30 };

/* True for DW_OP_breg6 0: a function that aligns its stack saves the caller's frame pointer there. */
static bool is_at_bp(struct cursor expression)
{
    return take_number(&expression, 1) == BREG_BP && !take_leb(&expression, true) && expression.at == expression.end &&
           !expression.bad;
}

/* Recognises the rule of a linker's jumps into other libraries (.plt). Each jump is a 16-byte entry that pushes a word
 * after N bytes: sp + 8 + ((address & 15) >= N) * 8. A handler may interrupt such a jump. */
static bool is_linkers_base(struct cursor expression, uintptr_t address, int64_t *offset)
{
    static const unsigned char middle[] = {LITERAL + 15, AND}, end[] = {GREATER_EQUAL, LITERAL + 3, SHIFT_LEFT, PLUS};
    if (take_number(&expression, 1) != BREG_SP) return false;
    int64_t fixed = (int64_t)take_leb(&expression, true);
    if (take_number(&expression, 1) != BREG_ADDRESS) return false;
    address += (uintptr_t)take_leb(&expression, true);
    if (!take_expected(&expression, middle, sizeof middle)) return false;
    uint64_t from = take_number(&expression, 1) - LITERAL;
    if (!take_expected(&expression, end, sizeof end) || expression.at != expression.end || from > 15) return false;
    *offset = fixed + (int64_t)((address & 15) >= from) * 8;
    return true;
}

/* Sets a base that is read from memory near the frame pointer: DW_OP_breg6 offset, DW_OP_deref. */
static void set_base_expression(struct row *row, struct cursor expression, uintptr_t address)
{
    if (is_linkers_base(expression, address, &row->base_offset)) {
        row->base_register = REGISTER_SP;
        row->base_is_expression = false;
        return;
    }
    uint64_t first = take_number(&expression, 1);
    row->base_offset = (int64_t)take_leb(&expression, true);
    uint64_t second = take_number(&expression, 1);
    row->base_is_expression = true;
    row->base_is_known_expression =
        first == BREG_BP && second == DEREF && expression.at == expression.end && !expression.bad;
}

static struct cursor take_block(struct cursor *cursor)
{
    uint64_t length = take_leb(cursor, false);
    uintptr_t from = pass_bytes(cursor, length);
    return (struct cursor){cursor->memory, from, from ? from + length : 0, !from};
}

/* Runs an instruction whose opcode takes a whole byte. False: the opcode is unknown. */
static bool step_long(struct machine *machine, unsigned opcode, struct cursor *cursor)
{
    struct row *row = &machine->row;
    int64_t unit = machine->shared->data_unit;
    uint64_t number;
    switch (opcode) {
    case 0x00: /* nop */
        return true;
    case 0x01: /* set_loc */
        machine->location = take_pointer(cursor, machine->shared->encoding);
        return true;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        machine->location += take_number(cursor, (size_t)1 << (opcode - 2)) * machine->shared->code_unit;
        return true;
    case 0x05: /* offset_extended */
    case 0x11: /* offset_extended_sf */
        number = take_leb(cursor, false);
        set_saved(row, number, AT_OFFSET, (int64_t)take_leb(cursor, opcode == 0x11) * unit);
        return true;
    case 0x06: /* restore_extended */
        restore(machine, take_leb(cursor, false));
        return true;
    case 0x07: /* undefined */
    case 0x08: /* same_value */
        set_saved(row, take_leb(cursor, false), opcode == 0x07 ? UNDEFINED : SAME, 0);
        return true;
    case 0x09: /* register */
        number = take_leb(cursor, false);
        take_leb(cursor, false);
        set_saved(row, number, ELSEWHERE, 0);
        return true;
    case 0x0a: /* remember_state */
        if (machine->depth == REMEMBERED_MAX) return false;
        machine->remembered[machine->depth++] = *row;
        return true;
    case 0x0b: /* restore_state */
        if (!machine->depth) return false;
        *row = machine->remembered[--machine->depth];
        return true;
    case 0x0c: /* def_cfa */
    case 0x12: /* def_cfa_sf */
        row->base_register = take_leb(cursor, false);
        row->base_offset = (int64_t)take_leb(cursor, opcode == 0x12) * (opcode == 0x12 ? unit : 1);
        row->base_is_expression = false;
        return true;
    case 0x0d: /* def_cfa_register */
        row->base_register = take_leb(cursor, false);
        return !row->base_is_expression;
    case 0x0e: /* def_cfa_offset */
    case 0x13: /* def_cfa_offset_sf */
        row->base_offset = (int64_t)take_leb(cursor, opcode == 0x13) * (opcode == 0x13 ? unit : 1);
        return !row->base_is_expression;
    case 0x0f: /* def_cfa_expression */
        set_base_expression(row, take_block(cursor), machine->address);
        return true;
    case 0x10: /* expression */
    case 0x16: /* val_expression */
        number = take_leb(cursor, false);
        set_saved(row, number, is_at_bp(take_block(cursor)) && opcode == 0x10 ? AT_BP : ELSEWHERE, 0);
        return true;
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
        number = take_leb(cursor, false);
        take_leb(cursor, false);
        set_saved(row, number, ELSEWHERE, 0);
        return true;
    case 0x2e: /* GNU_args_size */
        take_leb(cursor, false);
        return true;
    default:
        return false;
    }
}

/* Runs instructions up to the row that contains `address`. False: an instruction is unknown. */
static bool run_instructions(struct machine *machine, struct cursor cursor, uintptr_t address)
{
    enum { ADVANCE = 1, OFFSET = 2, RESTORE = 3 };
    while (cursor.at < cursor.end) {
        unsigned opcode = (unsigned)take_number(&cursor, 1), operand = opcode & 0x3f;
        struct row before = machine->row;
        bool known = true;
        if (opcode >> 6 == ADVANCE)
            machine->location += operand * machine->shared->code_unit;
        else if (opcode >> 6 == OFFSET)
            set_saved(&machine->row, operand, AT_OFFSET,
                      (int64_t)take_leb(&cursor, false) * machine->shared->data_unit);
        else if (opcode >> 6 == RESTORE)
            restore(machine, operand);
        else
            known = step_long(machine, opcode, &cursor);
        if (!known || cursor.bad) return false;
        if (machine->location > address) {
            machine->row = before;
            break;
        }
    }
    return true;
}

static struct mp_frame_rule rule_of(const struct row *row)
{
    struct mp_frame_rule rule = {.base = MP_FRAME_UNKNOWN};
    if (row->address == UNDEFINED) {
        rule.base = MP_FRAME_OUTERMOST;
        return rule;
    }
    bool bp_is_known = row->base_is_expression ? row->bp == AT_BP : row->bp != AT_BP && row->bp != ELSEWHERE;
    bool usual = row->address == AT_OFFSET && row->address_offset == RETURN_OFFSET && bp_is_known;
    if (!usual || row->base_offset != (int32_t)row->base_offset || row->bp_offset != (int32_t)row->bp_offset)
        return rule;
    rule.base_offset = (int32_t)row->base_offset;
    rule.bp_offset = row->bp == AT_OFFSET ? (int32_t)row->bp_offset : 0;
    if (row->base_is_expression)
        rule.base = row->base_is_known_expression && row->base_offset <= 0 ? MP_FRAME_AT_BP : MP_FRAME_UNKNOWN;
    else if (row->base_register == REGISTER_SP)
        rule.base = MP_FRAME_BY_SP;
    else if (row->base_register == REGISTER_BP)
        rule.base = MP_FRAME_BY_BP;
    return rule;
}

/* The frame description that covers an address, and the CIE that it refers to. */
struct description {
    struct shared shared;
    uintptr_t start, length;
    struct cursor instructions;
};

static bool find_description(struct memory *memory, uintptr_t address, struct description *found)
{
    struct mp_module_place place;
    if (!mp_module_place(address, &place)) return false;
    uintptr_t at = search(memory, place.eh_frame_header, address);
    if (!at) return false;
    struct cursor cursor = open_entry(memory, at);
    uintptr_t back = cursor.at;
    uint64_t distance = take_number(&cursor, 4);
    if (cursor.bad || !distance || !read_shared(memory, back - distance, &found->shared)) return false;
    found->start = take_pointer(&cursor, found->shared.encoding);
    found->length = take_pointer(&cursor, found->shared.encoding & 0x0f);
    if (cursor.bad || address < found->start || address - found->start >= found->length) return false;
    if (found->shared.has_augmentation) take_block(&cursor);
    found->instructions = cursor;
    return !cursor.bad;
}

struct mp_frame_rule mp_frame_rule_find(uintptr_t return_address, bool is_guess)
{
    const struct mp_frame_rule unknown = {.base = MP_FRAME_UNKNOWN};
    uintptr_t address = return_address - 1; /* inside the call: the next instruction may belong to another row */
    struct memory memory = {.by_kernel = is_guess};
    struct description found;
    if (!find_description(&memory, address, &found) || found.shared.is_signal) return unknown;
    struct machine machine = {.shared = &found.shared, .address = address, .location = found.start};
    if (!run_instructions(&machine, found.shared.instructions, UINTPTR_MAX)) return unknown;
    machine.initial = machine.row;
    machine.location = found.start;
    return run_instructions(&machine, found.instructions, address) ? rule_of(&machine.row) : unknown;
}

bool mp_frame_rule_function(uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    struct memory memory = {.by_kernel = false};
    struct description found;
    if (!find_description(&memory, address, &found)) return false;
    *start = found.start;
    *end = found.start + found.length;
    return true;
}
