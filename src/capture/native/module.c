#include "capture/native/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 35)
/* As <dlfcn.h> of glibc 2.35 has it: the function is looked up, and may be there where the headers are older. */
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

static void read_build_id(const char *note, size_t bytes, struct mp_file_id *file)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *header = (const ElfW(Nhdr) *)note;
        size_t name_bytes = (header->n_namesz + 3u) & ~3u, text_bytes = (header->n_descsz + 3u) & ~3u;
        if (name_bytes + text_bytes + sizeof *header > bytes) return;
        const char *name = note + sizeof *header;
        if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
            file->build_id_size = header->n_descsz < MP_BUILD_ID_MAX ? (uint8_t)header->n_descsz : MP_BUILD_ID_MAX;
            memcpy(file->build_id, name + name_bytes, file->build_id_size);
            return;
        }
        note += sizeof *header + name_bytes + text_bytes;
        bytes -= sizeof *header + name_bytes + text_bytes;
    }
}

static void read_notes(uint64_t bias, const ElfW(Phdr) * headers, size_t count, struct mp_file_id *file)
{
    for (size_t i = 0; i < count && !file->build_id_size; i++)
        if (headers[i].p_type == PT_NOTE)
            read_build_id((const char *)(bias + headers[i].p_vaddr), headers[i].p_memsz, file);
}

static const char *path_of(const char *name)
{
    return name && *name ? name : program_path;
}

static void fill_from_link_map(const struct dl_find_object *found, struct mp_module_facts *facts)
{
    facts->start = (uint64_t)found->dlfo_map_start;
    facts->end = (uint64_t)found->dlfo_map_end;
    facts->bias = found->dlfo_link_map->l_addr;
    facts->dynamic = (uintptr_t)found->dlfo_link_map->l_ld;
    facts->path = path_of(found->dlfo_link_map->l_name);
    facts->eh_frame_header = found->dlfo_eh_frame;
    const ElfW(Ehdr) *header = found->dlfo_map_start;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG)) return;
    read_notes(facts->bias, (const ElfW(Phdr) *)((const char *)header + header->e_phoff), header->e_phnum,
               &facts->file);
}

struct search {
    uintptr_t address;
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
    search->facts->path = path_of(info->dlpi_name);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            search->facts->dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        else if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            search->facts->eh_frame_header = (const unsigned char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    read_notes(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, &search->facts->file);
    return 1;
}

bool mp_module_has(uintptr_t address)
{
    struct mp_module_facts facts;
    struct dl_find_object found;
    return find_object ? !find_object((void *)address, &found) : mp_module_of(address, &facts);
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
    fill_from_link_map(&found, facts);
    return true;
}
