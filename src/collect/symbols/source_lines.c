#include "collect/symbols/source_lines.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "collect/symbols/extents.h"

#define TREE_DEPTH 256 /* most nested scopes within a unit; a deeper file is damaged */

struct unit {
    Dwarf_Die lines;  /* the DIE whose line table is used */
    Dwarf_Die scopes; /* the DIE whose functions are used: the split unit's, if DWARF is in .dwo files */
    bool indexed;
    struct mp_extents functions; /* values: index in function_dies, plus 1 */
    MP_VEC(Dwarf_Die) function_dies;
};

struct mp_source_lines {
    MP_VEC(struct unit) units;
    struct mp_map paths;      /* address of a relative file name (different in each unit) to address of its full path */
    struct mp_extents ranges; /* values: index in units, plus 1 */
};

static bool add_ranges(struct mp_extents *extents, Dwarf_Die *die, uint64_t value)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t offset = 0;
    while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0)
        /* The linker sets ranges of dropped code to 0 (or 1, or the highest address): skip them. */
        if (start > 1 && !mp_extents_add(extents, start, end, value, 0)) return false;
    return true;
}

struct mp_source_lines *mp_source_lines_open(Dwarf *dwarf)
{
    struct mp_source_lines *source = calloc(1, sizeof *source);
    if (!source) return NULL;
    Dwarf_CU *at = NULL, *next;
    struct unit unit = {0};
    Dwarf_Die split;
    uint8_t type;
    while (dwarf_get_units(dwarf, at, &next, NULL, &type, &unit.lines, &split) == 0) {
        at = next;
        unit.scopes = type == DW_UT_skeleton && split.addr ? split : unit.lines;
        if (!mp_vec_push(&source->units, unit) || !add_ranges(&source->ranges, &unit.lines, source->units.count)) break;
    }
    if (!mp_extents_seal(&source->ranges)) {
        mp_source_lines_close(source);
        return NULL;
    }
    return source;
}

/* True if a DIE with this tag may contain functions with code. Types may contain lambdas. */
static bool holds_functions(int tag)
{
    switch (tag) {
    case DW_TAG_compile_unit:
    case DW_TAG_partial_unit:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_subprogram:
    case DW_TAG_lexical_block:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        return true;
    default:
        return false;
    }
}

static bool index_functions(struct unit *unit, Dwarf_Die *parent, unsigned depth)
{
    Dwarf_Die die;
    if (depth == TREE_DEPTH || dwarf_child(parent, &die) != 0) return true;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram) {
            if (!mp_vec_push(&unit->function_dies, die)) return false;
            size_t before = unit->functions.added.count;
            if (!add_ranges(&unit->functions, &die, unit->function_dies.count)) return false;
            if (unit->functions.added.count == before) unit->function_dies.count--; /* a declaration */
        }
        if (holds_functions(tag) && !index_functions(unit, &die, depth + 1)) return false;
    } while (dwarf_siblingof(&die, &die) == 0);
    return true;
}

static Dwarf_Die *find_function(struct unit *unit, Dwarf_Addr address)
{
    if (!unit->indexed) {
        unit->indexed = true;
        index_functions(unit, &unit->scopes, 0);
        mp_extents_seal(&unit->functions);
    }
    uint64_t found = mp_extents_find(&unit->functions, address);
    return found ? &unit->function_dies.at[found - 1] : NULL;
}

/* Appends the inlined functions at the address within `scope`, outermost first, to the `count` functions so far.
 * Returns the new number. Blocks can overlap, so one without an inlined function does not end the search. */
static unsigned find_inlined(Dwarf_Die *scope, Dwarf_Addr address, Dwarf_Die *inlined, unsigned count, unsigned depth)
{
    Dwarf_Die die;
    if (count == MP_INLINE_DEPTH || depth == TREE_DEPTH || dwarf_child(scope, &die) != 0) return count;
    do {
        int tag = dwarf_tag(&die);
        if ((tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) || dwarf_haspc(&die, address) <= 0)
            continue;
        unsigned found = count;
        if (tag == DW_TAG_inlined_subroutine) inlined[found++] = die;
        found = find_inlined(&die, address, inlined, found, depth + 1);
        if (found > count) return found;
    } while (dwarf_siblingof(&die, &die) == 0);
    return count;
}

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

static void name_function(struct mp_source_line *line, Dwarf_Die *die)
{
    line->linkage_name = text_of(die, DW_AT_linkage_name);
    if (!line->linkage_name) line->linkage_name = text_of(die, DW_AT_MIPS_linkage_name);
    line->name = dwarf_diename(die);
}

static Dwarf_Word number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &number) == 0 ? number : 0;
}

/* Completes a relative file name with the folder in which the compiler ran. */
static const char *full_path(struct mp_source_lines *source, struct unit *unit, const char *name)
{
    const char *folder;
    if (!name || *name == '/' || !(folder = text_of(&unit->lines, DW_AT_comp_dir))) return name;
    uint64_t *path = mp_map_insert(&source->paths, (uintptr_t)name, NULL);
    char *made;
    if (path && !*path && asprintf(&made, "%s/%s", folder, name) >= 0) *path = (uintptr_t)made;
    return path && *path ? (const char *)(uintptr_t)*path : name;
}

/* Names the place where the inlined function was called. */
static void name_call(struct mp_source_line *line, struct mp_source_lines *source, struct unit *unit,
                      Dwarf_Die *inlined)
{
    Dwarf_Files *files;
    size_t file_count;
    Dwarf_Word file = number_of(inlined, DW_AT_call_file);
    line->line = (unsigned)number_of(inlined, DW_AT_call_line);
    if (line->line && dwarf_getsrcfiles(&unit->scopes, &files, &file_count) == 0 && file < file_count)
        line->file = full_path(source, unit, dwarf_filesrc(files, file, NULL, NULL));
}

static void name_line(struct mp_source_line *line, struct mp_source_lines *source, struct unit *unit,
                      Dwarf_Addr address)
{
    Dwarf_Line *at = dwarf_getsrc_die(&unit->lines, address);
    int number = 0;
    if (!at || dwarf_lineno(at, &number) != 0) return;
    line->file = full_path(source, unit, dwarf_linesrc(at, NULL, NULL));
    line->line = number > 0 ? (unsigned)number : 0;
}

unsigned mp_source_lines_find(struct mp_source_lines *source, Dwarf_Addr address, struct mp_source_line *lines)
{
    uint64_t found = mp_extents_find(&source->ranges, address);
    if (!found) return 0;
    struct unit *unit = &source->units.at[found - 1];
    Dwarf_Die inlined[MP_INLINE_DEPTH], *function = find_function(unit, address);
    unsigned count = function ? find_inlined(function, address, inlined, 0, 0) : 0;

    for (unsigned i = 0; i <= count; i++) {
        lines[i] = (struct mp_source_line){0};
        if (i == count && function) name_function(&lines[i], function);
        if (i < count) name_function(&lines[i], &inlined[count - 1 - i]);
        if (i == 0)
            name_line(&lines[i], source, unit, address);
        else
            name_call(&lines[i], source, unit, &inlined[count - i]);
    }
    return count + 1;
}

void mp_source_lines_close(struct mp_source_lines *source)
{
    if (!source) return;
    for (size_t i = 0; i < source->units.count; i++) {
        mp_extents_free(&source->units.at[i].functions);
        mp_vec_free(&source->units.at[i].function_dies);
    }
    mp_vec_free(&source->units);
    for (size_t i = 0; i < source->paths.room; i++)
        free((void *)(uintptr_t)source->paths.slots[i].value);
    mp_map_free(&source->paths);
    mp_extents_free(&source->ranges);
    free(source);
}
