#include "collect/recording/spool_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME_PREFIX     "memprof-"
#define NAME_SUFFIX     ".spool"
#define FIRST_RINGS     2
#define ROOM_LEFT_BYTES (UINT64_C(48) << 20) /* a folder with less free space is not used (64 MB /dev/shm) */
/* Spools stop growing here: in a full folder, other programs would get SIGBUS. */
#define KEPT_FREE_BYTES  (UINT64_C(24) << 20)
#define GROW_BYTES_LEAST (UINT64_C(256) << 10)

static size_t own_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static const uint64_t first_entries[MP_TABLES] = {
    [MP_TABLE_NODES] = 32768, [MP_TABLE_FRAMES] = 4096,    [MP_TABLE_MODULES] = 512,
    [MP_TABLE_TRACKS] = 255,  [MP_TABLE_STRINGS] = 131072,
};

/* Allocates space for [offset, offset + bytes); false if the file system has too little left. */
static bool allocate(struct mp_spool_file *spool, uint64_t offset, uint64_t bytes)
{
    struct statfs facts;
    bool has_bounds = *spool->path && fstatfs(spool->fd, &facts) == 0 && facts.f_blocks;
    bool spare = !has_bounds || (uint64_t)facts.f_bavail * (uint64_t)facts.f_bsize >= KEPT_FREE_BYTES + bytes;
    bool done = spare && fallocate(spool->fd, 0, (off_t)offset, (off_t)bytes) == 0;
    atomic_store(&spool->header->cannot_grow, !done);
    return done;
}

static bool commit_entries(struct mp_spool_file *spool, enum mp_spool_table_id id, uint64_t entries)
{
    struct mp_spool_table layout[MP_TABLES], *table = &spool->header->tables[id];
    uint64_t have = atomic_load(&table->committed), each = mp_spool_entry_bytes(id);
    mp_spool_layout(layout); /* computed anew, since the program can write anything into the header */
    if (entries > layout[id].room) entries = layout[id].room;
    if (entries <= have) return false;
    if (!allocate(spool, layout[id].offset + have * each, (entries - have) * each)) return false;
    atomic_store_explicit(&table->committed, entries, memory_order_release);
    return true;
}

static bool commit_rings(struct mp_spool_file *spool, uint32_t rings)
{
    uint32_t have = atomic_load(&spool->header->rings_committed);
    if (rings > MP_SPOOL_RINGS_MAX) rings = MP_SPOOL_RINGS_MAX;
    if (rings <= have) return false;
    if (!allocate(spool, mp_ring_offset(have), (rings - have) * MP_RING_BYTES)) return false;
    atomic_store_explicit(&spool->header->rings_committed, rings, memory_order_release);
    return true;
}

bool mp_spool_file_grow(struct mp_spool_file *spool)
{
    struct mp_spool_header *header = spool->header;
    bool grown = false;
    uint32_t used = atomic_load(&header->rings_used);
    uint32_t waiting = atomic_load(&header->ring_waiters);
    if (waiting > MP_SPOOL_RINGS_MAX) waiting = MP_SPOOL_RINGS_MAX;
    if (used + 1 >= atomic_load(&header->rings_committed)) grown |= commit_rings(spool, used + waiting + 2);
    for (int id = 0; id < MP_TABLES; id++) {
        uint64_t count = atomic_load(&header->tables[id].count), have = atomic_load(&header->tables[id].committed);
        if (count * 2 < have) continue;
        uint64_t least = GROW_BYTES_LEAST / mp_spool_entry_bytes((enum mp_spool_table_id)id);
        grown |= commit_entries(spool, (enum mp_spool_table_id)id, have * 2 < have + least ? have + least : have * 2);
    }
    return grown;
}

void mp_spool_file_wake(struct mp_spool_file *spool)
{
    atomic_fetch_add(&spool->header->drained, 1);
    syscall(SYS_futex, &spool->header->drained, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The futexes that the kernel marks when this thread dies (man 2 set_robust_list). A robust mutex would have its links
 * in the spool, where the program could point them anywhere in the collector's memory. So our links lie in a page of
 * our own before each spool: the kernel wants all futexes at the same distance from their links. */
static _Thread_local struct robust_list_head held;

static bool hold(struct mp_spool_file *spool)
{
    struct robust_list *own = spool->held;
    if (!held.list.next) {
        held.list.next = &held.list;
        held.futex_offset = (char *)spool->header + offsetof(struct mp_spool_header, collector) - (char *)own;
    }
    if (syscall(SYS_set_robust_list, &held, sizeof held)) return false;
    own->next = held.list.next;
    atomic_store(&spool->header->collector, (uint32_t)syscall(SYS_gettid));
    held.list.next = own;
    return true;
}

static void give_up(struct mp_spool_file *spool)
{
    struct robust_list *at = &held.list;
    while (at->next && at->next != &held.list && at->next != spool->held)
        at = at->next;
    if (at->next != spool->held) return;
    at->next = spool->held->next;
    atomic_store(&spool->header->collector, 0);
}

/* Maps the spool. `shared`: writes are visible to the recorder, and a page of our own lies before it. */
static bool map(struct mp_spool_file *spool, bool shared)
{
    size_t page = shared ? own_page() : 0;
    int how = shared ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_NORESERVE;
    char *own = shared ? mmap(NULL, page + spool->bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                       : NULL;
    if (own == MAP_FAILED) return false;
    void *at = mmap(shared ? own + page : NULL, spool->bytes, PROT_READ | PROT_WRITE, how, spool->fd, 0);
    if (at == MAP_FAILED && shared) munmap(own, page + spool->bytes);
    if (at == MAP_FAILED) return false;
    spool->header = at;
    spool->held = (struct robust_list *)(void *)own;
    return true;
}

/* Makes the empty file a spool; false, with errno, if the file system has no room or no fallocate. */
static bool fill(struct mp_spool_file *spool, const struct mp_spool_header *facts)
{
    if (ftruncate(spool->fd, (off_t)spool->bytes) || fallocate(spool->fd, 0, 0, (off_t)MP_SPOOL_HEADER_BYTES) ||
        !map(spool, true))
        return false;
    memcpy(spool->header, facts, sizeof *facts);
    mp_spool_layout(spool->header->tables);
    if (!commit_rings(spool, FIRST_RINGS)) return false;
    for (int id = 0; id < MP_TABLES; id++)
        if (!commit_entries(spool, (enum mp_spool_table_id)id, first_entries[id])) return false;
    /* Entry 0 of these tables means "none". It is zero, because fallocate() gives zeroed space. */
    atomic_store(&spool->header->tables[MP_TABLE_NODES].count, 1);
    atomic_store(&spool->header->tables[MP_TABLE_MODULES].count, 1);
    atomic_store(&spool->header->tables[MP_TABLE_STRINGS].count, sizeof(uint32_t));
    struct mp_wire_node *root = mp_spool_entries(spool->header, MP_TABLE_NODES);
    root->frame = MP_WIRE_FRAME_CUT; /* so that no real node equals it */
    return hold(spool);
}

/* Kernel headers before 5.16 lack some of these numbers. */
#ifndef CIFS_SUPER_MAGIC
#    define CIFS_SUPER_MAGIC 0xff534d42
#    define SMB2_SUPER_MAGIC 0xfe534d42
#    define FUSE_SUPER_MAGIC 0x65735546
#    define CEPH_SUPER_MAGIC 0x00c36400
#endif

static bool has_room(const char *folder)
{
    struct statfs facts;
    if (statfs(folder, &facts)) return false;
    static const long remote[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                  V9FS_MAGIC,      FUSE_SUPER_MAGIC, AFS_SUPER_MAGIC,  CEPH_SUPER_MAGIC};
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((unsigned long)facts.f_type == (unsigned long)remote[i]) return false;
    return (uint64_t)facts.f_bavail * (uint64_t)facts.f_bsize >= ROOM_LEFT_BYTES;
}

static bool create_in(const char *folder, const struct mp_spool_header *facts, struct mp_spool_file *spool)
{
    if (!folder || folder[0] != '/' || !has_room(folder)) return false;
    if (asprintf(&spool->path, "%s/" NAME_PREFIX "%u-%016llx" NAME_SUFFIX, folder, (unsigned)facts->pid,
                 (unsigned long long)facts->spool_id) < 0) {
        spool->path = NULL;
        return false;
    }
    spool->fd = open(spool->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (spool->fd >= 0 && fill(spool, facts)) return true;
    mp_spool_file_close(spool, true);
    return false;
}

enum mp_status mp_spool_file_create(const struct mp_spool_header *facts, const char *output_folder,
                                    struct mp_spool_file *spool, struct mp_error *error)
{
    struct mp_spool_table layout[MP_TABLES];
    uint64_t bytes = mp_spool_layout(layout);
    const char *const folders[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", output_folder};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        *spool = (struct mp_spool_file){.fd = -1, .bytes = bytes};
        if (create_in(folders[i], facts, spool)) return MP_OK;
    }
    *spool = (struct mp_spool_file){.fd = memfd_create("memprof-spool", MFD_CLOEXEC), .bytes = bytes};
    spool->path = strdup("");
    if (spool->fd >= 0 && spool->path && fill(spool, facts)) return MP_OK;
    mp_fail_errno(error, "no shared memory for recording process %u", (unsigned)facts->pid);
    mp_spool_file_close(spool, false);
    return MP_IO;
}

enum mp_status mp_spool_file_open(const char *path, struct mp_spool_file *spool, struct mp_error *error)
{
    struct mp_spool_table layout[MP_TABLES];
    *spool = (struct mp_spool_file){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
                                    .bytes = mp_spool_layout(layout)};
    spool->path = strdup(path);
    struct stat facts;
    if (spool->fd < 0 || !spool->path || fstat(spool->fd, &facts)) {
        mp_fail_errno(error, "cannot open the spool %s", path);
        mp_spool_file_close(spool, false);
        return MP_IO;
    }
    bool ours = S_ISREG(facts.st_mode) && (facts.st_uid == geteuid() || !geteuid());
    bool sized = ours && (uint64_t)facts.st_size == spool->bytes;
    if (!sized || !map(spool, false) || !mp_spool_usable(spool->header)) {
        mp_spool_file_close(spool, false);
        return mp_fail(error, MP_NOT_A_RECORDING, "%s is not a spool of this version of memprof", path);
    }
    bool same = true;
    for (int id = 0; id < MP_TABLES; id++) {
        const struct mp_spool_table *table = &spool->header->tables[id];
        same &= table->offset == layout[id].offset && table->room == layout[id].room &&
                table->committed <= table->room && table->count <= table->committed;
    }
    if (!same || spool->header->rings_used > spool->header->rings_committed ||
        spool->header->rings_committed > MP_SPOOL_RINGS_MAX) {
        mp_spool_file_close(spool, false);
        return mp_fail(error, MP_DAMAGED, "the spool %s is damaged", path);
    }
    return MP_OK;
}

static bool belongs_to(const char *path, const char *output)
{
    struct mp_spool_file spool;
    struct mp_error ignored;
    if (mp_spool_file_open(path, &spool, &ignored)) return false;
    bool same = !strncmp(spool.header->output, output, sizeof spool.header->output) ||
                !strncmp(spool.header->written.file, output, sizeof spool.header->written.file);
    mp_spool_file_close(&spool, false);
    return same;
}

static char *find_in(const char *folder, const char *output)
{
    DIR *entries = folder ? opendir(folder) : NULL;
    char *found = NULL;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) || length < strlen(NAME_SUFFIX) ||
            strcmp(entry->d_name + length - strlen(NAME_SUFFIX), NAME_SUFFIX))
            continue;
        char *path;
        if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) break;
        if (belongs_to(path, output))
            found = path;
        else
            free(path);
    }
    if (entries) closedir(entries);
    return found;
}

char *mp_spool_file_find(const char *output, const char *output_folder)
{
    const char *const folders[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm", output_folder};
    char *found = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++)
        found = find_in(folders[i], output);
    return found;
}

void mp_spool_file_close(struct mp_spool_file *spool, bool remove)
{
    size_t page = spool->held ? own_page() : 0;
    if (spool->held) give_up(spool);
    if (spool->header) munmap((char *)spool->header - page, page + spool->bytes);
    if (remove && spool->path && *spool->path) unlink(spool->path);
    if (spool->fd >= 0) close(spool->fd);
    free(spool->path);
    *spool = (struct mp_spool_file){.fd = -1};
}
