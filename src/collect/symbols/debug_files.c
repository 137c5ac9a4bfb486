#include "collect/symbols/debug_files.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define DEBUG_FOLDER "/usr/lib/debug"
#define BUILD_ID_MAX 64

/* The proof that a candidate file belongs to the module: its build-id or checksum. */
struct proof {
    const unsigned char *build_id;
    int build_id_size; /* 0: compare the checksum */
    GElf_Word crc;
};

size_t mp_read_build_id(int fd, unsigned char *build_id, size_t room)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    if (!elf) return 0;
    const void *bits;
    ssize_t size = dwelf_elf_gnu_build_id(elf, &bits);
    size_t length = size > 0 ? (size_t)size : 0;
    if (length > room) length = room;
    if (length) memcpy(build_id, bits, length);
    elf_end(elf);
    return length;
}

static bool has_crc(int fd, GElf_Word wanted)
{
    unsigned char data[8192]; /* small, since the limit on stacks may be low */
    uLong crc = crc32(0, Z_NULL, 0);
    off_t at = 0;
    ssize_t got;
    while ((got = pread(fd, data, sizeof data, at)) > 0) {
        crc = crc32(crc, data, (uInt)got);
        at += got;
    }
    return got == 0 && at > 0 && crc == wanted;
}

static bool proves(int fd, const struct proof *proof)
{
    if (!proof->build_id_size) return has_crc(fd, proof->crc);
    unsigned char id[BUILD_ID_MAX];
    size_t size = mp_read_build_id(fd, id, sizeof id);
    return size == (size_t)proof->build_id_size && !memcmp(id, proof->build_id, size);
}

/* Opens root + folder + name if that is the wanted file. *found is then the path, which the caller frees. */
static int try_path(const struct proof *proof, const char *root, int root_length, const char *folder, int folder_length,
                    const char *name, char **found)
{
    char *path;
    if (asprintf(&path, "%.*s%.*s%s", root_length, root, folder_length, folder, name) < 0) return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && proves(fd, proof)) {
        *found = path;
        return fd;
    }
    if (fd >= 0) close(fd);
    free(path);
    return -1;
}

/* Tries a name relative to /usr/lib/debug, first under the module's root, then under memprof's own root. */
static int try_debug_folder(const struct proof *proof, const struct mp_debug_search *search, const char *name,
                            char **found)
{
    char *in_folder;
    if (asprintf(&in_folder, DEBUG_FOLDER "%s", name) < 0) return -1;
    int fd = -1;
    if (search->root_length) fd = try_path(proof, search->path, (int)search->root_length, "", 0, in_folder, found);
    if (fd < 0) fd = try_path(proof, "", 0, "", 0, in_folder, found);
    free(in_folder);
    return fd;
}

static int try_build_id(const struct proof *proof, const struct mp_debug_search *search, char **found)
{
    char name[sizeof "/.build-id//.debug" + 2 * BUILD_ID_MAX], *end = name;
    end += sprintf(end, "/.build-id/%02x/", proof->build_id[0]);
    for (int i = 1; i < proof->build_id_size; i++)
        end += sprintf(end, "%02x", proof->build_id[i]);
    strcpy(end, ".debug");
    return try_debug_folder(proof, search, name, found);
}

/* `from` is the file with the link. The target is in the folder of `from`, in .debug there, or under /usr/lib/debug. */
static int try_link(const struct proof *proof, const struct mp_debug_search *search, const char *from, const char *link,
                    char **found)
{
    if (*link == '/') return try_path(proof, "", 0, "", 0, link, found);
    const char *slash = strrchr(from, '/');
    int folder_length = slash ? (int)(slash - from) + 1 : 0;
    int fd = try_path(proof, "", 0, from, folder_length, link, found);
    char *name;
    if (fd < 0 && asprintf(&name, "%.*s.debug/%s", folder_length, from, link) >= 0) {
        fd = try_path(proof, "", 0, "", 0, name, found);
        free(name);
    }
    size_t skip = strncmp(from, search->path, search->root_length) ? 0 : search->root_length;
    if (fd < 0 && asprintf(&name, "%.*s%s", folder_length - (int)skip, from + skip, link) >= 0) {
        fd = try_debug_folder(proof, search, name, found);
        free(name);
    }
    return fd;
}

int mp_find_debug_file(Dwfl_Module *module, void **userdata, const char *module_name, Dwarf_Addr base,
                       const char *file_name, const char *link, GElf_Word link_crc, char **found)
{
    const struct mp_debug_search *search = *userdata;
    struct proof proof = {.crc = link_crc};
    GElf_Addr address;
    proof.build_id_size = dwfl_module_build_id(module, &proof.build_id, &address);
    if (proof.build_id_size < 0 || proof.build_id_size > BUILD_ID_MAX) proof.build_id_size = 0;

    int fd = -1;
    if (proof.build_id_size) fd = try_build_id(&proof, search, found);
    /* If the alternate file of dwz is wanted, file_name is the debug file, and the link is relative to it. */
    if (fd < 0 && link) fd = try_link(&proof, search, file_name ? file_name : search->path, link, found);
    errno = 0; /* for libdwfl, any other value means that the search failed, instead of "there is none" */
    return fd;
}
