#include "collect/symbols/symbol_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/vec.h"
#include "collect/symbols/debug_files.h"
#include "collect/symbols/demangle.h"
#include "collect/symbols/extents.h"
#include "collect/symbols/source_lines.h"

/* A kept answer is one number: the number of lines in the low COUNT_BITS bits, and the index of the first line above
 * them. */
#define COUNT_BITS 8
#define COUNT_MASK ((1u << COUNT_BITS) - 1)
_Static_assert(MP_INLINE_DEPTH + 1 <= COUNT_MASK, "the lines of one address are counted in COUNT_BITS");

struct mp_symbol_file {
    int fd;
    struct stat status;
    char *path, *note;
    struct mp_debug_search search;
    bool loaded, changed;
    Dwfl *dwfl;
    void **userdata;             /* where dwfl stores the pointer to `search`; NULL: there is no module */
    struct mp_extents functions; /* values: const char * of the symbol's name */
    struct mp_source_lines *source;
    Dwarf_Addr source_bias;
    struct mp_map answers; /* address + 1 to first line << COUNT_BITS | number of lines */
    MP_VEC(struct mp_symbol_line) lines;
};

/* Replaces libdwfl's search for the file, which would ask the network. It is never needed, because we pass the open
 * file. */
static int find_no_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **found, Elf **elf)
{
    return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = find_no_elf,
    .find_debuginfo = mp_find_debug_file,
    .section_address = dwfl_offline_section_address,
};

struct mp_symbol_file *mp_symbol_file_open(int fd, const struct stat *status, const char *path, size_t root_length)
{
    struct mp_symbol_file *file = calloc(1, sizeof *file);
    if (!file) return NULL;
    *file = (struct mp_symbol_file){.fd = fd, .status = *status, .path = strdup(path)};
    file->search = (struct mp_debug_search){file->path, root_length};
    if (file->path) return file;
    free(file);
    return NULL;
}

bool mp_symbol_file_is(const struct mp_symbol_file *file, const struct stat *status)
{
    const struct stat *own = &file->status;
    return status->st_ino == own->st_ino && status->st_dev == own->st_dev && status->st_size == own->st_size &&
           status->st_mtim.tv_sec == own->st_mtim.tv_sec && status->st_mtim.tv_nsec == own->st_mtim.tv_nsec;
}

/* Ranks several names of one function by how well people know them: `write` before `__write`, global before local. */
static int rank_of(const char *name, const GElf_Sym *symbol)
{
    int underscores = 0, binding = GELF_ST_BIND(symbol->st_info);
    while (underscores < 16 && name[underscores] == '_')
        underscores++;
    if (underscores == 1 && name[1] == 'Z') underscores = 0; /* a mangled name */
    return -4 * underscores + (binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0);
}

static void load_functions(struct mp_symbol_file *file, Dwfl_Module *module)
{
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name = dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);
        int type = GELF_ST_TYPE(symbol.st_info);
        bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
        /* A symbol without a size marks a beginning, but no extent. It therefore names no other address. */
        if (!name || !*name || !code || section == SHN_UNDEF || section == SHN_ABS || !symbol.st_size) continue;
        if (address + symbol.st_size < address) continue;
        if (!mp_extents_add(&file->functions, address, address + symbol.st_size, (uintptr_t)name,
                            rank_of(name, &symbol)))
            break;
    }
    mp_extents_seal(&file->functions);
}

/* Symbols of files that earlier recordings have read. The processes of a command load the same libraries, and reading
 * the C library's debug information takes 50 ms. A full table loses one file at a time, in turn. */
enum { READ_FILES = 32 };
static struct mp_symbol_file *read_files[READ_FILES];
static unsigned next_lost;
static bool shares;
static pthread_mutex_t read_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mp_symbol_file *take_read(const struct mp_symbol_file *file)
{
    struct mp_symbol_file *found = NULL;
    pthread_mutex_lock(&read_lock);
    for (unsigned i = 0; i < READ_FILES && !found; i++) {
        struct mp_symbol_file *other = read_files[i];
        if (!other || !mp_symbol_file_is(other, &file->status) || strcmp(other->path, file->path)) continue;
        found = other;
        read_files[i] = NULL;
    }
    pthread_mutex_unlock(&read_lock);
    return found;
}

static void free_file(struct mp_symbol_file *file);

/* Takes over the symbols that another recording has read from the same file. */
static bool adopt(struct mp_symbol_file *file)
{
    struct mp_symbol_file *read = take_read(file);
    if (!read) return false;
    file->dwfl = read->dwfl;
    file->functions = read->functions;
    file->source = read->source;
    file->source_bias = read->source_bias;
    *read->userdata = &file->search;
    file->userdata = read->userdata;
    read->dwfl = NULL;
    read->source = NULL;
    read->functions = (struct mp_extents){0};
    free_file(read);
    return true;
}

static void load(struct mp_symbol_file *file)
{
    file->loaded = true;
    if (adopt(file)) return;
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    file->dwfl = dwfl_begin(&callbacks);
    if (!file->dwfl || fd < 0) {
        if (fd >= 0) close(fd);
        return;
    }
    dwfl_report_begin(file->dwfl);
    Dwfl_Module *module = dwfl_report_elf(file->dwfl, file->path, file->path, fd, 0, true);
    if (!module) close(fd);
    dwfl_report_end(file->dwfl, NULL, NULL);
    if (!module) {
        if (asprintf(&file->note, "no symbols of %s: %s", file->path + file->search.root_length, dwfl_errmsg(-1)) < 0)
            file->note = NULL;
        return;
    }
    void **userdata;
    dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
    *userdata = &file->search;
    file->userdata = userdata;
    load_functions(file, module);
    Dwarf *dwarf = dwfl_module_getdwarf(module, &file->source_bias);
    if (dwarf) file->source = mp_source_lines_open(dwarf);
}

/* False if the file was overwritten in place. libdw maps the file, so its contents must then not be used at all. */
static bool is_intact(struct mp_symbol_file *file)
{
    struct stat now;
    if (file->changed) return false;
    if (fstat(file->fd, &now) == 0 && mp_symbol_file_is(file, &now)) return true;
    file->changed = true;
    free(file->note);
    if (asprintf(&file->note, "no more symbols of %s: it was overwritten while it was recorded",
                 file->path + file->search.root_length) < 0)
        file->note = NULL;
    return false;
}

/* A C++ symbol's mangled name is better than the unqualified name in DWARF. A C symbol may have the compiler's suffixes
 * (".part.0") or be an alias: the name in the source is better. */
static const char *choose_name(const struct mp_source_line *source, const char *symbol)
{
    if (source && source->linkage_name) return source->linkage_name;
    if (source && source->name && !(symbol && symbol[0] == '_' && symbol[1] == 'Z')) return source->name;
    return symbol;
}

static size_t look_up(struct mp_symbol_file *file, uint64_t address, struct mp_demangler *demangler)
{
    struct mp_source_line source[MP_INLINE_DEPTH + 1];
    const char *symbol = (const char *)(uintptr_t)mp_extents_find(&file->functions, address);
    unsigned count = file->source ? mp_source_lines_find(file->source, address - file->source_bias, source) : 0;
    if (!count) source[count++] = (struct mp_source_line){0};
    /* The padding between functions has the line of the code before it, but belongs to no function. */
    if (!symbol && !source[count - 1].name) return 0;
    if (!mp_vec_reserve(&file->lines, count)) return 0;
    for (unsigned i = 0; i < count; i++) {
        const char *name = choose_name(&source[i], i + 1 == count ? symbol : NULL);
        file->lines.at[file->lines.count++] = (struct mp_symbol_line){
            .function = name ? mp_demangle(demangler, name) : NULL, .file = source[i].file, .line = source[i].line};
    }
    return count;
}

size_t mp_symbol_file_find(struct mp_symbol_file *file, uint64_t address, struct mp_demangler *demangler,
                           const struct mp_symbol_line **lines)
{
    uint64_t *answer = address == UINT64_MAX ? NULL : mp_map_find(&file->answers, address + 1);
    size_t first = file->lines.count, count = 0;
    if (answer) {
        first = *answer >> COUNT_BITS;
        count = *answer & COUNT_MASK;
    } else if (address != UINT64_MAX && is_intact(file)) {
        if (!file->loaded) load(file);
        count = look_up(file, address, demangler);
        answer = mp_map_insert(&file->answers, address + 1, NULL);
        if (answer) *answer = (uint64_t)first << COUNT_BITS | count;
    }
    *lines = count ? file->lines.at + first : NULL;
    return count;
}

const char *mp_symbol_file_note(const struct mp_symbol_file *file)
{
    return file->note;
}

static void free_file(struct mp_symbol_file *file)
{
    mp_source_lines_close(file->source);
    if (file->dwfl) dwfl_end(file->dwfl);
    mp_extents_free(&file->functions);
    mp_map_free(&file->answers);
    mp_vec_free(&file->lines);
    close(file->fd);
    free(file->path);
    free(file->note);
    free(file);
}

void mp_symbol_file_close(struct mp_symbol_file *file)
{
    struct mp_symbol_file *lost = file;
    mp_map_free(&file->answers); /* the names in the answers belong to the recording's demangler */
    mp_vec_free(&file->lines);
    if (shares && file->userdata && !file->changed && !file->note) {
        unsigned slot = 0;
        pthread_mutex_lock(&read_lock);
        while (slot < READ_FILES && read_files[slot])
            slot++;
        if (slot == READ_FILES) slot = next_lost++ % READ_FILES;
        lost = read_files[slot];
        read_files[slot] = file;
        pthread_mutex_unlock(&read_lock);
    }
    if (lost) free_file(lost);
}

void mp_symbol_files_share(bool share)
{
    shares = share;
    for (unsigned i = 0; i < READ_FILES && !share; i++) {
        if (read_files[i]) free_file(read_files[i]);
        read_files[i] = NULL;
    }
}
