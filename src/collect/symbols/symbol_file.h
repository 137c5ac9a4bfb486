/* The symbols of one open ELF file: its symbol table, and DWARF where it or a debug file beside it has some. */
#ifndef MP_COLLECT_SYMBOL_FILE_H
#define MP_COLLECT_SYMBOL_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "collect/symbols/debug_files.h"
#include "collect/symbols/demangle.h"
#include "collect/symbols/symbols.h"

struct mp_symbol_file;

/* Takes over fd, which has `status`; reads nothing before the first lookup. `path` (copied) names debug files; its
 * first root_length bytes are a prefix such as /proc/PID/root. NULL where memory is short: fd is then still open. */
struct mp_symbol_file *mp_symbol_file_open(int fd, const struct stat *status, const char *path, size_t root_length);
/* Whether `status` is that of this same file, unchanged. */
bool mp_symbol_file_is(const struct mp_symbol_file *file, const struct stat *status);
/* As mp_symbols_resolve(), with the address itself (not a return address) in the file's own address space. */
size_t mp_symbol_file_find(struct mp_symbol_file *file, uint64_t address, struct mp_demangler *demangler,
                           const struct mp_symbol_line **lines);
/* As mp_symbols_note(). */
const char *mp_symbol_file_note(const struct mp_symbol_file *file);
void mp_symbol_file_close(struct mp_symbol_file *file);

#endif
