#include "capture/native/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "capture/native/loaded.h"

#if !__GLIBC_PREREQ(2, 35)
/* As in <dlfcn.h> of glibc 2.35. The function is looked up at run time: it may exist even if the build's headers are
 * older. */
struct dl_find_object {
    unsigned long long dlfo_flags;
    void *dlfo_map_start, *dlfo_map_end;
    struct link_map *dlfo_link_map;
    void *dlfo_eh_frame;
    unsigned long long dlfo_reserved[7];
};
#endif

static int (*find_object)(void *, struct dl_find_object *);
static char program_path[PATH_MAX];

void mp_module_start(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
    memcpy(&find_object, &symbol, sizeof symbol);
    ssize_t length = readlink("/proc/self/exe", program_path, sizeof program_path - 1);
    if (length < 0) program_path[0] = '\0';
}

/* Reads the build-id from the notes at [at, end) of a file that another thread may unload meanwhile. */
static void read_build_id(uintptr_t at, uintptr_t end, struct mp_file_id *file)
{
    enum { NOTES_MAX = 64 };
    struct {
        ElfW(Nhdr) header;
        char name[4];
    } note;
    for (int i = 0; i < NOTES_MAX && end - at >= sizeof note && at < end; i++) {
        if (!mp_read_memory(&note, at, sizeof note)) return;
        uintptr_t text = at + sizeof note.header + ((note.header.n_namesz + UINT64_C(3)) & ~UINT64_C(3));
        uintptr_t next = text + ((note.header.n_descsz + UINT64_C(3)) & ~UINT64_C(3));
        if (next > end) return;
        if (note.header.n_type == NT_GNU_BUILD_ID && note.header.n_namesz == 4 && !memcmp(note.name, "GNU", 4)) {
            uint8_t size = note.header.n_descsz < MP_BUILD_ID_MAX ? (uint8_t)note.header.n_descsz : MP_BUILD_ID_MAX;
            if (mp_read_memory(file->build_id, text, size)) file->build_id_size = size;
            return;
        }
        at = next;
    }
}

static void read_notes(uint64_t bias, uintptr_t headers, size_t count, struct mp_file_id *file)
{
    ElfW(Phdr) header;
    for (size_t i = 0; i < count && !file->build_id_size; i++) {
        if (!mp_read_memory(&header, headers + i * sizeof header, sizeof header)) return;
        uintptr_t notes = bias + header.p_vaddr;
        if (header.p_type == PT_NOTE) read_build_id(notes, notes + header.p_memsz, file);
    }
}

static bool fill_from_link_map(const struct dl_find_object *found, struct mp_module_facts *facts)
{
    struct link_map map;
    ElfW(Ehdr) header;
    facts->start = (uint64_t)found->dlfo_map_start;
    facts->end = (uint64_t)found->dlfo_map_end;
    if (!mp_read_memory(&map, (uintptr_t)found->dlfo_link_map, sizeof map)) return false;
    facts->bias = map.l_addr;
    facts->dynamic = (uintptr_t)map.l_ld;
    facts->path = (uintptr_t)map.l_name;
    if (mp_read_memory(&header, facts->start, sizeof header) && !memcmp(header.e_ident, ELFMAG, SELFMAG))
        read_notes(facts->bias, facts->start + header.e_phoff, header.e_phnum, &facts->file);
    return true;
}

void mp_module_path(const struct mp_module_facts *facts, char *to, size_t room)
{
    enum { AT_ONCE = 64 };
    size_t length = 0;
    bool more = facts->path && room;
    while (more && length < room - 1) {
        /* Reads up to the end of a page: the text may end with the page. */
        size_t bytes = AT_ONCE - (facts->path + length) % AT_ONCE;
        if (bytes > room - 1 - length) bytes = room - 1 - length;
        if (!mp_read_memory(to + length, facts->path + length, bytes)) break;
        size_t text = strnlen(to + length, bytes);
        more = text == bytes;
        length += text;
    }
    to[length] = '\0';
    if (length) return;
    strncpy(to, program_path, room - 1);
    to[room - 1] = '\0';
}

struct search {
    uintptr_t address, eh_frame_header;
    struct mp_module_facts *facts;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    uint64_t start = UINT64_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        if (info->dlpi_addr + segment->p_vaddr < start) start = info->dlpi_addr + segment->p_vaddr;
        if (info->dlpi_addr + segment->p_vaddr + segment->p_memsz > end)
            end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    }
    if (search->address < start || search->address >= end) return 0;
    search->facts->start = start & ~UINT64_C(0xfff);
    search->facts->end = end;
    search->facts->bias = info->dlpi_addr;
    search->facts->path = (uintptr_t)info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            search->facts->dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        else if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            search->eh_frame_header = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    read_notes(info->dlpi_addr, (uintptr_t)info->dlpi_phdr, info->dlpi_phnum, &search->facts->file);
    return 1;
}

bool mp_module_place(uintptr_t address, struct mp_module_place *place)
{
    struct dl_find_object found;
    struct mp_module_facts facts = {0};
    struct search search = {.address = address, .facts = &facts};
    if (find_object ? find_object((void *)address, &found) : !dl_iterate_phdr(visit, &search)) return false;
    if (find_object)
        *place = (struct mp_module_place){(uint64_t)found.dlfo_map_start, (uint64_t)found.dlfo_map_end,
                                          (uintptr_t)found.dlfo_eh_frame};
    else
        *place = (struct mp_module_place){facts.start, facts.end, search.eh_frame_header};
    return true;
}

bool mp_module_of(uintptr_t address, struct mp_module_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    if (!find_object) {
        struct search search = {.address = address, .facts = facts};
        return dl_iterate_phdr(visit, &search) == 1;
    }
    struct dl_find_object found;
    if (find_object((void *)address, &found)) return false;
    return fill_from_link_map(&found, facts);
}
