/*
 * Functions, inlined functions and lines of an address, from DWARF. The index of units is made at once, that of a
 * unit's functions at the first address in it: libdw's own lookups need .debug_aranges (which clang does not write) and
 * walk a whole unit for every address. One thread at a time.
 */
#ifndef MP_COLLECT_SOURCE_LINES_H
#define MP_COLLECT_SOURCE_LINES_H

#include <elfutils/libdw.h>

/* One source-level frame; texts live as long as the struct mp_source_lines and the Dwarf. */
struct mp_source_line {
    const char *linkage_name; /* mangled; NULL where DWARF has none */
    const char *name;         /* as written in the source, unqualified; NULL: unknown */
    const char *file;         /* NULL: unknown */
    unsigned line;            /* 0: unknown */
};

#define MP_INLINE_DEPTH 64 /* inlined frames returned for one address; the outermost ones win */

struct mp_source_lines;

/* `dwarf` stays the caller's and must live longer. NULL where memory is short. */
struct mp_source_lines *mp_source_lines_open(Dwarf *dwarf);
/* Fills `lines` (of MP_INLINE_DEPTH + 1), innermost first, and returns their number; 0 where DWARF does not know the
 * address. The last one is the function that contains the code; it has no name where no function does. */
unsigned mp_source_lines_find(struct mp_source_lines *source, Dwarf_Addr address, struct mp_source_line *lines);
void mp_source_lines_close(struct mp_source_lines *source);

#endif
