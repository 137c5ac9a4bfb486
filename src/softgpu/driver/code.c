/*
 * Code images: the driver loads the one that fits a device, and the kernels' needs stand in it. A fat binary's entries
 * carry 0x100000 in their flags if the code is only for that very device (sm_90a), 0x200000 if it is for the family of
 * devices from it on (sm_103f), as cuobjdump shows of PyTorch 2.7.1's and 2.15's libraries. Other code runs on devices
 * of the same major version and the same or a higher minor one. PTX is compiled for each device from its own version on
 * (CUDA C++ programming guide, "Binary compatibility", "PTX compatibility").
 */
#include "softgpu/driver/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/driver/driver.h"

#define FAT_BINARY 0xba55ed50u
#define WRAPPER    0x466243b1u
#define LARGEST    ((uint64_t)1 << 30)

struct wrapper { /* the argument of __cudaRegisterFatBinary() */
    uint32_t magic, version;
    const unsigned char *binary;
};

struct header {
    uint32_t magic;
    uint16_t version, bytes;
    uint64_t size; /* bytes of the entries behind this header */
};

struct entry {
    uint16_t kind, version;
    uint32_t bytes; /* bytes of this header */
    uint64_t size;
    uint32_t compressed_size, options;
    uint16_t minor, major;
    uint32_t capability; /* 90 means 9.0 */
    uint32_t name, name_length;
    uint64_t flags, zero, whole_size; /* whole_size: size of the uncompressed code */
};

enum { PTX = 1, CUBIN = 2, LZ4 = 0x2000, ZSTD = 0x8000, ONLY = 0x100000, FAMILY = 0x200000 };

/* Unpacks a block of LZ4. It is a sequence of literals, each followed by a match in the output so far. */
static bool unpack_lz4(const unsigned char *from, size_t length, unsigned char *to, size_t size)
{
    const unsigned char *end = from + length;
    size_t done = 0;
    while (from < end) {
        unsigned token = *from++;
        size_t literals = token >> 4, match = (token & 15) + 4;
        for (unsigned char more = 255; literals >= 15 && more == 255 && from < end; literals += more)
            more = *from++;
        if (literals > (size_t)(end - from) || literals > size - done) return false;
        memcpy(to + done, from, literals);
        done += literals;
        from += literals;
        if (end - from < 2) break;
        size_t back = from[0] | (size_t)from[1] << 8;
        from += 2;
        for (unsigned char more = 255; match >= 19 && more == 255 && from < end; match += more)
            more = *from++;
        if (!back || back > done || match > size - done) return false;
        for (; match; match--, done++)
            to[done] = to[done - back];
    }
    return done == size;
}

static bool unpack_zstd(const unsigned char *from, size_t length, unsigned char *to, size_t size)
{
    static size_t (*decompress)(void *, size_t, const void *, size_t);
    if (!decompress) {
        void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        void *found = library ? dlsym(library, "ZSTD_decompress") : NULL;
        memcpy(&decompress, &found, sizeof found);
    }
    return decompress && decompress(to, size, from, length) == size;
}

/* How well an entry fits the device: the highest fits best; 0: it does not run there. */
static int fit(const struct entry *entry, int capability)
{
    int version = (int)entry->capability;
    bool same_major = version / 10 == capability / 10;
    if (version > capability || (entry->flags & ONLY && version != capability)) return 0;
    if (entry->kind == PTX) return entry->flags & FAMILY && !same_major ? 0 : 4 * version;
    if (entry->kind != CUBIN || !same_major) return 0;
    return 4 * (version + 1000) + (entry->flags & ONLY ? 2 : entry->flags & FAMILY ? 1 : 0);
}

/* The entry that the driver loads; NULL: none. */
static const struct entry *entry_for(const struct header *header, int capability)
{
    const struct entry *best = NULL;
    const unsigned char *at = (const unsigned char *)header + header->bytes, *end = at + header->size;
    while (at + sizeof(struct entry) <= end) {
        const struct entry *entry = (const void *)at;
        if (fit(entry, capability) > (best ? fit(best, capability) : 0)) best = entry;
        if (!entry->bytes) break;
        at += entry->bytes + entry->size;
    }
    return best;
}

/* ---- ELF files ---- */

struct elf {
    const unsigned char *at;
    size_t length;
    const Elf64_Shdr *sections;
    size_t count;
};

static bool elf_has(const struct elf *elf, uint64_t offset, uint64_t bytes)
{
    return offset <= elf->length && bytes <= elf->length - offset;
}

/* `length` 0: up to the end of the file's last table. */
static bool open_elf(struct elf *elf, const void *at, size_t length)
{
    const Elf64_Ehdr *header = at;
    if (!length) {
        size_t sections = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
        size_t segments = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
        length = sections > segments ? sections : segments;
    }
    *elf = (struct elf){.at = at, .length = length};
    if (length < sizeof *header || memcmp(at, ELFMAG, SELFMAG) || header->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    elf->count = header->e_shnum;
    elf->sections = (const Elf64_Shdr *)(const void *)(elf->at + header->e_shoff);
    return header->e_shoff % 8 == 0 && elf_has(elf, header->e_shoff, elf->count * sizeof(Elf64_Shdr)) &&
           header->e_shstrndx < elf->count;
}

/* A name in a table of strings. It must end within the file. */
static const char *elf_text(const struct elf *elf, const Elf64_Shdr *table, uint32_t offset)
{
    uint64_t at = table->sh_offset + offset;
    return at < elf->length && memchr(elf->at + at, 0, elf->length - at) ? (const char *)elf->at + at : "";
}

/* True if a section belongs to the kernel: its name is `kind`, digits, a dot and the kernel's name. `kernel` NULL: any
 * kernel's. */
static bool is_of(const char *name, const char *kind, const char *kernel)
{
    if (strncmp(name, kind, strlen(kind))) return false;
    name += strlen(kind) + strspn(name + strlen(kind), "0123456789");
    return kernel ? *name == '.' && !strcmp(name + 1, kernel) : true;
}

static void raise_to(uint64_t *most, uint64_t value)
{
    if (value > *most) *most = value;
}

/* Reads a section .nv.info or .nv.info.KERNEL: attributes with format, kind, and with format 4 a length and values. In
 * the first, values are pairs of a symbol and a number. */
static void read_attributes(const struct elf *elf, const Elf64_Shdr *info, const Elf64_Shdr *symbols,
                            const char *kernel, struct soft_code *code)
{
    enum { VALUES = 4, THREADS = 0x05, STACK = 0x12, REGISTERS = 0x2f };
    for (uint64_t at = 0; at + 4 <= info->sh_size;) {
        const unsigned char *entry = elf->at + info->sh_offset + at;
        uint16_t length = 0;
        uint32_t values[3] = {0};
        if (entry[0] == VALUES) memcpy(&length, entry + 2, sizeof length);
        at += 4u + length;
        if (entry[0] != VALUES || at > info->sh_size) continue;
        memcpy(values, entry + 4, length < sizeof values ? length : sizeof values);
        if (entry[1] == THREADS) {
            uint64_t threads = (uint64_t)values[0] * values[1] * values[2];
            if (threads && threads < code->threads) code->threads = (unsigned)threads;
        }
        if (entry[1] != STACK && entry[1] != REGISTERS) continue;
        if (kernel) {
            Elf64_Sym symbol;
            if (!symbols || symbols->sh_link >= elf->count || (uint64_t)values[0] * sizeof symbol >= symbols->sh_size)
                continue;
            memcpy(&symbol, elf->at + symbols->sh_offset + values[0] * sizeof symbol, sizeof symbol);
            if (strcmp(elf_text(elf, &elf->sections[symbols->sh_link], symbol.st_name), kernel)) continue;
        }
        if (entry[1] == STACK) raise_to(&code->local, values[1]);
        if (entry[1] == REGISTERS && values[1] > code->registers) code->registers = values[1];
    }
}

static void read_elf(const void *at, size_t length, const char *kernel, struct soft_code *code)
{
    struct elf elf;
    if (!open_elf(&elf, at, length)) return;
    const Elf64_Shdr *names = &elf.sections[((const Elf64_Ehdr *)at)->e_shstrndx], *symbols = NULL;
    for (size_t i = 0; i < elf.count; i++)
        if (elf.sections[i].sh_type == SHT_SYMTAB) symbols = &elf.sections[i];
    code->registers = 0;
    for (size_t i = 0; i < elf.count; i++) {
        const Elf64_Shdr *section = &elf.sections[i];
        const char *name = elf_text(&elf, names, section->sh_name);
        if (is_of(name, ".nv.shared", kernel)) raise_to(&code->shared, section->sh_size);
        if (section->sh_type == SHT_NOBITS || !elf_has(&elf, section->sh_offset, section->sh_size)) continue;
        if (is_of(name, ".text", kernel) || is_of(name, ".nv.constant", kernel)) code->bytes += section->sh_size;
        if (!strcmp(name, ".nv.constant3")) raise_to(&code->constants, section->sh_size);
        if (!strcmp(name, ".nv.info") || is_of(name, ".nv.info", kernel))
            read_attributes(&elf, section, symbols, kernel, code);
    }
    if (!code->registers) code->registers = 32;
    /* A thread's registers limit a block: a warp gets them in units of 256 of 65536 (CUDA's occupancy calculator). */
    unsigned most = 65536 / ((code->registers * 32 + 255) / 256 * 256) * 32;
    if (most < code->threads) code->threads = most;
}

/* The device for which an ELF file was compiled; 0: unknown. */
static int version_of(const Elf64_Ehdr *header)
{
    bool newer = header->e_ident[EI_ABIVERSION] >= 8; /* since CUDA 13 */
    return header->e_machine == EM_CUDA ? (int)(header->e_flags >> (newer ? 8 : 0) & 0xff) : 0;
}

/* The entry that was unpacked last: the kernels of a program are often described in the order of their files. */
static struct {
    const struct entry *entry;
    unsigned char *code;
} unpacked;

static void read_entry(const struct entry *entry, const char *kernel, struct soft_code *code)
{
    const unsigned char *payload = (const unsigned char *)entry + entry->bytes;
    if (!(entry->flags & (LZ4 | ZSTD))) {
        read_elf(payload, entry->size, kernel, code);
        return;
    }
    if (unpacked.entry != entry) {
        free(unpacked.code);
        unpacked.code = entry->whole_size <= LARGEST ? malloc(entry->whole_size) : NULL;
        unpacked.entry = entry;
        bool small = entry->flags & ZSTD;
        if (unpacked.code &&
            !(small ? unpack_zstd : unpack_lz4)(payload, entry->compressed_size, unpacked.code, entry->whole_size)) {
            free(unpacked.code);
            unpacked.code = NULL;
        }
    }
    if (unpacked.code) read_elf(unpacked.code, entry->whole_size, kernel, code);
}

struct soft_code soft_code_of_image(const void *image, const char *kernel, int capability, bool whole)
{
    struct soft_code code = {.binary = capability, .ptx = capability, .registers = 32, .threads = SOFT_BLOCK_THREADS};
    if (!image) return code;
    const struct wrapper *wrapper = image;
    const struct header *header = wrapper->magic == WRAPPER ? (const void *)wrapper->binary : image;
    if (!memcmp(image, ELFMAG, SELFMAG)) {
        int version = version_of(image);
        if (version) code.binary = version / 10 == capability / 10 && version <= capability ? version : 0;
        code.ptx = code.binary;
        if (whole && code.binary) read_elf(image, 0, kernel, &code);
    } else if (header->magic == FAT_BINARY) {
        const struct entry *entry = entry_for(header, capability);
        code.ptx = entry ? (int)entry->capability : 0;
        if (!entry || entry->kind == CUBIN) code.binary = code.ptx;
        if (whole && entry && entry->kind == CUBIN) read_entry(entry, kernel, &code);
    } else if (!memcmp(image, ".ver", 4)) { /* PTX: its first local array counts as the stack */
        const char *local = strstr(image, ".local "), *size = local ? strchr(local, '[') : NULL;
        if (size) code.local = strtoull(size + 1, NULL, 10);
    }
    return code;
}

void soft_code_versions(const void *wrapper, int *least, int *most)
{
    const struct header *header = (const void *)((const struct wrapper *)wrapper)->binary;
    const unsigned char *at = (const unsigned char *)header + header->bytes, *end = at + header->size;
    *least = *most = 0;
    for (const struct entry *entry; at + sizeof *entry <= end && (entry = (const void *)at)->bytes;
         at += entry->bytes + entry->size) {
        if (!*least || (int)entry->capability < *least) *least = (int)entry->capability;
        if ((int)entry->capability > *most) *most = (int)entry->capability;
    }
}
