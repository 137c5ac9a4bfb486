/* The symbols of one open ELF file: its symbol table, and DWARF from it or from its debug file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* One source-level frame. C++ names are demangled and not cut; template arguments make some very long. */
struct mp_symbol_line {
    const char *function; /* NULL: no known function contains the address */
    const char *file;     /* NULL: unknown */
    uint32_t line;        /* 0: unknown */
};

struct mp_symbol_file;
struct mp_demangler;

/* Takes over `fd`, whose fstat() is `status`; reads nothing before the first lookup. `path` (copied) is used to find
 * debug files; its first root_length bytes are a prefix such as /proc/PID/root. NULL if memory is short: the caller
 * then keeps `fd`. */
struct mp_symbol_file *mp_symbol_file_open(int fd, const struct stat *status, const char *path, size_t root_length);
/* True if `status` shows the same file, unchanged. */
bool mp_symbol_file_is(const struct mp_symbol_file *file, const struct stat *status);
/* Like mp_symbols_resolve(), but `address` is the address itself, not a return address, in the file's own address
 * space. */
size_t mp_symbol_file_find(struct mp_symbol_file *file, uint64_t address, struct mp_demangler *demangler,
                           const struct mp_symbol_line **lines);
/* Like mp_symbols_note(), for one file. */
const char *mp_symbol_file_note(const struct mp_symbol_file *file);
void mp_symbol_file_close(struct mp_symbol_file *file);
/* Sets whether the symbols of closed files are kept for later recordings (default: no). `share` false also frees the
 * kept ones. Call it while no other thread reads symbols. */
void mp_symbol_files_share(bool share);
