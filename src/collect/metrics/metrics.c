#include "collect/metrics/metrics.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/new_file.h"

#define EVERY_NS (5 * UINT64_C(1000000000))
#define SHARE    50 /* making texts takes at most 1/50 of the time: with millions of live blocks, one text takes long */

/* Takes over the file of an earlier run that was killed. Refuses any other file. */
static enum mp_status take_over(struct mp_metrics *metrics, struct mp_error *error)
{
    static const char begins[] = "# TYPE memprof_";
    char text[sizeof begins] = "";
    struct stat facts;
    if (lstat(metrics->path, &facts)) return MP_OK;
    int fd = S_ISREG(facts.st_mode) ? open(metrics->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    bool ours = fd >= 0 && (!facts.st_size || (read(fd, text, sizeof text - 1) > 0 && !strcmp(text, begins)));
    if (ours && !fstat(fd, &facts)) {
        metrics->device = facts.st_dev;
        metrics->inode = facts.st_ino;
    }
    if (fd >= 0) close(fd);
    if (ours) return MP_OK;
    return mp_fail(error, MP_IO, "--metrics: %s exists, and is no file of memprof's metrics: name another file",
                   metrics->path);
}

static enum mp_status open_file(const struct mp_metrics *metrics, struct mp_new_file *file, struct mp_error *error)
{
    const struct mp_new_file_rule rule = {
        .way = MP_NEW_FILE_OWN, .own_device = metrics->device, .own_inode = metrics->inode, .nameless = true};
    return mp_new_file_open(metrics->path, &rule, file, error);
}

/* Tries to make the file, so that errors are reported before the command starts. */
static enum mp_status try_file(struct mp_metrics *metrics, struct mp_error *error)
{
    struct mp_new_file probe;
    enum mp_status status = take_over(metrics, error);
    if (!status) status = open_file(metrics, &probe, error);
    if (status) return status;
    close(probe.fd);
    mp_new_file_close(&probe);
    return MP_OK;
}

enum mp_status mp_metrics_open(const char *path, struct mp_metrics *metrics, struct mp_error *error)
{
    *metrics = (struct mp_metrics){0};
    if (!path) return MP_OK;
    if (!*path || !strncmp(path, "unix:", strlen("unix:")) || path[strspn(path, "0123456789.:")] == '\0')
        return mp_fail(error, MP_INVALID,
                       "--metrics %s: give a file's path, such as memprof.prom; memprof answers on no port and no "
                       "socket any more",
                       path);
    metrics->path = strdup(path);
    if (!metrics->path) return mp_fail(error, MP_NO_MEMORY, "out of memory");
    enum mp_status status = try_file(metrics, error);
    if (!status) return MP_OK;
    free(metrics->path);
    metrics->path = NULL;
    return status;
}

/* Writes the file so that readers see the old text or the new one. The next round tries again after a failure. */
static void write_file(struct mp_metrics *metrics, const struct mp_buffer *text)
{
    struct mp_new_file file;
    struct mp_error ignored;
    struct stat facts;
    if (text->failed || open_file(metrics, &file, &ignored)) return;
    bool written = write(file.fd, text->data, text->size) == (ssize_t)text->size && !fstat(file.fd, &facts);
    if (written && !mp_new_file_put(&file, &ignored)) {
        metrics->device = facts.st_dev;
        metrics->inode = facts.st_ino;
    }
    close(file.fd);
    mp_new_file_close(&file);
}

void mp_metrics_serve(struct mp_metrics *metrics, struct mp_recording *const *recordings, size_t count)
{
    uint64_t now = mp_clock_monotonic_ns(), age = now - metrics->written_ns;
    struct mp_buffer text = {0};
    if (!metrics->path || (metrics->written_ns && (age < EVERY_NS || age < SHARE * metrics->took_ns))) return;
    metrics->written_ns = now;
    mp_metrics_write(&text, recordings, count);
    metrics->took_ns = mp_clock_monotonic_ns() - now;
    write_file(metrics, &text);
    mp_buffer_free(&text);
}

void mp_metrics_close(struct mp_metrics *metrics)
{
    if (metrics->path) mp_new_file_remove(metrics->path, metrics->device, metrics->inode);
    free(metrics->path);
    *metrics = (struct mp_metrics){0};
}
