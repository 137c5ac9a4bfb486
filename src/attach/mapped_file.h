/*
 * An ELF file that the process has mapped, opened once. The process wrote it, may change it, and may want to harm
 * memprof: the file is read by copies, never mapped; sizes have bounds, and no name is opened twice. One thread at a
 * time.
 */
#pragma once

#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"

/* One executable mapping of a file, as /proc/PID/maps shows it. */
struct mp_mapping {
    uint64_t start, end, offset;
    unsigned long long inode;
    char permissions[5];
    char path[4096];
};

/* A mapped ELF file. An address in the process, less `bias`, is an address in the file. */
struct mp_attach_module {
    uint64_t start, end, bias;
    char *path; /* the process's own name for it: only for people */
    struct mp_file_id id;
    int fd; /* the file itself: /proc/self/fd/FD leads to nothing else */
    Elf *elf;
    Dwarf_CFI *cfi; /* NULL: not read yet, or none */
    bool cfi_sought, gone;
    uint32_t spool_id; /* 0: not added yet (attach_tables.h) */
};

/* Opens the file behind a mapping of a process (or thread) `pid`, if it is a regular one; -1. Waits for nobody. */
int mp_mapped_file_open(uint32_t pid, const struct mp_mapping *mapping);
/* The module of an open file, which it takes over; NULL (and `fd` closed): it is no usable ELF file of x86-64. */
struct mp_attach_module *mp_mapped_file_module(int fd, const struct mp_mapping *mapping);
void mp_mapped_file_free(struct mp_attach_module *module); /* NULL: nothing happens */

/* Finds a symbol that the module exports (or has, if it was not stripped): the symbol's address in the file, and its
 * size. */
bool mp_attach_symbol(const struct mp_attach_module *module, const char *name, uint64_t *address, uint64_t *bytes);
/* The offset in the file of an address's bytes; false: none. */
bool mp_attach_file_offset(const struct mp_attach_module *module, uint64_t address, uint64_t *offset);

/* From now on, a mapped file that is cut while it is read (libdw maps the files of symbols) reads as zeroes there,
 * instead of ending memprof by SIGBUS. For the whole process. */
void mp_mapped_file_guard(void);
/* True if that has happened. */
bool mp_mapped_file_shrunk(void);

/* libdw's view of the .eh_frame, read once; NULL: none, or one that no linker makes. */
Dwarf_CFI *mp_mapped_file_frames(struct mp_attach_module *module);
