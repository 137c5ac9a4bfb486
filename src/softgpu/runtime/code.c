/*
 * The code of kernels that compiled programs register. Each source file has a fat binary with code for some devices,
 * compressed or not. It is read when a kernel is first launched, for the driver's share (driver/share.c).
 */
#include "softgpu/runtime/runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/driver_function.h"
#include "softgpu/elf.h"
#include "softgpu/softgpu.h"

#define FAT_BINARY 0xba55ed50u
#define ELF_CODE   2
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

enum { LZ4 = 0x2000, ZSTD = 0x8000 };

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

/* The entry with code for that capability, or for the nearest lower one; NULL: no entry has code. */
static const struct entry *entry_for(const struct wrapper *wrapper, int capability)
{
    const struct entry *best = NULL;
    const struct header *header = (const void *)wrapper->binary;
    if (!header || header->magic != FAT_BINARY) return NULL;
    const unsigned char *at = wrapper->binary + header->bytes, *end = at + header->size;
    while (at + sizeof(struct entry) <= end) {
        const struct entry *entry = (const void *)at;
        if (entry->kind == ELF_CODE && (int)entry->capability <= capability &&
            (!best || entry->capability > best->capability))
            best = entry;
        if (!entry->bytes) break;
        at += entry->bytes + entry->size;
    }
    return best;
}

static bool describe_code(const void *code, size_t length, const char *name, uint64_t *bytes, uint64_t *local)
{
    struct soft_elf elf;
    if (!soft_elf_open(&elf, code, length)) return false;
    *bytes = soft_elf_code(&elf, name);
    *local = soft_elf_local(&elf, name);
    return true;
}

static bool describe(const void *function, int capability, uint64_t *bytes, uint64_t *local)
{
    struct softrt_kernel kernel;
    if (!softrt_find_kernel(function, &kernel) || !kernel.wrapper) return false;
    const struct entry *entry = entry_for(kernel.wrapper, capability);
    if (!entry) return true;
    const unsigned char *payload = (const unsigned char *)entry + entry->bytes;
    if (!(entry->flags & (LZ4 | ZSTD))) {
        describe_code(payload, entry->size, kernel.name, bytes, local);
        return true;
    }
    unsigned char *code = entry->whole_size <= LARGEST ? malloc(entry->whole_size) : NULL;
    bool packed_small = entry->flags & ZSTD;
    if (code && (packed_small ? unpack_zstd : unpack_lz4)(payload, entry->compressed_size, code, entry->whole_size))
        describe_code(code, entry->whole_size, kernel.name, bytes, local);
    free(code);
    return true;
}

void softrt_offer_code(void)
{
    __typeof__(softgpu_describe) *offer;
    SOFT_DRIVER_FUNCTION(offer, "softgpu_describe");
    if (offer) offer(describe);
}
