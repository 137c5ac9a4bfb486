#include "collect/recording/spool_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME_PREFIX      "memprof-"
#define NAME_SUFFIX      ".spool"
#define FIRST_RINGS      2
#define ROOM_LEFT_BYTES  (UINT64_C(48) << 20) /* a folder with less free space is not used (64 MB /dev/shm) */
#define KEPT_FREE_BYTES  (UINT64_C(24) << 20) /* growing stops here: others in a full folder would get SIGBUS */
#define GROW_BYTES_LEAST (UINT64_C(256) << 10)

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
    struct mp_spool_table *table = &spool->header->tables[id];
    uint64_t have = atomic_load(&table->committed), each = mp_spool_entry_bytes(id);
    if (entries > table->room) entries = table->room;
    if (entries <= have) return false;
    if (!allocate(spool, table->offset + have * each, (entries - have) * each)) return false;
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

static bool hold_collector_mutex(struct mp_spool_header *header)
{
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes)) return false;
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    bool held = !pthread_mutex_init(&header->collector, &attributes) && !pthread_mutex_lock(&header->collector);
    pthread_mutexattr_destroy(&attributes);
    return held;
}

/* Maps the spool. `shared`: writes are visible to the recorder. */
static bool map(struct mp_spool_file *spool, bool shared)
{
    int how = shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
    void *at = mmap(NULL, spool->bytes, PROT_READ | PROT_WRITE, how, spool->fd, 0);
    if (at == MAP_FAILED) return false;
    spool->header = at;
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
    /* Entry 0 of these tables means "none". It is zero, as is all space of fallocate(). */
    atomic_store(&spool->header->tables[MP_TABLE_NODES].count, 1);
    atomic_store(&spool->header->tables[MP_TABLE_MODULES].count, 1);
    atomic_store(&spool->header->tables[MP_TABLE_STRINGS].count, sizeof(uint32_t));
    struct mp_wire_node *root = mp_spool_entries(spool->header, MP_TABLE_NODES);
    root->frame = MP_WIRE_FRAME_CUT; /* so that no real node equals it */
    spool->held = hold_collector_mutex(spool->header);
    return spool->held;
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
                !strncmp(spool.header->file, output, sizeof spool.header->file);
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
    /* A thread's held robust mutexes are a linked list through the spools, so unlock before unmapping. */
    if (spool->held) pthread_mutex_unlock(&spool->header->collector);
    if (spool->header) munmap(spool->header, spool->bytes);
    if (remove && spool->path && *spool->path) unlink(spool->path);
    if (spool->fd >= 0) close(spool->fd);
    free(spool->path);
    *spool = (struct mp_spool_file){.fd = -1};
}
