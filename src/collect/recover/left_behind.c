#include "collect/recover/left_behind.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* True if the collector was killed during the first write: the file's first object, which names the spool, is
 * incomplete. */
static bool only_begun(const char *path)
{
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error ignored;
    if (mp_reader_open(path, &reader, &ignored)) return false;
    bool begun = !mp_reader_start(reader)->realtime_ns && mp_reader_next(reader, &chunk, &ignored) == MP_NOT_FOUND;
    mp_reader_close(reader);
    return begun;
}

bool mp_left_without_events(const char *path)
{
    struct mp_reader *reader;
    struct mp_chunk chunk = {.kind = 0};
    struct mp_error ignored;
    if (mp_reader_open(path, &reader, &ignored)) return false;
    enum mp_status status = MP_OK;
    while (!status && chunk.kind != MP_CHUNK_EVENTS_KIND && chunk.kind != MP_CHUNK_EXIT)
        status = mp_reader_next(reader, &chunk, &ignored);
    bool without = status == MP_NOT_FOUND && !mp_reader_damage(reader)->lost_chunks;
    mp_reader_close(reader);
    return without;
}

/* True if the file is missing, or useless because the kill came early. */
static bool holds_nothing(const char *path)
{
    struct stat facts;
    if (stat(path, &facts)) return errno == ENOENT;
    return S_ISREG(facts.st_mode) && (!facts.st_size || only_begun(path));
}

enum mp_status mp_left_recording(const char *path, struct mp_reader **reader, struct mp_error *error)
{
    *reader = NULL;
    return holds_nothing(path) ? MP_OK : mp_reader_open(path, reader, error);
}

/* True if the spool's process still maps it. */
static bool is_in_use(const struct mp_spool_file *spool)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool used = false;
    snprintf(path, sizeof path, "/proc/%u/maps", spool->header->pid);
    FILE *maps = fopen(path, "re");
    while (maps && !used && getline(&line, &room, maps) > 0)
        used = strstr(line, spool->path) != NULL;
    free(line);
    if (maps) fclose(maps);
    return used;
}

enum mp_status mp_left_spool(const struct mp_reader *reader, const char *path, struct mp_spool_file *spool,
                             struct mp_error *error)
{
    struct mp_error ignored;
    char folder[PATH_MAX], output[PATH_MAX + 256], *found = NULL, *copy = strdup(path);
    if (!copy) return mp_fail(error, MP_NO_MEMORY, "out of memory while recovering");
    bool resolved = realpath(dirname(copy), folder);
    free(copy);
    if (!resolved) return MP_NOT_FOUND;
    if (reader) {
        const struct mp_recording_start *start = mp_reader_start(reader);
        if (!*start->spool || mp_spool_file_open(start->spool, spool, &ignored)) return MP_NOT_FOUND;
        if (spool->header->spool_id != start->spool_id) {
            mp_spool_file_close(spool, false);
            return MP_NOT_FOUND;
        }
    } else {
        copy = strdup(path);
        if (!copy) return mp_fail(error, MP_NO_MEMORY, "out of memory while recovering");
        snprintf(output, sizeof output, "%s/%s", folder, basename(copy));
        free(copy);
        found = mp_spool_file_find(output, folder);
        enum mp_status status = found ? mp_spool_file_open(found, spool, &ignored) : MP_NOT_FOUND;
        free(found);
        if (status) return MP_NOT_FOUND;
    }
    if (!is_in_use(spool)) return MP_OK;
    enum mp_status status = mp_fail(
        error, MP_BUSY, "process %u is still running and recording; recover it when it has ended", spool->header->pid);
    mp_spool_file_close(spool, false);
    return status;
}

enum mp_status mp_left_look(const char *path, struct mp_error *error)
{
    struct mp_reader *reader = NULL;
    struct mp_spool_file spool;
    if (mp_left_recording(path, &reader, error)) return MP_NOT_FOUND;
    enum mp_status status = mp_left_spool(reader, path, &spool, error);
    if (!status) mp_spool_file_close(&spool, false);
    mp_reader_close(reader);
    return status;
}
