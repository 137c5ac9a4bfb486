/*
 * Functions, inlined functions and lines of an address, from DWARF. The index of units is made at the opening, a unit's
 * index of functions at the first lookup in the unit. libdw's own lookups need .debug_aranges, which clang does not
 * write, and walk a whole unit for every address. One thread at a time.
 */
#pragma once

#include <elfutils/libdw.h>

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
