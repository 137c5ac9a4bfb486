#include "collect/metrics/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/new_file.h"

#define FILE_EVERY_NS   (5 * UINT64_C(1000000000))
#define TEXT_AT_MOST_NS UINT64_C(1000000000) /* a text is used for at most this long, */
#define TEXT_SHARE                                                                                                     \
    50 /* and for so many times the time that it took to make: millions of blocks                                      \
        * may be live */
#define CLIENT_NS (2 * UINT64_C(1000000000))

static enum mp_status listen_on(int family, const struct sockaddr *address, socklen_t size, const char *where,
                                struct mp_metrics *metrics, struct mp_error *error)
{
    int yes = 1;
    metrics->listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (metrics->listener >= 0 && family == AF_INET)
        setsockopt(metrics->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    mode_t mask = umask(0177); /* only the user may open the socket */
    bool bound = metrics->listener >= 0 && !bind(metrics->listener, address, size);
    umask(mask);
    if (bound && !listen(metrics->listener, MP_METRICS_CLIENTS)) return MP_OK;
    return mp_fail_errno(error, "--metrics: cannot listen on %s", where);
}

static enum mp_status listen_on_path(const char *where, struct mp_metrics *metrics, struct mp_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = where + strlen("unix:");
    if (!*path || strlen(path) >= sizeof address.sun_path)
        return mp_fail(error, MP_INVALID, "--metrics: \"%s\" is no path of a socket, or too long a one", where);
    memcpy(address.sun_path, path, strlen(path));
    enum mp_status status = listen_on(AF_UNIX, (struct sockaddr *)&address, sizeof address, where, metrics, error);
    if (status) return status;
    struct stat facts;
    metrics->path = strdup(path);
    if (!metrics->path) return mp_fail(error, MP_NO_MEMORY, "out of memory");
    if (!lstat(path, &facts)) {
        metrics->device = facts.st_dev;
        metrics->inode = facts.st_ino;
    }
    return MP_OK;
}

static enum mp_status listen_on_port(const char *where, struct mp_metrics *metrics, struct mp_error *error)
{
    static const char loopback[] = "127.0.0.1:";
    const char *digits = strncmp(where, loopback, strlen(loopback)) ? where : where + strlen(loopback);
    char *end;
    unsigned long port = strtoul(digits, &end, 10);
    if (end == digits || *end || !port || port > 65535)
        return mp_fail(error, MP_INVALID,
                       "--metrics: \"%s\" is neither a file's path, nor a port (9464), nor unix:PATH", where);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return listen_on(AF_INET, (struct sockaddr *)&address, sizeof address, where, metrics, error);
}

/* Replaces the socket of an earlier run that was killed; leaves anything else. */
static enum mp_status take_over(const char *where, struct mp_metrics *metrics, struct mp_error *error)
{
    static const char begins[] = "# TYPE memprof_", type[] = "# HELP memprof_";
    char text[sizeof begins] = "";
    struct stat facts;
    if (lstat(where, &facts)) return MP_OK;
    int fd = S_ISREG(facts.st_mode) ? open(where, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    bool ours = fd >= 0 && (!facts.st_size ||
                            (read(fd, text, sizeof text - 1) > 0 && (!strcmp(text, begins) || !strcmp(text, type))));
    if (ours && !fstat(fd, &facts)) {
        metrics->device = facts.st_dev;
        metrics->inode = facts.st_ino;
    }
    if (fd >= 0) close(fd);
    if (ours) return MP_OK;
    return mp_fail(error, MP_IO, "--metrics: %s is there already and holds no metrics of memprof's: it stays as it is",
                   where);
}

static enum mp_status open_file(const struct mp_metrics *metrics, struct mp_new_file *file, struct mp_error *error)
{
    const struct mp_new_file_rule rule = {
        .way = MP_NEW_FILE_OWN, .own_device = metrics->device, .own_inode = metrics->inode, .nameless = true};
    return mp_new_file_open(metrics->path, &rule, file, error);
}

enum mp_status mp_metrics_open(const char *where, struct mp_metrics *metrics, struct mp_error *error)
{
    *metrics = (struct mp_metrics){.listener = -1};
    for (size_t i = 0; i < MP_METRICS_CLIENTS; i++)
        metrics->clients[i].connection = -1;
    if (!where) return MP_OK;
    if (!strncmp(where, "unix:", strlen("unix:"))) return listen_on_path(where, metrics, error);
    if (!strchr(where, '/') && !strchr(where, '.')) return listen_on_port(where, metrics, error);
    if (!strncmp(where, "127.0.0.1:", strlen("127.0.0.1:"))) return listen_on_port(where, metrics, error);
    metrics->file = true;
    metrics->path = strdup(where);
    if (!metrics->path) return mp_fail(error, MP_NO_MEMORY, "out of memory");
    struct mp_new_file probe;
    enum mp_status status = take_over(where, metrics, error);
    if (!status)
        status = open_file(metrics, &probe, error); /* an error that is known before the command starts is reported
                                                     * before */
    if (status) {
        free(metrics->path);
        metrics->path = NULL;
        return status;
    }
    close(probe.fd);
    mp_new_file_close(&probe);
    return MP_OK;
}

static void make_text(struct mp_metrics *metrics, struct mp_recording *const *recordings, size_t count, uint64_t now)
{
    uint64_t age = now - metrics->made_ns;
    if (metrics->made_ns && (age < TEXT_AT_MOST_NS || age < TEXT_SHARE * metrics->took_ns)) return;
    metrics->made_ns = now;
    mp_buffer_clear(&metrics->text);
    mp_metrics_write(&metrics->text, recordings, count);
    metrics->took_ns = mp_clock_monotonic_ns() - now;
}

/* Writes the file so that readers see the old text or the new one. */
static void write_file(struct mp_metrics *metrics)
{
    struct mp_new_file file;
    struct mp_error ignored; /* the next round tries again */
    struct stat facts;
    if (metrics->text.failed || open_file(metrics, &file, &ignored)) return;
    bool written = write(file.fd, metrics->text.data, metrics->text.size) == (ssize_t)metrics->text.size &&
                   !fstat(file.fd, &facts);
    if (written && !mp_new_file_put(&file, &ignored)) {
        metrics->device = facts.st_dev;
        metrics->inode = facts.st_ino;
    }
    close(file.fd);
    mp_new_file_close(&file);
}

static void drop(struct mp_metrics_client *client)
{
    close(client->connection);
    client->connection = -1;
    mp_buffer_free(&client->answer);
}

static void take_clients(struct mp_metrics *metrics, uint64_t now)
{
    for (size_t i = 0; i < MP_METRICS_CLIENTS; i++) {
        struct mp_metrics_client *client = &metrics->clients[i];
        if (client->connection >= 0) continue;
        int connection = accept4(metrics->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0) return;
        *client = (struct mp_metrics_client){.connection = connection, .since_ns = now};
    }
}

/* A page of another host that resolves to the loopback address gets no answer. */
static bool host_is_local(const char *request)
{
    static const char *const local[] = {"127.0.0.1", "localhost"};
    const char *host = strcasestr(request, "\r\nhost:");
    if (!host) return true;
    host += strlen("\r\nhost:");
    host += strspn(host, " ");
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!strncasecmp(host, local[i], strlen(local[i])) && strchr(":\r ", host[strlen(local[i])])) return true;
    return false;
}

static void answer(struct mp_metrics *metrics, struct mp_metrics_client *client)
{
    static const char refusal[] = "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const char *request = client->request;
    bool get = !strncmp(request, "GET /metrics ", strlen("GET /metrics ")) || !strncmp(request, "GET / ", 6);
    if (!metrics->path && !host_is_local(request)) {
        mp_buffer_printf(&client->answer, refusal, "403 Forbidden");
    } else if (!get) {
        mp_buffer_printf(&client->answer, refusal, "404 Not Found");
    } else {
        mp_buffer_printf(&client->answer,
                         "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
                         "charset=utf-8\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                         metrics->text.size);
        mp_buffer_append(&client->answer, metrics->text.data, metrics->text.size);
    }
}

/* Reads the request; true once it is whole. */
static bool take_request(struct mp_metrics_client *client)
{
    ssize_t got = read(client->connection, client->request + client->read, sizeof client->request - 1 - client->read);
    if (!got || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        drop(client);
        return false;
    }
    if (got > 0) client->read += (size_t)got;
    client->request[client->read] = '\0';
    return strstr(client->request, "\r\n\r\n") || client->read == sizeof client->request - 1;
}

static void serve_client(struct mp_metrics *metrics, struct mp_metrics_client *client,
                         struct mp_recording *const *recordings, size_t count, uint64_t now)
{
    if (now - client->since_ns > CLIENT_NS) {
        drop(client);
        return;
    }
    if (!client->answer.size) {
        if (!take_request(client)) return;
        make_text(metrics, recordings, count, now);
        answer(metrics, client);
    }
    if (client->answer.failed) {
        drop(client);
        return;
    }
    ssize_t sent =
        send(client->connection, client->answer.data + client->sent, client->answer.size - client->sent, MSG_NOSIGNAL);
    if (sent > 0) client->sent += (size_t)sent;
    if (client->sent == client->answer.size || (sent < 0 && errno != EAGAIN && errno != EINTR)) drop(client);
}

void mp_metrics_serve(struct mp_metrics *metrics, struct mp_recording *const *recordings, size_t count)
{
    uint64_t now = mp_clock_monotonic_ns();
    if (metrics->file && now - metrics->written_ns >= FILE_EVERY_NS) {
        metrics->written_ns = now;
        make_text(metrics, recordings, count, now);
        write_file(metrics);
    }
    if (metrics->listener < 0) return;
    take_clients(metrics, now);
    for (size_t i = 0; i < MP_METRICS_CLIENTS; i++)
        if (metrics->clients[i].connection >= 0) serve_client(metrics, &metrics->clients[i], recordings, count, now);
}

void mp_metrics_close(struct mp_metrics *metrics)
{
    for (size_t i = 0; i < MP_METRICS_CLIENTS; i++)
        if (metrics->clients[i].connection >= 0) drop(&metrics->clients[i]);
    if (metrics->listener >= 0) close(metrics->listener);
    if (metrics->path) mp_new_file_remove(metrics->path, metrics->device, metrics->inode);
    free(metrics->path);
    mp_buffer_free(&metrics->text);
    *metrics = (struct mp_metrics){.listener = -1};
}
