#include "collect/session/unreached.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/session/command_line.h"
#include "collect/session/membership.h"

#define SHARE      100                   /* a look may take one part of so many of the time */
#define LEAST_HELD (UINT64_C(1) << 20)   /* as of children's files; a shell or ldconfig holds less */
#define MAPS_MOST  (UINT64_C(256) << 20) /* bytes of a list of mappings: a million lines */

/* A program's image is known by where its stack begins, which each exec() chooses anew. */
struct mp_unreached_process {
    uint32_t pid, parent;
    uint64_t started, image;
    bool judged; /* of this image */
};

/* Reads the fields of /proc/PID/stat behind the name, which may contain any character. False: the process has ended. */
static bool read_facts(uint32_t pid, struct mp_unreached_process *facts)
{
    char path[64], text[1024], state = 'Z';
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return false;
    text[length] = '\0';
    const char *behind = strrchr(text, ')');
    *facts = (struct mp_unreached_process){.pid = pid};
    /* fields 3 (state), 4 (parent), 22 (start) and 28 (the stack's begin) */
    return behind &&
           sscanf(behind,
                  ") %c %" SCNu32 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64
                  " %*s %*s %*s %*s %*s %" SCNu64,
                  &state, &facts->parent, &facts->started, &facts->image) == 4 &&
           state != 'Z' && state != 'X';
}

/* Bytes of a process's own memory. */
static uint64_t own_bytes(uint32_t pid)
{
    char path[64];
    uint64_t resident = 0, shared = 0;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/statm", pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2) resident = shared = 0;
    if (file) fclose(file);
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* True if the process's program has no interpreter, and so loads no libraries. */
static bool is_static(uint32_t pid)
{
    char path[64];
    Elf64_Ehdr head;
    Elf64_Phdr part = {.p_type = PT_NULL};
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && read(fd, &head, sizeof head) == sizeof head && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
              head.e_ident[EI_CLASS] == ELFCLASS64;
    for (size_t i = 0; is && i < head.e_phnum; i++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) != sizeof part ||
            part.p_type == PT_INTERP)
            is = false;
    if (fd >= 0) close(fd);
    return is;
}

/* 0: the recorder is in the process, or the process has ended meanwhile. */
static int reason_of(uint32_t pid)
{
    struct stat owner;
    char path[64];
    struct mp_environment maps = mp_process_file(pid, "maps", MAPS_MOST);
    bool reached = maps.size && memmem(maps.data, maps.size, "/libmemprof.so", strlen("/libmemprof.so"));
    bool readable = maps.size > 0;
    mp_process_file_free(&maps);
    snprintf(path, sizeof path, "/proc/%" PRIu32, pid);
    if (reached || stat(path, &owner)) return 0;
    if (!readable || owner.st_uid != geteuid()) return MP_UNREACHED_RIGHTS;
    return is_static(pid) ? MP_UNREACHED_STATIC : MP_UNREACHED_VARIABLES;
}

static void tell(struct mp_doorbell_page *page, uint32_t pid, uint32_t above, int reason)
{
    uint32_t row = atomic_fetch_add(&page->unreached, 1);
    if (row >= MP_UNREACHED_MOST) return;
    page->rows[row].above = above;
    page->rows[row].reason = reason;
    mp_process_name(pid, page->rows[row].name);
    atomic_store(&page->rows[row].pid, pid);
}

static struct mp_unreached_process *find(const struct mp_unreached_look *look, uint32_t pid)
{
    for (size_t i = 0; i < look->tree.count; i++)
        if (look->tree.at[i].pid == pid) return &look->tree.at[i];
    return NULL;
}

/* ---- one look ------------------------------------------------------------------------------------------------- */

typedef MP_VEC(struct mp_unreached_process) process_list;

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Lists processes that may be below the command. Others are kept, as are those that the caller does not move. */
static void list_new(struct mp_unreached_look *look, process_list *list)
{
    DIR *folder = opendir("/proc");
    struct mp_unreached_look next = {0};
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct mp_unreached_process facts;
        uint32_t pid = isdigit((unsigned char)*entry->d_name) ? (uint32_t)strtoul(entry->d_name, NULL, 10) : 0;
        bool other =
            pid && look->others.count && bsearch(&pid, look->others.at, look->others.count, sizeof pid, by_number);
        if (other)
            (void)mp_vec_push(&next.others, pid);
        else if (pid && read_facts(pid, &facts))
            (void)mp_vec_push(list, facts);
    }
    if (folder) closedir(folder);
    mp_vec_free(&look->others);
    look->others.at = next.others.at;
    look->others.count = next.others.count;
    look->others.room = next.others.room;
}

static void keep_others(struct mp_unreached_look *look, const process_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].pid) (void)mp_vec_push(&look->others, list->at[i].pid);
    if (look->others.count) qsort(look->others.at, look->others.count, sizeof *look->others.at, by_number);
}

/* The time that this thread has run. */
static uint64_t own_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * MP_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* Moves those below the command to look->tree: they were there before, or their parent is there. A parent may have a
 * higher number than its child, so it takes rounds. */
static void grow_tree(struct mp_unreached_look *look, pid_t command, process_list *list)
{
    struct mp_unreached_look before = *look;
    look->tree.at = NULL;
    look->tree.count = look->tree.room = 0;
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < list->count; i++) {
            struct mp_unreached_process *one = &list->at[i];
            const struct mp_unreached_process *old = find(&before, one->pid), *parent = find(look, one->parent);
            bool same = old && old->started == one->started;
            if (!one->pid || !(same || parent || (pid_t)one->pid == command)) continue;
            if (same)
                one->judged = old->judged && old->image == one->image;
            else if (parent) /* a forked child has its parent's image */
                one->judged = parent->judged && parent->image == one->image;
            grew |= mp_vec_push(&look->tree, *one);
            one->pid = 0;
        }
    }
    mp_vec_free(&before.tree);
}

void mp_unreached_look(struct mp_unreached_look *look, pid_t command, uint64_t from_bytes,
                       struct mp_doorbell_page *page, bool (*recorded)(const void *context, uint32_t pid),
                       const void *context)
{
    uint64_t begun = mp_clock_monotonic_ns();
    if (begun < look->next_ns) return;
    uint64_t took = own_time_ns();
    process_list list = {NULL};
    list_new(look, &list);
    grow_tree(look, command, &list);
    keep_others(look, &list);
    mp_vec_free(&list);
    uint64_t least = from_bytes > LEAST_HELD ? from_bytes : LEAST_HELD;
    for (size_t i = 0; i < look->tree.count; i++) {
        struct mp_unreached_process *one = &look->tree.at[i];
        if (one->judged || own_bytes(one->pid) < least) continue;
        one->judged = true;
        int reason = reason_of(one->pid);
        uint32_t above = one->parent;
        for (const struct mp_unreached_process *at; above && !recorded(context, above);)
            above = (at = find(look, above)) ? at->parent : 0;
        if (reason) tell(page, one->pid, above, reason);
    }
    look->next_ns = begun + SHARE * (own_time_ns() - took);
}

void mp_unreached_free(struct mp_unreached_look *look)
{
    mp_vec_free(&look->tree);
    mp_vec_free(&look->others);
}
