#include "attach/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "collect/symbols/debug_files.h"

/* Far above what linkers make (PyTorch 2.15: 40 sections, .eh_frame of 12 MiB, entries below 8 KiB). Below them, each
 * step of libelf and libdw takes less than a second. */
#define SECTIONS_MOST    1024
#define SEGMENTS_MOST    1024
#define NAMES_MOST       (64u << 10)  /* bytes of the sections' names */
#define SYMBOLS_MOST     (32u << 20)  /* bytes of symbol tables that one lookup reads */
#define STRINGS_MOST     (256u << 20) /* bytes of a symbol table's names */
#define FRAMES_MOST      (256u << 20)
#define FRAMES_ENTRY     (64u << 10) /* libdw keeps some 400 bytes for each byte of an entry */
#define HEADER_SEARCHED  12          /* bytes of .eh_frame_hdr before its table, in the only form that linkers write */
#define TABLE_OF_OFFSETS 0x3b        /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* Opening a device or a pipe may wait, or do something. O_PATH does not open, and what it found is opened if it is a
 * regular file. */
static int open_regular(const char *path, unsigned long long inode)
{
    struct stat facts;
    char found[64];
    int at = open(path, O_PATH | O_CLOEXEC), fd = -1;
    snprintf(found, sizeof found, "/proc/self/fd/%d", at);
    if (at >= 0 && !fstat(at, &facts) && S_ISREG(facts.st_mode) && facts.st_ino == inode)
        fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int number = errno;
    if (at >= 0) close(at);
    errno = number;
    return fd;
}

/* The kernel's link leads to the mapped file whatever its name is now; it takes CAP_SYS_ADMIN. Without that, the name
 * counts, in the process's own mounts. */
int mp_mapped_file_open(uint32_t pid, const struct mp_mapping *mapping)
{
    char path[64 + sizeof mapping->path];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, pid, mapping->start, mapping->end);
    int fd = open_regular(path, mapping->inode);
    if (fd >= 0 || errno == EMFILE) return fd;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/root%s", pid, mapping->path);
    return open_regular(path, mapping->inode);
}

static _Atomic bool shrunk;

static void fill_hole(int number, siginfo_t *fact, void *context)
{
    enum { PAGE = 4096, IS_WRITE = 2 };
    const ucontext_t *state = context;
    char *page = (char *)fact->si_addr - (uintptr_t)fact->si_addr % PAGE;
    int before = errno;
    bool read = fact->si_code == BUS_ADRERR && !(state->uc_mcontext.gregs[REG_ERR] & IS_WRITE);
    if (!read || mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL); /* and the same instruction comes again */
    else
        atomic_store(&shrunk, true);
    errno = before;
}

void mp_mapped_file_guard(void)
{
    const struct sigaction guard = {.sa_sigaction = fill_hole, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &guard, NULL);
}

bool mp_mapped_file_shrunk(void)
{
    return atomic_load(&shrunk);
}

/* libelf reserves room for as many sections as a file says. */
static Elf *open_elf(int fd)
{
    Elf64_Ehdr header;
    if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64 || header.e_phnum > SEGMENTS_MOST || header.e_shnum > SECTIONS_MOST ||
        (header.e_shoff && !header.e_shnum) || (header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)) ||
        (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
        return NULL;
    elf_version(EV_CURRENT);
    return elf_begin(fd, ELF_C_READ, NULL);
}

/* The next loaded segment, from number *i on. */
static bool next_segment(Elf *elf, size_t *i, GElf_Phdr *segment)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) || count > SEGMENTS_MOST) return false;
    while (*i < count)
        if (gelf_getphdr(elf, (int)(*i)++, segment) && segment->p_type == PT_LOAD) return true;
    return false;
}

/* Finds the bias of the file from one mapping of its code: it is the bias of the segment with these bytes. */
static bool find_bias(Elf *elf, const struct mp_mapping *mapping, uint64_t *bias)
{
    GElf_Phdr segment;
    for (size_t i = 0; next_segment(elf, &i, &segment);) {
        uint64_t page_offset = segment.p_offset & ~UINT64_C(0xfff);
        if (!(segment.p_flags & PF_X) || mapping->offset < page_offset ||
            mapping->offset >= segment.p_offset + segment.p_filesz)
            continue;
        *bias = mapping->start - (segment.p_vaddr + mapping->offset - segment.p_offset);
        return true;
    }
    return false;
}

static void find_extent(Elf *elf, struct mp_attach_module *module)
{
    GElf_Phdr segment;
    module->start = UINT64_MAX;
    for (size_t i = 0; next_segment(elf, &i, &segment);) {
        uint64_t start = module->bias + (segment.p_vaddr & ~UINT64_C(0xfff));
        uint64_t end = module->bias + segment.p_vaddr + segment.p_memsz;
        if (start < module->start) module->start = start;
        if (end > module->end) module->end = end;
    }
}

struct mp_attach_module *mp_mapped_file_module(int fd, const struct mp_mapping *mapping)
{
    struct mp_attach_module *module = calloc(1, sizeof *module);
    struct stat facts;
    if (!module) {
        close(fd);
        return NULL;
    }
    module->fd = fd;
    module->path = strdup(mapping->path);
    char *deleted = module->path ? strstr(module->path, " (deleted)") : NULL;
    if (deleted) *deleted = '\0';
    if (module->path && !fstat(fd, &facts)) module->elf = open_elf(fd);
    if (!module->elf || !find_bias(module->elf, mapping, &module->bias)) {
        mp_mapped_file_free(module);
        return NULL;
    }
    find_extent(module->elf, module);
    module->id.build_id_size = (uint8_t)mp_read_build_id(fd, module->id.build_id, sizeof module->id.build_id);
    if (!module->id.build_id_size) {
        module->id.size = (uint64_t)facts.st_size;
        module->id.inode = facts.st_ino;
        module->id.mtime_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
    }
    return module;
}

void mp_mapped_file_free(struct mp_attach_module *module)
{
    if (!module) return;
    if (module->cfi) dwarf_cfi_end(module->cfi);
    if (module->elf) elf_end(module->elf);
    close(module->fd);
    free(module->path);
    free(module);
}

/* ---- symbols ---------------------------------------------------------------------------------------------------- */

/* The section's bytes, if there are at most `most`. */
static const Elf_Data *data_of(Elf_Scn *section, uint64_t most)
{
    GElf_Shdr header;
    if (!section || !gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS || header.sh_size > most)
        return NULL;
    const Elf_Data *data = elf_getdata(section, NULL);
    return data && data->d_buf ? data : NULL;
}

/* True if the text at `at` is `name`. A text may have no end. */
static bool is_text(const Elf_Data *texts, uint64_t at, const char *name, size_t length)
{
    return at < texts->d_size && texts->d_size - at > length &&
           !memcmp((const char *)texts->d_buf + at, name, length + 1);
}

bool mp_attach_symbol(const struct mp_attach_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
    size_t length = strlen(name), read = 0;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(module->elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB)) continue;
        const Elf_Data *symbols = data_of(section, SYMBOLS_MOST - read);
        const Elf_Data *texts = symbols ? data_of(elf_getscn(module->elf, header.sh_link), STRINGS_MOST) : NULL;
        if (!texts) continue;
        read += symbols->d_size;
        for (size_t i = 0; i < symbols->d_size / sizeof(Elf64_Sym); i++) {
            Elf64_Sym symbol;
            memcpy(&symbol, (const char *)symbols->d_buf + i * sizeof symbol, sizeof symbol);
            if (symbol.st_shndx == SHN_UNDEF || !is_text(texts, symbol.st_name, name, length)) continue;
            *address = symbol.st_value;
            *bytes = symbol.st_size;
            return true;
        }
    }
    return false;
}

bool mp_attach_file_offset(const struct mp_attach_module *module, uint64_t address, uint64_t *offset)
{
    GElf_Phdr segment;
    for (size_t i = 0; next_segment(module->elf, &i, &segment);) {
        if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
        *offset = address - segment.p_vaddr + segment.p_offset;
        return true;
    }
    return false;
}

/* ---- .eh_frame -------------------------------------------------------------------------------------------------- */

static uint32_t word_at(const Elf_Data *data, size_t at)
{
    uint32_t word;
    memcpy(&word, (const char *)data->d_buf + at, sizeof word);
    return word;
}

static bool is_marked(const unsigned char *entries, uint64_t at)
{
    return entries[at / 8] >> at % 8 & 1;
}

/* Marks where entries begin. False: one is longer than linkers make them, or belongs to none before it. */
static bool mark_entries(const Elf_Data *frames, unsigned char *entries)
{
    for (size_t at = 0, end; frames->d_size - at >= 2 * sizeof(uint32_t); at = end) {
        uint32_t length = word_at(frames, at), back = word_at(frames, at + 4);
        if (!length) return true; /* the end */
        if (length > FRAMES_ENTRY || length > frames->d_size - at - 4 || length < 4) return false;
        end = at + 4 + length;
        if (back && (back > at + 4 || !is_marked(entries, at + 4 - back))) return false;
        entries[at / 8] |= (unsigned char)(1 << at % 8);
    }
    return true;
}

/* True if each offset of the search table leads to an entry. */
static bool leads_to_entries(const Elf_Data *table, uint64_t table_address, const Elf_Data *frames,
                             uint64_t frames_address, const unsigned char *entries)
{
    const unsigned char *head = table->d_buf;
    if (table->d_size < HEADER_SEARCHED || head[3] != TABLE_OF_OFFSETS) return false;
    uint64_t count = word_at(table, 8);
    if (count > (table->d_size - HEADER_SEARCHED) / 8) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t to = table_address + (uint64_t)(int64_t)(int32_t)word_at(table, HEADER_SEARCHED + i * 8 + 4);
        if (to - frames_address >= frames->d_size || !is_marked(entries, to - frames_address)) return false;
    }
    return true;
}

/* libdw follows whatever these tables say. So both are read here first, and only those that linkers make are used. */
static bool are_usable(Elf *elf)
{
    size_t names_number;
    GElf_Shdr header;
    const Elf_Data *frames = NULL, *table = NULL, *names;
    uint64_t frames_address = 0, table_address = 0;
    if (elf_getshdrstrndx(elf, &names_number) || !(names = data_of(elf_getscn(elf, names_number), NAMES_MOST)))
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        if (!gelf_getshdr(section, &header)) return false;
        bool is_frames = is_text(names, header.sh_name, ".eh_frame", 9);
        if (!is_frames && !is_text(names, header.sh_name, ".eh_frame_hdr", 13)) continue;
        const Elf_Data **data = is_frames ? &frames : &table;
        if (*data || header.sh_flags & SHF_COMPRESSED || !(*data = data_of(section, FRAMES_MOST))) return false;
        *(is_frames ? &frames_address : &table_address) = header.sh_addr;
    }
    unsigned char *entries = frames ? calloc(1, frames->d_size / 8 + 1) : NULL;
    bool usable = entries && mark_entries(frames, entries) &&
                  (!table || leads_to_entries(table, table_address, frames, frames_address, entries));
    free(entries);
    return usable;
}

Dwarf_CFI *mp_mapped_file_frames(struct mp_attach_module *module)
{
    if (!module->cfi_sought && are_usable(module->elf)) module->cfi = dwarf_getcfi_elf(module->elf);
    module->cfi_sought = true;
    return module->cfi;
}
