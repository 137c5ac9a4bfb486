/* The symbols of one open ELF file: its symbol table, and DWARF from it or from its debug file. */
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "collect/symbols/symbols.h"

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

/*
 * Functions, inlined functions and lines of an address, from DWARF. The index of units is made at the opening, a unit's
 * index of functions at the first lookup in the unit. libdw's own lookups need .debug_aranges, which clang does not
 * write, and walk a whole unit for every address. One thread at a time.
 */

/* One source-level frame; texts live as long as the struct mp_source_lines and the Dwarf. */
struct mp_source_line {
    const char *linkage_name; /* mangled; NULL if DWARF has none */
    const char *name;         /* as written in the source, unqualified; NULL: unknown */
    const char *file;         /* NULL: unknown */
    unsigned line;            /* 0: unknown */
};

#define MP_INLINE_DEPTH 64 /* most inlined frames for one address; if there are more, the outermost ones count */

struct mp_source_lines;

/* `dwarf` stays the caller's and must live longer. NULL if memory is short. */
struct mp_source_lines *mp_source_lines_open(Dwarf *dwarf);
/* Fills `lines` (of MP_INLINE_DEPTH + 1), innermost first, and returns their number; 0 if DWARF does not know the
 * address. The last line is of the function that contains the code, and has no name if no function contains it. */
unsigned mp_source_lines_find(struct mp_source_lines *source, Dwarf_Addr address, struct mp_source_line *lines);
void mp_source_lines_close(struct mp_source_lines *source);

/*
 * Finds the debugging information of a stripped file: by build-id or by .gnu_debuglink, on this machine only. libdwfl's
 * own search is not used, because it asks debuginfod servers if DEBUGINFOD_URLS is set.
 */

/* The callback's context for a module. libdwfl's userdata of the module points to it. */
struct mp_debug_search {
    const char *path;   /* path of the module's file, with the root in front */
    size_t root_length; /* length of the prefix of `path` such as /proc/PID/root */
};

/* A find_debuginfo callback for struct Dwfl_Callbacks. Accepts only a file that provably belongs to the module: by
 * build-id if the module has one, else by the checksum in .gnu_debuglink. */
int mp_find_debug_file(Dwfl_Module *module, void **userdata, const char *module_name, Dwarf_Addr base,
                       const char *file_name, const char *link, GElf_Word link_crc, char **found);

/* The GNU build-id of the ELF file behind fd, cut to `room` bytes; 0 if it has none. Reads only headers and notes.
 */
size_t mp_read_build_id(int fd, unsigned char *build_id, size_t room);

/*
 * Demangles C++ names. Loads the C++ runtime's demangler, if the machine has it, at the first mangled name, so that
 * memprof need not link C++. One thread at a time.
 */

struct mp_demangler;

struct mp_demangler *mp_demangler_open(void); /* NULL if memory is short */
/* The name to show for `symbol`. `symbol` must stay at its address as long as the demangler lives, since results are
 * kept by address. Versions ("@@GLIBC_2.34") are dropped. From mangled names, the compiler's marks of a partial or
 * specialised copy (".isra.0") are dropped, too. A name that cannot be demangled is returned unchanged. */
const char *mp_demangle(struct mp_demangler *demangler, const char *symbol);
void mp_demangler_close(struct mp_demangler *demangler);
