/*
 * The process that is attached to: whether that can be, which files it has mapped, how their code is unwound. Reads
 * /proc, the mapped files and, through the kernel, its memory; the process is never stopped. One thread at a time.
 */
#ifndef MP_ATTACH_TARGET_H
#define MP_ATTACH_TARGET_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach_event.h"
#include "base/error.h"
#include "base/file_id.h"
#include "base/map.h"
#include "base/vec.h"

/* A mapped ELF file. Addresses are the process's; less `bias` they are the file's. */
struct mp_attach_module {
    uint64_t start, end, bias;
    char *path; /* as the process names it */
    char *file; /* a path by which we open it: through the process's own mounts */
    struct mp_file_id id;
    int fd;
    Elf *elf;
    Dwarf_CFI *cfi; /* NULL: not looked for yet, or none */
    bool cfi_sought, gone;
    uint32_t spool_id; /* 0: not entered yet (attach_tables.h) */
};

struct mp_attach_rule;

struct mp_attach_target {
    uint32_t pid;
    int pidfd;
    uint64_t ids_device, ids_inode;            /* of mp_attach_settings */
    MP_VEC(struct mp_attach_module *) modules; /* those that were unmapped stay, marked `gone` */
    struct mp_map rules;                       /* by address: index + 1 in the vector */
    MP_VEC(struct mp_attach_rule) rule_list;
    struct mp_map strange; /* addresses in no module, at the last look at the maps */
    uint64_t looked_ns, generation;
};

/* The process `pid`; MP_NOT_FOUND, MP_UNSUPPORTED and MP_INVALID say in a sentence why it cannot be attached to. */
enum mp_status mp_attach_target_open(uint32_t pid, struct mp_attach_target *target, struct mp_error *error);
void mp_attach_target_close(struct mp_attach_target *target);

/* The next child of the process that is not in `known`, to which it is added, and that has mapped a library of the
 * probes; 0: none. A process that maps one later is looked at again. */
uint32_t mp_attach_target_child(const struct mp_attach_target *target, struct mp_map *known);

/* Reads the maps anew. False: the process has no maps any more. */
bool mp_attach_target_look(struct mp_attach_target *target);
/* The module that an address lies in; NULL. Looks at the maps again, ten times a second at most, where it is new. */
struct mp_attach_module *mp_attach_target_module(struct mp_attach_target *target, uint64_t address);
bool mp_attach_target_read(const struct mp_attach_target *target, uint64_t address, void *to, size_t bytes);

/* A symbol that the module exports or, where it was not stripped, has: its address in the file, and size. */
bool mp_attach_symbol(const struct mp_attach_module *module, const char *name, uint64_t *address, uint64_t *bytes);
/* Where the file has the bytes of an address in it; false: nowhere. */
bool mp_attach_file_offset(const struct mp_attach_module *module, uint64_t address, uint64_t *offset);

/*
 * Unwinding a copied stack by the rules of .eh_frame, which libdw reads; each address's rule is kept. Where there is
 * none, by the frame pointer if that leads on.
 */
struct mp_attach_native {
    uint64_t address;  /* a return address */
    uint64_t from, to; /* its C frame lies in [from, to) */
};

/* Fills `to`, innermost first; the probed function itself is left out. *cut: there were more. */
size_t mp_attach_unwind(struct mp_attach_target *target, const struct mp_attach_event *event, const void *stack,
                        struct mp_attach_native *to, size_t room, bool *cut);

/* The same by libunwind, several times slower; false: memprof was built without it. */
bool mp_attach_has_libunwind(void);
size_t mp_attach_unwind_by_libunwind(struct mp_attach_target *target, const struct mp_attach_event *event,
                                     const void *stack, struct mp_attach_native *to, size_t room, bool *cut);

/*
 * The instructions by which a function returns, in the file. A return probe of the kernel would replace the return
 * address on the stack: an exception that passes such a call ends the program, and its own unwinders lose their way.
 * .eh_frame shows them: where a function has left its frame, a return or a jump follows. 0: they are not all known.
 */
size_t mp_attach_returns(struct mp_attach_module *module, uint64_t address, uint64_t bytes, uint64_t *to, size_t room);

#endif
