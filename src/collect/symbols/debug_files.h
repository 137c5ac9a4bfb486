/*
 * Finds the debugging information of a stripped file: by build-id or by .gnu_debuglink, on this machine only. libdwfl's
 * own search is not used, because it asks debuginfod servers if DEBUGINFOD_URLS is set.
 */
#pragma once

#include <elfutils/libdwfl.h>
#include <stddef.h>

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
