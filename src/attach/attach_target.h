/*
 * The process to attach to: whether that is possible, which files it has mapped, and how to unwind their code. Reads
 * /proc, the mapped files and the process's memory. Never stops the process. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach_event.h"
#include "attach/mapped_file.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

struct mp_attach_rule;

struct mp_attach_target {
    uint32_t pid, thread; /* a living thread of it, which leads to its memory and maps */
    bool short_of_files;  /* memprof could not open each mapped file (RLIMIT_NOFILE) */
    int pidfd;
    uint64_t ids_device, ids_inode;            /* as in mp_attach_settings */
    MP_VEC(struct mp_attach_module *) modules; /* unmapped modules stay, marked `gone` */
    struct mp_map rules;                       /* by address: 1 + the index of its rule */
    MP_VEC(struct mp_attach_rule) rule_list;
    struct mp_map strange; /* addresses that were in no module when the maps were last read */
    uint64_t looked_ns, generation;
};

/* Opens the process `pid`. MP_NOT_FOUND, MP_UNSUPPORTED and MP_INVALID: memprof cannot attach to it, and the error says
 * why. */
enum mp_status mp_attach_target_open(uint32_t pid, struct mp_attach_target *target, struct mp_error *error);
void mp_attach_target_close(struct mp_attach_target *target);

/* Chooses another thread if the chosen one has ended. True: it did, and probes of the former one are dead. */
bool mp_attach_target_moved(struct mp_attach_target *target);
bool mp_attach_target_over(const struct mp_attach_target *target); /* no thread lives */

/* The next child of the process that is not in `known` and has mapped a library with probes; adds it to `known`. 0:
 * none. A child without such a library is checked again later. */
uint32_t mp_attach_target_child(const struct mp_attach_target *target, struct mp_map *known);

/* Reads the maps again. False: the process has no maps any more. */
bool mp_attach_target_look(struct mp_attach_target *target);

/* The module that contains an address; NULL. For a new address it reads the maps again, at most ten times a second. */
struct mp_attach_module *mp_attach_target_module(struct mp_attach_target *target, uint64_t address);
bool mp_attach_target_read(const struct mp_attach_target *target, uint64_t address, void *to, size_t bytes);

/*
 * Unwinds a copied stack by the rules of .eh_frame, which libdw reads. Each address's rule is kept. Without a rule, it
 * uses the frame pointer if that leads further.
 */
struct mp_attach_native {
    uint64_t address;  /* a return address */
    uint64_t from, to; /* the frame's bytes on the stack are [from, to) */
};
