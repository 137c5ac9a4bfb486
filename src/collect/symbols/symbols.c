#include "collect/symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"
#include "collect/symbols/debug_files.h"
#include "collect/symbols/demangle.h"

struct module {
    struct mp_symbol_file *file; /* NULL: none */
    char *note;
};

struct mp_symbols {
    MP_VEC(struct module) modules; /* by id */
    /* One entry for each file, shared by all modules that map it, even of several processes. */
    MP_VEC(struct mp_symbol_file *) files;
    struct mp_demangler *demangler;
};

enum mp_status mp_symbols_open(struct mp_symbols **symbols, struct mp_error *error)
{
    *symbols = calloc(1, sizeof **symbols);
    if (*symbols) (*symbols)->demangler = mp_demangler_open();
    if (*symbols && (*symbols)->demangler) return MP_OK;
    free(*symbols);
    *symbols = NULL;
    return mp_fail(error, MP_NO_MEMORY, "no memory for symbols");
}

static int64_t mtime_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * (int64_t)MP_NS_PER_SECOND + status->st_mtim.tv_nsec;
}

/* True if the open file is the one that the program loaded. */
static bool is_same(int fd, const struct stat *status, const struct mp_file_id *id)
{
    unsigned char build_id[MP_BUILD_ID_MAX];
    if (!id) return true;
    size_t size = id->build_id_size ? mp_read_build_id(fd, build_id, sizeof build_id) : 0;
    if (size) return size == id->build_id_size && !memcmp(build_id, id->build_id, size);
    return (uint64_t)status->st_size == id->size && (uint64_t)status->st_ino == id->inode &&
           mtime_ns(status) == id->mtime_ns;
}

/* True if `id` has no facts about the file that the program loaded. */
static bool is_unknown(const struct mp_file_id *id)
{
    return id && !id->build_id_size && !id->inode;
}

static struct mp_symbol_file *find_shared(const struct mp_symbols *symbols, const struct stat *status)
{
    for (size_t i = 0; i < symbols->files.count; i++)
        if (mp_symbol_file_is(symbols->files.at[i], status)) return symbols->files.at[i];
    return NULL;
}

/* Opens the file of `module`, or leaves a note there. */
static void attach(struct mp_symbols *symbols, struct module *module, const char *path, const struct mp_file_id *id,
                   const char *root)
{
    char *full;
    struct stat status;
    if (asprintf(&full, "%s%s", root, path) < 0) return;
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *trouble = fd < 0 || fstat(fd, &status) != 0 ? strerror(errno)
                          : !S_ISREG(status.st_mode)        ? "it is no regular file"
                          : is_unknown(id) ? "it has no build-id, and may be another than the program had loaded"
                          : !is_same(fd, &status, id) ? "it was replaced after the program had loaded it"
                                                      : NULL;
    if (trouble) {
        if (asprintf(&module->note, "no symbols of %s: %s", path, trouble) < 0) module->note = NULL;
    } else {
        module->file = find_shared(symbols, &status);
        if (!module->file && mp_vec_reserve(&symbols->files, 1)) {
            module->file = mp_symbol_file_open(fd, &status, full, strlen(root));
            if (module->file) {
                symbols->files.at[symbols->files.count++] = module->file;
                fd = -1; /* the new symbol file owns it now */
            }
        }
    }
    if (fd >= 0) close(fd);
    free(full);
}

enum mp_status mp_symbols_add_module(struct mp_symbols *symbols, uint32_t module, const char *path,
                                     const struct mp_file_id *id, const char *root, struct mp_error *error)
{
    if (module >= MP_SYMBOL_MODULES_MAX) return mp_fail(error, MP_LIMIT, "module %u is beyond the limit", module);
    if (!mp_vec_extend(&symbols->modules, (size_t)module + 1))
        return mp_fail(error, MP_NO_MEMORY, "no memory for modules");
    struct module *at = &symbols->modules.at[module];
    free(at->note);
    *at = (struct module){0};
    if (*path == '/') attach(symbols, at, path, id, root ? root : "");
    return MP_OK;
}

const char *mp_symbols_note(const struct mp_symbols *symbols, uint32_t module)
{
    if (module >= symbols->modules.count) return NULL;
    const struct module *at = &symbols->modules.at[module];
    return at->note ? at->note : at->file ? mp_symbol_file_note(at->file) : NULL;
}

size_t mp_symbols_resolve(struct mp_symbols *symbols, uint32_t module, uint64_t offset,
                          const struct mp_symbol_line **lines)
{
    *lines = NULL;
    if (module >= symbols->modules.count || !symbols->modules.at[module].file || !offset) return 0;
    return mp_symbol_file_find(symbols->modules.at[module].file, offset - 1, symbols->demangler, lines);
}

void mp_symbols_close(struct mp_symbols *symbols)
{
    if (!symbols) return;
    for (size_t i = 0; i < symbols->modules.count; i++)
        free(symbols->modules.at[i].note);
    for (size_t i = 0; i < symbols->files.count; i++)
        mp_symbol_file_close(symbols->files.at[i]);
    mp_vec_free(&symbols->modules);
    mp_vec_free(&symbols->files);
    mp_demangler_close(symbols->demangler);
    free(symbols);
}
