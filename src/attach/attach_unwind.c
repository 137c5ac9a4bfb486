#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach_target.h"
#include "attach/attach_unwind.h"

/* Registers in rules, by DWARF's numbers on x86-64. */
enum { R_BX, R_BP, R_SP, R_12, R_13, R_14, R_15, R_IP, REGISTERS, R_NONE };
static const uint8_t dwarf_number[REGISTERS] = {3, 6, 7, 12, 13, 14, 15, 16};

#define SAME INT32_MIN
#define LOST (INT32_MIN + 1)

/* A rule for the step from one frame to its caller. The canonical frame address is a register plus an offset, or the
 * word at that address. Saved registers lie at offsets from the canonical frame address. */
struct mp_attach_rule {
    uint8_t kind, cfa_register;
    bool dereferenced;
    int32_t cfa_offset;
    int32_t saved[REGISTERS];
};
enum { RULE_NONE, RULE_FOUND, RULE_END };

static unsigned register_of(Dwarf_Word number)
{
    for (unsigned i = 0; i < REGISTERS; i++)
        if (dwarf_number[i] == number) return i;
    return R_NONE;
}

static bool read_cfa(Dwarf_Frame *frame, struct mp_attach_rule *rule)
{
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) || !count || count > 2) return false;
    Dwarf_Word number, offset;
    if (ops[0].atom == DW_OP_bregx) {
        number = ops[0].number;
        offset = ops[0].number2;
    } else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
        number = ops[0].atom - DW_OP_breg0;
        offset = ops[0].number;
    } else {
        return false;
    }
    if (count == 2 && ops[1].atom != DW_OP_deref) return false;
    rule->dereferenced = count == 2;
    rule->cfa_register = (uint8_t)register_of(number);
    rule->cfa_offset = (int32_t)(int64_t)offset;
    return rule->cfa_register != R_NONE;
}

static int32_t read_register(Dwarf_Frame *frame, unsigned number, bool *undefined)
{
    Dwarf_Op memory[3], *ops;
    size_t count;
    *undefined = false;
    if (dwarf_frame_register(frame, dwarf_number[number], memory, &ops, &count)) return LOST;
    if (!count) {
        *undefined = !ops;
        return ops ? SAME : LOST;
    }
    if (ops[0].atom != DW_OP_call_frame_cfa) return LOST;
    if (count == 1) return 0;
    return count == 2 && ops[1].atom == DW_OP_plus_uconst ? (int32_t)(int64_t)ops[1].number : LOST;
}

static struct mp_attach_rule make_rule(struct mp_attach_module *module, uint64_t address)
{
    struct mp_attach_rule rule = {.kind = RULE_NONE};
    Dwarf_Frame *frame = NULL;
    if (!mp_mapped_file_frames(module) || dwarf_cfi_addrframe(module->cfi, address - module->bias, &frame)) return rule;
    bool undefined;
    if (read_cfa(frame, &rule)) {
        for (unsigned i = 0; i < REGISTERS; i++)
            rule.saved[i] = i == R_SP ? SAME : read_register(frame, i, &undefined);
        rule.kind = undefined                                              ? RULE_END
                    : rule.saved[R_IP] == LOST || rule.saved[R_IP] == SAME ? RULE_NONE
                                                                           : RULE_FOUND;
    }
    free(frame);
    return rule;
}

/* One row of the rules, for [*start, *end). False: no rule. */
static bool read_row(struct mp_attach_module *module, uint64_t address, uint64_t *start, uint64_t *end, bool *is_bare)
{
    Dwarf_Frame *frame = NULL;
    struct mp_attach_rule rule;
    bool signal;
    if (dwarf_cfi_addrframe(module->cfi, address, &frame)) return false;
    *is_bare = read_cfa(frame, &rule) && rule.cfa_register == R_SP && rule.cfa_offset == 8 && !rule.dereferenced;
    bool known = dwarf_frame_info(frame, start, end, &signal) >= 0 && *end > address;
    free(frame);
    return known;
}

/* Finds the returning instruction of code without a frame. Its first instruction is a return, or its last one is,
 * before the padding of the next label. At a function's start, it may have none. Instructions are not decoded, so a
 * second byte with the value of a return makes the result unknown: -1. */
static int find_return(const unsigned char *code, size_t bytes, bool is_start, uint64_t *at)
{
    enum { RET = 0xc3, REP = 0xf3 };
    static const unsigned char padding[] = {0x90, 0x66, 0x0f, 0x2e, 0xcc};
    const unsigned char *first = memchr(code, RET, bytes);
    if (!first) return is_start ? 0 : -1;
    size_t before = (size_t)(first - code), after = bytes - before - 1;
    bool ends = !after || (!before && memchr(padding, code[1], sizeof padding) && !memchr(code + 1, RET, after));
    if (!ends || (before && first[-1] == REP)) return -1;
    *at = before;
    return 1;
}

size_t mp_attach_returns(struct mp_attach_module *module, uint64_t address, uint64_t bytes, uint64_t *to, size_t room)
{
    enum { CODE_MOST = 1 << 16, ROWS_MOST = 1024 /* the driver's functions have below 50 */ };
    static unsigned char code[CODE_MOST];
    uint64_t offset, start, end, found;
    bool is_bare;
    size_t count = 0;
    if (bytes > CODE_MOST || !mp_mapped_file_frames(module) || !mp_attach_file_offset(module, address, &offset) ||
        pread(module->fd, code, bytes, (off_t)offset) != (ssize_t)bytes)
        return 0;
    unsigned rows = 0;
    for (uint64_t at = address; at < address + bytes; at = end) {
        if (rows++ == ROWS_MOST || !read_row(module, at, &start, &end, &is_bare)) return 0;
        if (end > address + bytes) end = address + bytes;
        if (!is_bare) continue;
        int known = find_return(code + (at - address), end - at, at == address, &found);
        if (known < 0 || (known && count == room)) return 0;
        if (known) to[count++] = at + found;
    }
    return count;
}

/* NULL: the address is in no module. */
static const struct mp_attach_rule *rule_at(struct mp_attach_target *target, uint64_t address)
{
    uint64_t *known = mp_map_find(&target->rules, address);
    if (known) return &target->rule_list.at[*known - 1];
    struct mp_attach_module *module = mp_attach_target_module(target, address);
    if (!module) return NULL;
    mp_vec_add(&target->rule_list, make_rule(module, address));
    *mp_map_at(&target->rules, address, NULL) = target->rule_list.count;
    return &target->rule_list.at[target->rule_list.count - 1];
}

struct copied {
    const unsigned char *bytes;
    uint64_t from, to;
};

static bool load(const struct copied *stack, uint64_t address, uint64_t *value)
{
    if (address < stack->from || address > stack->to || stack->to - address < sizeof *value) return false;
    memcpy(value, stack->bytes + (address - stack->from), sizeof *value);
    return true;
}

/* Leaves a frame by its rule. False: the copied stack is too short. */
static bool leave(const struct mp_attach_rule *rule, const struct copied *stack, uint64_t registers[REGISTERS])
{
    uint64_t cfa = registers[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset, left[REGISTERS];
    if (rule->dereferenced && !load(stack, cfa, &cfa)) return false;
    for (unsigned i = 0; i < REGISTERS; i++) {
        left[i] = registers[i];
        if (rule->saved[i] != SAME && rule->saved[i] != LOST &&
            !load(stack, cfa + (uint64_t)(int64_t)rule->saved[i], &left[i]) && i == R_IP)
            return false;
    }
    if (cfa <= registers[R_SP]) return false;
    left[R_SP] = cfa;
    memcpy(registers, left, sizeof left);
    return true;
}

static bool leave_by_pointer(const struct copied *stack, uint64_t registers[REGISTERS])
{
    uint64_t at = registers[R_BP], next, back;
    if (at < registers[R_SP] || !load(stack, at, &next) || !load(stack, at + 8, &back)) return false;
    registers[R_SP] = at + 16;
    registers[R_BP] = next;
    registers[R_IP] = back;
    return true;
}

size_t mp_attach_unwind(struct mp_attach_target *target, const struct mp_attach_event *event, const void *stack,
                        struct mp_attach_native *to, size_t room, bool *cut)
{
    const struct copied copied = {stack, event->sp, event->sp + event->stack_bytes};
    uint64_t registers[REGISTERS] = {[R_BX] = event->bx,  [R_BP] = event->bp,  [R_SP] = event->sp,  [R_12] = event->r12,
                                     [R_13] = event->r13, [R_14] = event->r14, [R_15] = event->r15, [R_IP] = event->ip};
    size_t count = 0;
    *cut = false;
    while (registers[R_IP] && count < room) {
        const struct mp_attach_rule *rule = rule_at(target, registers[R_IP] - 1);
        struct mp_attach_native *frame = &to[count];
        *frame = (struct mp_attach_native){registers[R_IP], registers[R_SP], registers[R_SP]};
        if (!rule) break; /* this is code of no file, so its address says nothing */
        count++;
        if (rule->kind == RULE_END) return count;
        bool left = rule->kind == RULE_FOUND ? leave(rule, &copied, registers) : leave_by_pointer(&copied, registers);
        if (!left) {
            frame->to = UINT64_MAX;
            *cut = event->stack_cut || rule->kind == RULE_FOUND;
            return count;
        }
        frame->to = registers[R_SP];
    }
    *cut = count == room || registers[R_IP];
    return count;
}
