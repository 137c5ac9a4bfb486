#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach_target.h"

/* The registers that a rule may name, by DWARF's numbers on x86-64. */
enum { R_BX, R_BP, R_SP, R_12, R_13, R_14, R_15, R_IP, REGISTERS, R_NONE };
static const uint8_t dwarf_number[REGISTERS] = {3, 6, 7, 12, 13, 14, 15, 16};

#define SAME INT32_MIN
#define LOST (INT32_MIN + 1)

/* How to leave one frame: the canonical frame address is a register plus an offset, or the word there; registers lie
 * at offsets from it. */
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
    if (!module->cfi_sought) module->cfi = module->elf ? dwarf_getcfi_elf(module->elf) : NULL;
    module->cfi_sought = true;
    Dwarf_Frame *frame = NULL;
    if (!module->cfi || dwarf_cfi_addrframe(module->cfi, address - module->bias, &frame)) return rule;
    bool undefined;
    if (read_cfa(frame, &rule)) {
        for (unsigned i = 0; i < REGISTERS; i++)
            rule.saved[i] = i == R_SP ? SAME : read_register(frame, i, &undefined);
        rule.kind = undefined ? RULE_END : rule.saved[R_IP] == LOST || rule.saved[R_IP] == SAME ? RULE_NONE : RULE_FOUND;
    }
    free(frame);
    return rule;
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

/* Leaves a frame by its rule. False: the copied stack does not have what that needs. */
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
                        bool returned, struct mp_attach_native *to, size_t room, bool *cut)
{
    const struct copied copied = {stack, event->sp, event->sp + event->stack_bytes};
    uint64_t registers[REGISTERS] = {[R_BX] = event->bx,  [R_BP] = event->bp,  [R_SP] = event->sp,
                                     [R_12] = event->r12, [R_13] = event->r13, [R_14] = event->r14,
                                     [R_15] = event->r15, [R_IP] = event->ip};
    size_t count = 0;
    *cut = false;
    /* At its first instruction a function's return address is the word on top. */
    if (!returned) {
        if (!load(&copied, event->sp, &registers[R_IP])) return 0;
        registers[R_SP] += 8;
    }
    while (registers[R_IP] && count < room) {
        const struct mp_attach_rule *rule = rule_at(target, registers[R_IP] - 1);
        struct mp_attach_native *frame = &to[count];
        *frame = (struct mp_attach_native){registers[R_IP], registers[R_SP], registers[R_SP]};
        if (!rule) break; /* no code of a file: its address says nothing */
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
