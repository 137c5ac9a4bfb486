/* The format: System V ABI, "Dynamic Linking"; GNU's hash table: glibc, elf/dl-lookup.c. */
#include "capture/native/loaded.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LOADED_MAX 8192 /* entries that are read: a list that changes meanwhile may become circular */
#define CHAIN_MAX  4096
#define SYMBOL_MAX 256

struct tables {
    uintptr_t symbols, names, gnu_hash, hash;
};

/* The loader replaces most of the file's offsets by addresses, but not all of them on some machines. */
static uintptr_t address_of(const struct mp_loaded *loaded, ElfW(Addr) value)
{
    return value < loaded->bias ? loaded->bias + value : value;
}

static bool read_tables(const struct mp_loaded *loaded, struct tables *tables)
{
    enum { AT_ONCE = 16, MOST = 16 };
    *tables = (struct tables){0};
    for (unsigned part = 0; part < MOST; part++) {
        ElfW(Dyn) entries[AT_ONCE];
        uintptr_t from = loaded->dynamic + part * sizeof entries;
        unsigned count = AT_ONCE;
        while (count && !mp_read_memory(entries, from, count * sizeof *entries))
            count /= 2; /* the section may end with its page */
        for (unsigned i = 0; i < count; i++) {
            uintptr_t at = address_of(loaded, entries[i].d_un.d_ptr);
            if (entries[i].d_tag == DT_NULL)
                return tables->symbols && tables->names && (tables->gnu_hash || tables->hash);
            if (entries[i].d_tag == DT_SYMTAB) tables->symbols = at;
            if (entries[i].d_tag == DT_STRTAB) tables->names = at;
            if (entries[i].d_tag == DT_GNU_HASH) tables->gnu_hash = at;
            if (entries[i].d_tag == DT_HASH) tables->hash = at;
        }
        if (count < AT_ONCE) return false;
    }
    return false;
}

static bool is_called(uintptr_t text, const char *name)
{
    char there[SYMBOL_MAX];
    size_t bytes = strlen(name) + 1;
    return bytes <= sizeof there && mp_read_memory(there, text, bytes) && !memcmp(there, name, bytes);
}

/* The address of symbol `number`, if the library defines it and its name is `name`. */
static void *definition(const struct mp_loaded *loaded, const struct tables *tables, uint32_t number, const char *name)
{
    ElfW(Sym) symbol;
    if (!mp_read_memory(&symbol, tables->symbols + number * sizeof symbol, sizeof symbol)) return NULL;
    unsigned type = symbol.st_info & 0xf, binding = symbol.st_info >> 4;
    bool usable = symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE) &&
                  (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE);
    if (!usable || !is_called(tables->names + symbol.st_name, name)) return NULL;
    return (void *)(loaded->bias + symbol.st_value); /* NOLINT(performance-no-int-to-ptr) */
}

static void *find_by_gnu_hash(const struct mp_loaded *loaded, const struct tables *tables, const char *name)
{
    struct {
        uint32_t buckets, first, words, shift;
    } header;
    uint32_t hash = 5381, number, entry;
    ElfW(Addr) word;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    if (!mp_read_memory(&header, tables->gnu_hash, sizeof header) || !header.buckets || !header.words) return NULL;
    const unsigned bits = 8 * sizeof word;
    uintptr_t bloom = tables->gnu_hash + sizeof header, buckets = bloom + header.words * sizeof word;
    if (!mp_read_memory(&word, bloom + hash / bits % header.words * sizeof word, sizeof word) ||
        !(word >> hash % bits & 1) || !(word >> (hash >> header.shift) % bits & 1) ||
        !mp_read_memory(&number, buckets + hash % header.buckets * sizeof number, sizeof number) ||
        number < header.first)
        return NULL;
    uintptr_t chain = buckets + header.buckets * sizeof number;
    for (int i = 0; i < CHAIN_MAX; i++, number++) {
        if (!mp_read_memory(&entry, chain + (number - header.first) * sizeof entry, sizeof entry)) return NULL;
        void *found = (entry | 1) == (hash | 1) ? definition(loaded, tables, number, name) : NULL;
        if (found || entry & 1) return found;
    }
    return NULL;
}

static void *find_by_hash(const struct mp_loaded *loaded, const struct tables *tables, const char *name)
{
    uint32_t counts[2], hash = 0, number;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!mp_read_memory(counts, tables->hash, sizeof counts) || !counts[0]) return NULL;
    uintptr_t buckets = tables->hash + sizeof counts, chains = buckets + counts[0] * sizeof number;
    uintptr_t at = buckets + hash % counts[0] * sizeof number;
    for (int i = 0; i < CHAIN_MAX && mp_read_memory(&number, at, sizeof number) && number; i++) {
        void *found = definition(loaded, tables, number, name);
        if (found) return found;
        at = chains + number * sizeof number;
    }
    return NULL;
}

void *mp_loaded_symbol(const struct mp_loaded *loaded, const char *symbol)
{
    struct tables tables;
    if (!loaded->dynamic || !read_tables(loaded, &tables)) return NULL;
    return tables.gnu_hash ? find_by_gnu_hash(loaded, &tables, symbol) : find_by_hash(loaded, &tables, symbol);
}

/* True if the last part of a path begins with the name. */
static bool has_name(uintptr_t path, const char *name)
{
    enum { LONGEST = 4096 };
    char part[64];
    uintptr_t last = path, end = path + LONGEST;
    for (uintptr_t at = path; at < end;) {
        size_t bytes = sizeof part;
        while (bytes && !mp_read_memory(part, at, bytes))
            bytes /= 2; /* the page after the text may not be mapped */
        if (!bytes) return false;
        for (size_t i = 0; i < bytes && at + i < end; i++) {
            if (part[i] == '/') last = at + i + 1;
            if (!part[i]) end = at + i;
        }
        at += bytes;
    }
    size_t length = strlen(name);
    return length <= sizeof part && mp_read_memory(part, last, length) && !memcmp(part, name, length);
}

static bool find_library(const char *symbol, const char *name, bool after_ours, struct mp_loaded *found)
{
    uintptr_t at = (uintptr_t)_r_debug.r_map;
    struct link_map map;
    for (int i = 0; at && i < LOADED_MAX && mp_read_memory(&map, at, sizeof map); i++, at = (uintptr_t)map.l_next) {
        struct mp_loaded loaded = {map.l_addr, (uintptr_t)map.l_ld};
        bool ours = loaded.dynamic == (uintptr_t)_DYNAMIC;
        if (ours) after_ours = false;
        if (ours || after_ours || (name && !has_name((uintptr_t)map.l_name, name))) continue;
        if (!mp_loaded_symbol(&loaded, symbol) || mp_loaded_symbol(&loaded, "memprof_recorder_is_here")) continue;
        *found = loaded;
        return true;
    }
    return false;
}

bool mp_loaded_with(const char *symbol, const char *name, struct mp_loaded *found)
{
    return find_library(symbol, name, false, found);
}

bool mp_loaded_next(const char *symbol, struct mp_loaded *found)
{
    return find_library(symbol, NULL, true, found);
}

/* True if the entry before `end` still leads to `end`. This comes first, because the memory of `end` may have been
 * freed since. */
static bool is_still_the_end(const struct mp_loaded_end *end)
{
    struct link_map map, before;
    uintptr_t at = atomic_load(&end->map), dynamic = atomic_load(&end->dynamic);
    return at && mp_read_memory(&map, at, sizeof map) && (uintptr_t)map.l_ld == dynamic && !map.l_next &&
           mp_read_memory(&before, (uintptr_t)map.l_prev, sizeof before) && (uintptr_t)before.l_next == at;
}

bool mp_loaded_more(struct mp_loaded_end *end)
{
    uintptr_t at = (uintptr_t)_r_debug.r_map;
    struct link_map map;
    if (is_still_the_end(end)) return false;
    for (int i = 0; at && i < LOADED_MAX && mp_read_memory(&map, at, sizeof map); i++, at = (uintptr_t)map.l_next) {
        if (map.l_next) continue;
        atomic_store(&end->map, at);
        atomic_store(&end->dynamic, (uintptr_t)map.l_ld);
    }
    return true;
}

bool mp_loaded_at(const void *address, struct mp_loaded *found)
{
    struct mp_module_facts facts;
    if (!mp_module_of((uintptr_t)address, &facts) || !facts.dynamic) return false;
    *found = (struct mp_loaded){facts.bias, facts.dynamic};
    return found->dynamic != (uintptr_t)_DYNAMIC && !mp_loaded_symbol(found, "memprof_recorder_is_here");
}

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
