/* --unwind libunwind: walks the same copied stack, by the library's rules. It reads mapped files by their names in
 * memprof's own mounts, and reads the maps again for each module that it enters. */
#include "attach/attach_libunwind.h"
#include "attach/attach_target.h"
#include "attach/attach_unwind.h"

#ifdef MP_HAVE_LIBUNWIND_REMOTE

#    include <libunwind-ptrace.h>
#    include <string.h>

/* This is static because the callbacks' context cannot be used: libunwind-ptrace passes its own there when it reads
 * tables. */
static struct {
    struct mp_attach_target *target;
    const struct mp_attach_event *event;
    const unsigned char *stack;
    void *files; /* the library's data about the process's files */
} walk;

static int find_rules(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *info, int with_rules, void *context)
{
    (void)context;
    return _UPT_find_proc_info(space, address, info, with_rules, walk.files);
}

static void put_rules(unw_addr_space_t space, unw_proc_info_t *info, void *context)
{
    (void)context;
    _UPT_put_unwind_info(space, info, walk.files);
}

static int find_dynamic(unw_addr_space_t space, unw_word_t *address, void *context)
{
    (void)space, (void)address, (void)context;
    return -UNW_ENOINFO;
}

static int access_memory(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int writes, void *context)
{
    const struct mp_attach_event *event = walk.event;
    (void)space, (void)context;
    if (writes) return -UNW_EINVAL;
    if (address >= event->sp && event->stack_bytes >= sizeof *value &&
        address - event->sp <= event->stack_bytes - sizeof *value)
        memcpy(value, walk.stack + (address - event->sp), sizeof *value);
    else if (!mp_attach_target_module(walk.target, address) ||
             !mp_attach_target_read(walk.target, address, value, sizeof *value))
        return -UNW_EINVAL; /* the stack beyond the copy has changed since */
    return 0;
}

static int access_register(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int writes, void *context)
{
    const struct mp_attach_event *event = walk.event;
    const struct {
        unw_regnum_t number;
        uint64_t value;
    } known[] = {{UNW_X86_64_RIP, event->ip - 1 /* of the call */},
                 {UNW_X86_64_RSP, event->sp},
                 {UNW_X86_64_RBP, event->bp},
                 {UNW_X86_64_RBX, event->bx},
                 {UNW_X86_64_R12, event->r12},
                 {UNW_X86_64_R13, event->r13},
                 {UNW_X86_64_R14, event->r14},
                 {UNW_X86_64_R15, event->r15}};
    (void)space, (void)context;
    for (size_t i = 0; !writes && i < sizeof known / sizeof *known; i++)
        if (known[i].number == number) {
            *value = known[i].value;
            return 0;
        }
    return -UNW_EBADREG;
}

static int access_float(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int writes, void *context)
{
    (void)space, (void)number, (void)value, (void)writes, (void)context;
    return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context)
{
    (void)space, (void)cursor, (void)context;
    return -UNW_EINVAL;
}

static int name_function(unw_addr_space_t space, unw_word_t address, char *name, size_t room, unw_word_t *offset,
                         void *context)
{
    (void)space, (void)address, (void)name, (void)room, (void)offset, (void)context;
    return -UNW_ENOINFO;
}

bool mp_attach_has_libunwind(void)
{
    return true;
}

size_t mp_attach_unwind_by_libunwind(struct mp_attach_target *target, const struct mp_attach_event *event,
                                     const void *stack, struct mp_attach_native *to, size_t room, bool *cut)
{
    static unw_accessors_t accessors = {find_rules,      put_rules,    find_dynamic, access_memory,
                                        access_register, access_float, resume,       name_function};
    static unw_addr_space_t space;
    static uint64_t generation;
    unw_cursor_t cursor;
    *cut = false;
    if (!space && (space = unw_create_addr_space(&accessors, 0))) unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
    if (!walk.files) walk.files = _UPT_create((pid_t)target->pid);
    if (!space || !walk.files) return 0;
    if (generation != target->generation) unw_flush_cache(space, 0, 0);
    generation = target->generation;
    walk.target = target;
    walk.event = event;
    walk.stack = stack;
    if (unw_init_remote(&cursor, space, walk.files)) return 0;
    size_t count = 0;
    for (int step = 1; step > 0 && count < room; count++) {
        unw_word_t address = event->ip, sp = event->sp, next = 0;
        if (count) unw_get_reg(&cursor, UNW_REG_IP, &address), unw_get_reg(&cursor, UNW_REG_SP, &sp);
        if (!address || !mp_attach_target_module(target, address - 1)) break;
        step = unw_step(&cursor);
        *cut = step < 0 && event->stack_cut;
        if (step > 0) unw_get_reg(&cursor, UNW_REG_SP, &next);
        to[count] = (struct mp_attach_native){address, sp, step > 0 ? next : UINT64_MAX};
    }
    *cut |= count == room;
    return count;
}

#else

bool mp_attach_has_libunwind(void)
{
    return false;
}

size_t mp_attach_unwind_by_libunwind(struct mp_attach_target *target, const struct mp_attach_event *event,
                                     const void *stack, struct mp_attach_native *to, size_t room, bool *cut)
{
    return mp_attach_unwind(target, event, stack, to, room, cut);
}

#endif
