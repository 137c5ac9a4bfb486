#include "attach/attach_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/symbols/debug_files.h"
#include "collect/symbols/symbol_file.h"

#define LOOK_AGAIN_NS   (100 * MP_NS_PER_MS)
#define MACHINE_NUMBERS 0xEFFFFFFC /* inode of the first pid namespace in every kernel */

/* ---- can it be attached to?
 * --------------------------------------------------------------------------------------- */

/* A line of /proc/PID/status, by its key "State:"; "" if there is none. */
static void read_status(uint32_t pid, const char *key, char to[64])
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    FILE *file = fopen(path, "re");
    *to = '\0';
    while (file && !*to && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) sscanf(line + strlen(key), " %63[^\n]", to);
    if (file) fclose(file);
}

static enum mp_status check_program(uint32_t pid, struct mp_error *error)
{
    char path[64];
    unsigned char head[20] = {0};
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32 " is a thread of the kernel and has no program to attach to", pid);
    if (fd < 0 && !geteuid())
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32
                       " may not be looked at: %s, also as root here: run memprof outside of this container",
                       pid, strerror(errno));
    if (fd < 0)
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32 " may not be looked at: %s; use root: sudo memprof attach %" PRIu32, pid,
                       strerror(errno), pid);
    ssize_t got = read(fd, head, sizeof head);
    close(fd);
    if (got != sizeof head || memcmp(head, ELFMAG, SELFMAG) || head[EI_CLASS] != ELFCLASS64 ||
        (head[18] | head[19] << 8) != EM_X86_64)
        return mp_fail(
            error, MP_UNSUPPORTED,
            "process %" PRIu32 " runs a program of another architecture than x86-64, which attach does not know", pid);
    return MP_OK;
}

static enum mp_status check_process(uint32_t pid, struct mp_error *error)
{
    char state[64], group[64], users[64];
    unsigned user = 0;
    read_status(pid, "State:", state);
    read_status(pid, "Tgid:", group);
    read_status(pid, "Uid:", users);
    if (!*state) return mp_fail(error, MP_NOT_FOUND, "there is no process %" PRIu32 " (any more)", pid);
    if (strtoul(group, NULL, 10) != pid)
        return mp_fail(error, MP_INVALID, "%" PRIu32 " is a thread of process %s: memprof attach %s", pid, group,
                       group);
    if (*state == 'Z' || *state == 'X')
        return mp_fail(error, MP_NOT_FOUND, "process %" PRIu32 " has ended, and only waits for its parent to notice",
                       pid);
    if (pid == (uint32_t)getpid()) return mp_fail(error, MP_INVALID, "memprof does not attach to itself");
    if (geteuid() && sscanf(users, "%u", &user) == 1 && user != geteuid())
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32 " is another user's, which needs root: sudo memprof attach %" PRIu32, pid,
                       pid);
    return check_program(pid, error);
}

/* Sets the namespace of the threads' numbers: the pid namespace that memprof shares with the process, or the machine's.
 * A process in a container inside of memprof's own container has other numbers, which no probe can see. */
static enum mp_status find_numbers(struct mp_attach_target *target, struct mp_error *error)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/pid", target->pid);
    if (stat("/proc/self/ns/pid", &own) || stat(path, &other))
        return mp_fail_errno(error, "cannot tell the pid namespace of process %" PRIu32, target->pid);
    bool shared = own.st_ino == other.st_ino && own.st_dev == other.st_dev;
    if (!shared && own.st_ino != MACHINE_NUMBERS)
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32
                       " runs in a container inside of this one: run memprof attach in that container, "
                       "or outside of both",
                       target->pid);
    target->ids_device = shared ? (uint64_t)major(own.st_dev) << 20 | minor(own.st_dev) : 0; /* in the kernel's form */
    target->ids_inode = shared ? own.st_ino : 0;
    return MP_OK;
}

enum mp_status mp_attach_target_open(uint32_t pid, struct mp_attach_target *target, struct mp_error *error)
{
    *target = (struct mp_attach_target){.pid = pid, .pidfd = -1};
    enum mp_status status = check_process(pid, error);
    if (status) return status;
    elf_version(EV_CURRENT);
    target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (target->pidfd < 0) return mp_fail_errno(error, "cannot watch process %" PRIu32, pid);
    if (!mp_attach_target_look(target)) return mp_fail_errno(error, "cannot read the maps of process %" PRIu32, pid);
    return find_numbers(target, error);
}

static void free_module(struct mp_attach_module *module)
{
    if (module->cfi) dwarf_cfi_end(module->cfi);
    if (module->elf) elf_end(module->elf);
    if (module->fd >= 0) close(module->fd);
    free(module->path);
    free(module->file);
    free(module);
}

void mp_attach_target_close(struct mp_attach_target *target)
{
    for (size_t i = 0; i < target->modules.count; i++)
        free_module(target->modules.at[i]);
    mp_vec_free(&target->modules);
    mp_vec_free(&target->rule_list);
    mp_map_free(&target->rules);
    mp_map_free(&target->strange);
    if (target->pidfd >= 0) close(target->pidfd);
    target->pidfd = -1;
}

/* ---- children --------------------------------------------------------------------------------------------------- */

static bool has_library(uint32_t pid)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) >= 0)
        found = strstr(line, "/libc10.so") || strstr(line, "/libcuda.so");
    free(line);
    if (file) fclose(file);
    return found;
}

/* Each thread has its own list of children. */
uint32_t mp_attach_target_child(const struct mp_attach_target *target, struct mp_map *known)
{
    char path[64 + sizeof((struct dirent *)NULL)->d_name];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", target->pid);
    DIR *threads = opendir(path);
    uint32_t pid, found = 0;
    for (struct dirent *thread; threads && !found && (thread = readdir(threads));) {
        if (*thread->d_name == '.') continue;
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%s/children", target->pid, thread->d_name);
        FILE *file = fopen(path, "re");
        while (file && !found && fscanf(file, "%" SCNu32, &pid) == 1)
            if (!mp_map_find(known, pid) && has_library(pid)) found = pid;
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
    if (found) *mp_map_at(known, found, NULL) = 1;
    return found;
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

struct mapping {
    uint64_t start, end, offset;
    unsigned long long inode;
    char permissions[5];
    char path[4096];
};

/* The next loaded segment, from number *i on. */
static bool next_segment(Elf *elf, size_t *i, GElf_Phdr *segment)
{
    size_t count;
    if (elf_getphdrnum(elf, &count)) return false;
    while (*i < count)
        if (gelf_getphdr(elf, (int)(*i)++, segment) && segment->p_type == PT_LOAD) return true;
    return false;
}

/* Finds the bias of the file from one mapping of its code: it is the bias of the segment with these bytes. */
static bool find_bias(Elf *elf, const struct mapping *mapping, uint64_t *bias)
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

/* A deleted or replaced file is opened through the mapping itself, which still leads to it. Other files are opened by
 * name in the process's own mounts. */
static struct mp_attach_module *make_module(const struct mp_attach_target *target, const struct mapping *mapping)
{
    struct mp_attach_module *module = calloc(1, sizeof *module);
    struct stat facts;
    if (!module) return NULL;
    module->fd = -1;
    module->path = strdup(mapping->path);
    char *deleted = module->path ? strstr(module->path, " (deleted)") : NULL;
    if (deleted) *deleted = '\0';
    if (deleted && asprintf(&module->file, "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, target->pid,
                            mapping->start, mapping->end) < 0)
        module->file = NULL;
    if (module->file) module->fd = open(module->file, O_RDONLY | O_CLOEXEC);
    if (module->fd < 0) {
        free(module->file);
        if (asprintf(&module->file, "/proc/%" PRIu32 "/root%s", target->pid, mapping->path) < 0) module->file = NULL;
        module->fd = module->file ? open(module->file, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (module->path && module->fd >= 0 && !fstat(module->fd, &facts) && facts.st_ino == mapping->inode)
        module->elf = elf_begin(module->fd, ELF_C_READ_MMAP, NULL);
    if (!module->elf || !find_bias(module->elf, mapping, &module->bias)) {
        free_module(module);
        return NULL;
    }
    find_extent(module->elf, module);
    module->id.build_id_size = (uint8_t)mp_read_build_id(module->fd, module->id.build_id, sizeof module->id.build_id);
    if (!module->id.build_id_size) {
        module->id.size = (uint64_t)facts.st_size;
        module->id.inode = facts.st_ino;
        module->id.mtime_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
    }
    return module;
}

static bool parse(const char *line, struct mapping *mapping)
{
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %llu %n", &mapping->start, &mapping->end,
               mapping->permissions, &mapping->offset, &mapping->inode, &at) < 5)
        return false;
    snprintf(mapping->path, sizeof mapping->path, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    return mapping->permissions[2] == 'x' && mapping->inode && mapping->path[0] == '/';
}

static bool is_mapping_of(const struct mp_attach_module *module, const struct mapping *mapping)
{
    size_t length = strlen(module->path);
    return mapping->start >= module->start && mapping->end <= ((module->end + 0xfff) & ~UINT64_C(0xfff)) &&
           !strncmp(module->path, mapping->path, length) &&
           (!mapping->path[length] || !strcmp(mapping->path + length, " (deleted)"));
}

bool mp_attach_target_look(struct mp_attach_target *target)
{
    char path[64], *line = NULL;
    size_t room = 0, before = target->modules.count;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", target->pid);
    FILE *file = fopen(path, "re");
    target->looked_ns = mp_clock_monotonic_ns();
    if (!file) return false;
    bool *seen = calloc(before + 1, sizeof *seen), any = false;
    while (seen && getline(&line, &room, file) >= 0) {
        struct mapping mapping;
        any = true;
        if (!parse(line, &mapping)) continue;
        bool known = false;
        for (size_t i = 0; i < target->modules.count && !known; i++) {
            struct mp_attach_module *module = target->modules.at[i];
            known = !module->gone && is_mapping_of(module, &mapping);
            if (known && i < before) seen[i] = true;
        }
        struct mp_attach_module *module = known ? NULL : make_module(target, &mapping);
        if (module) mp_vec_add(&target->modules, module);
    }
    bool changed = false;
    for (size_t i = 0; seen && any && i < before; i++)
        if (!seen[i] && !target->modules.at[i]->gone) target->modules.at[i]->gone = changed = true;
    if (changed) { /* another file may be mapped there, so all old rules are dropped */
        mp_map_clear(&target->rules);
        target->rule_list.count = 0;
        target->generation++;
    }
    mp_map_clear(&target->strange);
    free(seen);
    free(line);
    fclose(file);
    return any;
}

static struct mp_attach_module *find_module(const struct mp_attach_target *target, uint64_t address)
{
    for (size_t i = 0; i < target->modules.count; i++) {
        struct mp_attach_module *module = target->modules.at[i];
        if (!module->gone && address >= module->start && address < module->end) return module;
    }
    return NULL;
}

struct mp_attach_module *mp_attach_target_module(struct mp_attach_target *target, uint64_t address)
{
    struct mp_attach_module *module = find_module(target, address);
    if (module || mp_map_find(&target->strange, address)) return module;
    if (mp_clock_monotonic_ns() - target->looked_ns > LOOK_AGAIN_NS && mp_attach_target_look(target))
        module = find_module(target, address);
    if (!module && address) *mp_map_at(&target->strange, address, NULL) = 1;
    return module;
}

bool mp_attach_target_read(const struct mp_attach_target *target, uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    return process_vm_readv((pid_t)target->pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* ---- symbols ---------------------------------------------------------------------------------------------------- */

bool mp_attach_symbol(const struct mp_attach_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(module->elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header) || (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB) ||
            !header.sh_entsize)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (uint64_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
            GElf_Sym symbol;
            if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF) continue;
            const char *text = elf_strptr(module->elf, header.sh_link, symbol.st_name);
            if (!text || strcmp(text, name)) continue;
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
