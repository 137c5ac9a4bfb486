/* Finds and identifies the files that a program has loaded. The program may have ended by then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "collect/recording/recording_parts.h"

/* True if two paths lead to the same file. *known: both paths exist. */
static bool are_one(const char *one, const char *other, bool *known)
{
    struct stat left, right;
    if (stat(one, &left) || stat(other, &right)) return *known = false;
    return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

bool mp_recording_look_at_root(struct mp_recording *recording)
{
    char mounts[sizeof recording->root];
    bool known = true;
    snprintf(mounts, sizeof mounts, "/proc/%u/ns/mnt", recording->pid);
    bool shares = are_one(recording->root, "/", &known) && are_one(mounts, "/proc/self/ns/mnt", &known);
    if (known) recording->shares_root = shares;
    return known;
}

/* True if the process maps a deleted file that was at `path`: then another file is at `path` now. *running: the process
 * still has mappings. */
static bool has_replaced(const struct mp_recording *recording, const char *path, bool *running)
{
    char maps[sizeof recording->root], *line = NULL, *deleted;
    size_t room = 0;
    bool found = false;
    snprintf(maps, sizeof maps, "/proc/%u/maps", recording->pid);
    FILE *file = fopen(maps, "re");
    *running = false;
    if (!file || asprintf(&deleted, "%s (deleted)\n", path) < 0) deleted = NULL;
    while (deleted && !found && getline(&line, &room, file) >= 0) {
        size_t length = strlen(line), wanted = strlen(deleted);
        *running = true;
        found = length > wanted && !strcmp(line + length - wanted, deleted);
    }
    free(deleted);
    free(line);
    if (file) fclose(file);
    return found;
}

/* The kernel takes the times of files from its last tick. So they may lag by this much. */
static uint64_t tick_ns(void)
{
    struct timespec tick;
    if (clock_getres(CLOCK_REALTIME_COARSE, &tick))
        return 10 * MP_NS_PER_MS; /* the lowest rate is 100 ticks a
                                   * second */
    return (uint64_t)tick.tv_sec * MP_NS_PER_SECOND + (uint64_t)tick.tv_nsec;
}

/* Identifies a file without a build-id. *known stays empty if the file may not be the loaded one: it was replaced, or
 * the program has ended and the file changed after the program's start. */
static void identify(const struct mp_recording *recording, const char *path, const char *full, struct mp_file_id *known)
{
    struct stat facts;
    bool running;
    if (stat(full, &facts) || has_replaced(recording, path, &running)) return;
    uint64_t changed_ns = (uint64_t)facts.st_ctim.tv_sec * MP_NS_PER_SECOND + (uint64_t)facts.st_ctim.tv_nsec;
    if (!running && (!recording->shares_root || changed_ns + tick_ns() > recording->spool.header->realtime_ns)) return;
    known->size = (uint64_t)facts.st_size;
    known->inode = facts.st_ino;
    known->mtime_ns = facts.st_mtim.tv_sec * INT64_C(1000000000) + facts.st_mtim.tv_nsec;
}

void mp_recording_add_module(void *context, uint32_t id, const char *path, const struct mp_file_id *file)
{
    struct mp_recording *recording = context;
    if (!recording->symbols) return;
    bool can_be_asked = mp_recording_look_at_root(recording);
    struct mp_file_id known = *file;
    const char *root = recording->shares_root || !can_be_asked ? "" : recording->root;
    char full[4096];
    snprintf(full, sizeof full, "%s%s", root, path);
    if (!known.build_id_size) identify(recording, path, full, &known);
    struct mp_error ignored; /* on failure the module's addresses stay without names */
    (void)mp_symbols_add_module(recording->symbols, id, path, &known, root, &ignored);
}
