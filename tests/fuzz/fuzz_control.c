/*
 * libFuzzer target for the session's socket: messages of a process to the collector, with descriptors, and the
 * collector's answers. The input: the number of descriptors, whether the first is an empty file, then the message.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "collect/session/collector.h"
#include "collect/session/control.h"
#include "collect/session/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_DESCRIPTORS 8

static void send_all(int connection, const uint8_t *message, size_t size, const int *descriptors, size_t count)
{
    union {
        char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), descriptors, count * sizeof(int));
    }
    (void)sendmsg(connection, &header, MSG_NOSIGNAL);
}

/* Makes a collector that only this process can reach, and that has no process yet. */
static int listen_here(struct sockaddr_un *address, socklen_t *length)
{
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *length = sizeof(sa_family_t);
    if (listener < 0 || bind(listener, (struct sockaddr *)address, *length) || listen(listener, 4)) abort();
    *length = sizeof *address;
    if (getsockname(listener, (struct sockaddr *)address, length)) abort();
    return listener;
}

static int open_descriptors(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void say(struct mp_collector *collector, const struct sockaddr_un *address, socklen_t length,
                const uint8_t *data, size_t size)
{
    int descriptors[MOST_DESCRIPTORS], connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    size_t count = data[0] % (MOST_DESCRIPTORS + 1);
    if (connection < 0 || connect(connection, (const struct sockaddr *)address, length)) abort();
    for (size_t i = 0; i < count; i++)
        descriptors[i] = data[1] & 1 ? memfd_create("answer", MFD_CLOEXEC) : dup(connection);
    send_all(connection, data + 2, size - 2, descriptors, count);
    mp_collector_accept(collector);
    for (size_t i = 0; i < count; i++)
        close(descriptors[i]);
    close(connection);
    mp_collector_accept(collector); /* what could not be sent left a connection that says nothing, and is closed now */
    if (collector->visitors.count) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct mp_collector_options options = {.output = "/nowhere/run.mp"};
    static struct mp_collector_result result;
    static struct mp_collector collector = {
        .options = &options, .result = &result, .listener = -1, .doorbell.memory = -1};
    static struct sockaddr_un address;
    static socklen_t length;
    if (size < 3 || size > 512) return 0;
    if (collector.listener < 0) {
        collector.listener = listen_here(&address, &length);
        collector.doorbell.memory = memfd_create("doorbell", MFD_CLOEXEC);
        mp_finisher_open(&collector.finisher);
    }
    int before = open_descriptors();
    say(&collector, &address, length, data, size);
    while (collector.processes.count) {
        struct mp_collected process = collector.processes.at[--collector.processes.count];
        if (process.pidfd >= 0) close(process.pidfd);
        mp_recording_free(process.recording, true);
    }
    if (open_descriptors() != before) abort();

    struct mp_control_question question;
    (void)mp_control_is_question(data, size, &question);
    return 0;
}
