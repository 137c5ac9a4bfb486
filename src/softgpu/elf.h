/*
 * Reads how much device memory a compiled kernel needs, from the ELF file that NVIDIA's compilers made. For the
 * stand-in driver and the stand-in runtime. Reads nothing beyond `length`. Allocates nothing; any thread; the only
 * error is "not found".
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct soft_elf {
    const unsigned char *at;
    size_t length;
    const Elf64_Shdr *sections;
    size_t count;
};

/* True if the file has `bytes` from `offset` on. */
static inline bool soft_elf_has(const struct soft_elf *elf, uint64_t offset, uint64_t bytes)
{
    return offset <= elf->length && bytes <= elf->length - offset;
}

static inline bool soft_elf_open(struct soft_elf *elf, const void *at, size_t length)
{
    const Elf64_Ehdr *header = at;
    *elf = (struct soft_elf){.at = at, .length = length};
    if (length < sizeof *header || memcmp(at, ELFMAG, SELFMAG) || header->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    elf->count = header->e_shnum;
    elf->sections = (const Elf64_Shdr *)(const void *)(elf->at + header->e_shoff);
    return header->e_shoff % 8 == 0 && soft_elf_has(elf, header->e_shoff, elf->count * sizeof(Elf64_Shdr)) &&
           header->e_shstrndx < elf->count;
}

/* The length of an ELF file in memory: up to the end of its last table. */
static inline size_t soft_elf_length(const void *at)
{
    const Elf64_Ehdr *header = at;
    size_t sections = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    size_t segments = header->e_phoff + (size_t)header->e_phnum * header->e_phentsize;
    return sections > segments ? sections : segments;
}

/* A name in a table of strings. It must end within the file. */
static inline const char *soft_elf_text(const struct soft_elf *elf, const Elf64_Shdr *table, uint32_t offset)
{
    uint64_t at = table->sh_offset + offset;
    return at < elf->length && memchr(elf->at + at, 0, elf->length - at) ? (const char *)elf->at + at : "";
}

static inline const char *soft_elf_name(const struct soft_elf *elf, const Elf64_Shdr *section)
{
    const Elf64_Ehdr *header = (const void *)elf->at;
    return soft_elf_text(elf, &elf->sections[header->e_shstrndx], section->sh_name);
}

/* Bytes of the kernel's code and constants. `kernel` NULL: of all kernels together. */
static inline uint64_t soft_elf_code(const struct soft_elf *elf, const char *kernel)
{
    static const char *const kinds[] = {".text.", ".nv.constant"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < elf->count; i++) {
        const char *name = soft_elf_name(elf, &elf->sections[i]);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (strncmp(name, kinds[k], strlen(kinds[k]))) continue;
            const char *of = strchr(name + 1 + (k == 1 ? 3 : 0), '.');
            if (!kernel || (of && !strcmp(of + 1, kernel))) bytes += elf->sections[i].sh_size;
        }
    }
    return bytes;
}

/* Bytes of local memory that a thread of the kernel takes. `kernel` NULL: the most of all kernels. The section .nv.info
 * lists attributes: format, kind, and with format 4 a length and values. Kind 0x12 is the least stack of a symbol. */
static inline uint64_t soft_elf_local(const struct soft_elf *elf, const char *kernel)
{
    enum { VALUES = 4, STACK = 0x12, PAIR = 8 };
    const Elf64_Shdr *info = NULL, *symbols = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < elf->count; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        if (!soft_elf_has(elf, section->sh_offset, section->sh_type == SHT_NOBITS ? 0 : section->sh_size)) continue;
        if (!strcmp(soft_elf_name(elf, section), ".nv.info")) info = section;
        if (section->sh_type == SHT_SYMTAB) symbols = section;
    }
    for (uint64_t at = 0; info && at + 4 <= info->sh_size;) {
        const unsigned char *entry = elf->at + info->sh_offset + at;
        uint16_t length = 0;
        if (entry[0] == VALUES) memcpy(&length, entry + 2, sizeof length);
        at += 4u + length;
        if (entry[0] != VALUES || entry[1] != STACK || length != PAIR || at > info->sh_size) continue;
        uint32_t pair[2];
        memcpy(pair, entry + 4, sizeof pair);
        if (kernel) {
            Elf64_Sym symbol;
            if (!symbols || symbols->sh_link >= elf->count || (uint64_t)pair[0] * sizeof symbol >= symbols->sh_size)
                continue;
            memcpy(&symbol, elf->at + symbols->sh_offset + pair[0] * sizeof symbol, sizeof symbol);
            if (strcmp(soft_elf_text(elf, &elf->sections[symbols->sh_link], symbol.st_name), kernel)) continue;
        }
        if (pair[1] > most) most = pair[1];
    }
    return most;
}
