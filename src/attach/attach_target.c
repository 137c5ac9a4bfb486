#include "attach/attach_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

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

static bool lives(uint32_t thread)
{
    char state[64];
    read_status(thread, "State:", state);
    return *state && *state != 'Z' && *state != 'X';
}

/* A thread that lives; 0: there is none. The first thread may end before the others. */
static uint32_t find_thread(uint32_t pid)
{
    char path[64];
    uint32_t found = lives(pid) ? pid : 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", pid);
    DIR *threads = found ? NULL : opendir(path);
    for (struct dirent *thread; threads && !found && (thread = readdir(threads));) {
        uint32_t tid = (uint32_t)strtoul(thread->d_name, NULL, 10);
        if (tid && lives(tid)) found = tid;
    }
    if (threads) closedir(threads);
    return found;
}

bool mp_attach_target_moved(struct mp_attach_target *target)
{
    uint32_t found = lives(target->thread) ? 0 : find_thread(target->pid);
    if (found) target->thread = found;
    return found;
}

bool mp_attach_target_over(const struct mp_attach_target *target)
{
    return !find_thread(target->pid);
}

static enum mp_status check_program(uint32_t pid, uint32_t thread, struct mp_error *error)
{
    char path[64];
    unsigned char head[20] = {0};
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", thread);
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

static enum mp_status check_process(struct mp_attach_target *target, struct mp_error *error)
{
    uint32_t pid = target->pid;
    char state[64], group[64], users[64];
    unsigned user = 0;
    read_status(pid, "State:", state);
    read_status(pid, "Tgid:", group);
    read_status(pid, "Uid:", users);
    if (!*state) return mp_fail(error, MP_NOT_FOUND, "there is no process %" PRIu32 " (any more)", pid);
    if (strtoul(group, NULL, 10) != pid)
        return mp_fail(error, MP_INVALID, "%" PRIu32 " is a thread of process %s: memprof attach %s", pid, group,
                       group);
    if (!(target->thread = find_thread(pid)))
        return mp_fail(error, MP_NOT_FOUND, "process %" PRIu32 " has ended, and only waits for its parent to notice",
                       pid);
    if (pid == (uint32_t)getpid()) return mp_fail(error, MP_INVALID, "memprof does not attach to itself");
    if (geteuid() && sscanf(users, "%u", &user) == 1 && user != geteuid())
        return mp_fail(error, MP_UNSUPPORTED,
                       "process %" PRIu32 " is another user's, which needs root: sudo memprof attach %" PRIu32, pid,
                       pid);
    return check_program(pid, target->thread, error);
}

/* Sets the namespace of the threads' numbers: the pid namespace that memprof shares with the process, or the machine's.
 * A process in a container inside of memprof's own container has other numbers, which no probe can see. */
static enum mp_status find_numbers(struct mp_attach_target *target, struct mp_error *error)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/pid", target->thread);
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
    enum mp_status status = check_process(target, error);
    if (status) return status;
    target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (target->pidfd < 0) return mp_fail_errno(error, "cannot watch process %" PRIu32, pid);
    if (!mp_attach_target_look(target)) return mp_fail_errno(error, "cannot read the maps of process %" PRIu32, pid);
    return find_numbers(target, error);
}

void mp_attach_target_close(struct mp_attach_target *target)
{
    for (size_t i = 0; i < target->modules.count; i++)
        mp_mapped_file_free(target->modules.at[i]);
    mp_vec_free(&target->modules);
    mp_vec_free(&target->rule_list);
    mp_map_free(&target->rules);
    mp_map_free(&target->strange);
    if (target->pidfd >= 0) close(target->pidfd);
    target->pidfd = -1;
}

/* ---- children --------------------------------------------------------------------------------------------------- */

static bool is_wanted(const char *path)
{
    return strstr(path, "libc10") || strstr(path, "libcuda.so") || strstr(path, "python");
}

/* Leaves descriptors for probes and for the recording, unless the library has functions to probe. */
static int open_mapped(const struct mp_attach_target *target, const struct mp_mapping *mapping)
{
    enum { KEPT = 300 };
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    int fd = mp_mapped_file_open(target->thread, mapping);
    if (fd < 0 || is_wanted(mapping->path) || getrlimit(RLIMIT_NOFILE, &files) || (rlim_t)fd + KEPT < files.rlim_cur)
        return fd;
    close(fd);
    errno = EMFILE;
    return -1;
}

#define DEPTH_MOST 16

static bool has_library(uint32_t pid)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) >= 0)
        found = strstr(line, "libc10.so") || strstr(line, "libcuda.so");
    free(line);
    if (file) fclose(file);
    return found;
}

/* Each thread has its own list of children. A child without the libraries, such as a shell or an engine's own process,
 * is looked through for its children. */
static uint32_t find_child(uint32_t parent, const struct mp_map *known, unsigned depth)
{
    char path[64 + sizeof((struct dirent *)NULL)->d_name];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", parent);
    DIR *threads = depth < DEPTH_MOST ? opendir(path) : NULL;
    uint32_t pid, found = 0;
    for (struct dirent *thread; threads && !found && (thread = readdir(threads));) {
        if (*thread->d_name == '.') continue;
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%s/children", parent, thread->d_name);
        FILE *file = fopen(path, "re");
        while (file && !found && fscanf(file, "%" SCNu32, &pid) == 1)
            if (!mp_map_find(known, pid)) found = has_library(pid) ? pid : find_child(pid, known, depth + 1);
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
    return found;
}

uint32_t mp_attach_target_child(const struct mp_attach_target *target, struct mp_map *known)
{
    uint32_t found = find_child(target->pid, known, 0);
    if (found) *mp_map_at(known, found, NULL) = 1;
    return found;
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

/* `root` is the process's root as memprof sees it, which is no part of the process's own names. */
static bool parse(const char *line, const char *root, struct mp_mapping *mapping)
{
    size_t length = strlen(root);
    const char *rights = strchr(line, ' ');
    if (!rights || strnlen(rights, 4) < 4 || rights[3] != 'x' || !strchr(rights, '/')) return false; /* most of them */
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %llu %n", &mapping->start, &mapping->end,
               mapping->permissions, &mapping->offset, &mapping->inode, &at) < 5)
        return false;
    snprintf(mapping->path, sizeof mapping->path, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    if (length > 1 && !strncmp(mapping->path, root, length) && mapping->path[length] == '/')
        memmove(mapping->path, mapping->path + length, strlen(mapping->path + length) + 1);
    return mapping->permissions[2] == 'x' && mapping->inode && mapping->path[0] == '/';
}

static bool is_mapping_of(const struct mp_attach_module *module, const struct mp_mapping *mapping)
{
    size_t length = strlen(module->path);
    return mapping->start >= module->start && mapping->end <= ((module->end + 0xfff) & ~UINT64_C(0xfff)) &&
           !strncmp(module->path, mapping->path, length) &&
           (!mapping->path[length] || !strcmp(mapping->path + length, " (deleted)"));
}

bool mp_attach_target_look(struct mp_attach_target *target)
{
    char path[64], root[4096], *line = NULL;
    size_t room = 0, before = target->modules.count;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", target->thread);
    FILE *file = fopen(path, "re");
    target->looked_ns = mp_clock_monotonic_ns();
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/root", target->thread);
    ssize_t length = readlink(path, root, sizeof root - 1);
    root[length > 0 ? length : 0] = '\0';
    if (!file) return false;
    bool *seen = calloc(before + 1, sizeof *seen), any = false;
    while (seen && getline(&line, &room, file) >= 0) {
        struct mp_mapping mapping;
        any = true;
        if (!parse(line, root, &mapping)) continue;
        bool known = false;
        for (size_t i = 0; i < target->modules.count && !known; i++) {
            struct mp_attach_module *module = target->modules.at[i];
            known = !module->gone && is_mapping_of(module, &mapping);
            if (known && i < before) seen[i] = true;
        }
        int fd = known ? -1 : open_mapped(target, &mapping);
        target->short_of_files |= !known && fd < 0 && errno == EMFILE;
        struct mp_attach_module *module = fd < 0 ? NULL : mp_mapped_file_module(fd, &mapping);
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
    return process_vm_readv((pid_t)target->thread, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}
