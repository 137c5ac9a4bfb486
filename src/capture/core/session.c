#include "capture/core/session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/descriptor.h"
#include "capture/core/front.h"
#include "capture/core/signals.h"
#include "capture/core/views.h"

struct mp_session mp_session;

static char socket_path[sizeof((struct sockaddr_un *)0)->sun_path], socket_folder[sizeof socket_path];
static uint32_t generations; /* of this program image; survives a fork, unlike the page */
static uint32_t recorded;    /* pid of the last process that recorded; survives a fork */
static bool unrecorded;      /* a process could not record, so its children cannot either; survives a fork */

/* The longest time for the first attempt to attach. Later attempts are shorter, so that the program does not stand
 * still again. */
#define ANSWER_WITHIN_NS (2 * MP_NS_PER_SECOND)
#define LATER_WITHIN_NS  (100 * MP_NS_PER_MS)
/* A lack of descriptors or memory may pass soon. If it lasts, attempts become rare (from 4 ms to 16 s apart), because
 * each takes descriptors that the program may need. */
#define AGAIN_FIRST_NS (4 * MP_NS_PER_MS)
#define AGAIN_TIMES    6

/* True if a failed system call should be repeated. Any signal interrupts a socket with a timeout, even if its handler
 * restarts calls. A program's timers may send signals all the time. */
static bool again(uint64_t give_up)
{
    return errno == EINTR && mp_clock_monotonic_ns() < give_up;
}

/* Takes the descriptors that came with a message; closes all of them unless there are exactly two. */
static bool take_descriptors(struct msghdr *message, int descriptors[2])
{
    struct cmsghdr *rights = CMSG_FIRSTHDR(message);
    if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return false;
    size_t bytes = rights->cmsg_len - CMSG_LEN(0);
    if (bytes == 2 * sizeof(int)) {
        memcpy(descriptors, CMSG_DATA(rights), bytes);
        for (int i = 0; i < 2; i++)
            descriptors[i] = mp_descriptor_move_up(descriptors[i]);
        return true;
    }
    for (size_t i = 0; i < bytes / sizeof(int); i++) {
        int descriptor;
        memcpy(&descriptor, CMSG_DATA(rights) + i * sizeof descriptor, sizeof descriptor);
        mp_close(descriptor);
    }
    return false;
}

#define REFUSAL_PATH (sizeof socket_path + sizeof MP_REFUSED_SUFFIX + 32 + MP_PROCESS_NAME)

static size_t put_number(char *to, uint32_t number, uint32_t highest_digit)
{
    size_t length = 0;
    for (uint32_t digit = highest_digit; digit; digit /= 10)
        to[length++] = (char)('0' + number / digit % 10);
    to[length++] = '.';
    return length;
}

/* Reads the thread's name and replaces characters that a path may not contain by stars. */
static void read_own_name(char name[MP_PROCESS_NAME])
{
    if (mp_syscall(SYS_prctl, PR_GET_NAME, name)) *name = '\0';
    for (char *at = name; *at; at++)
        if (*at == '/') *at = '*';
}

/* Makes the folder's path in the form MP_REFUSED_FORM, without calls of the C library. */
static void name_refusal(int reason, const char *name, char path[REFUSAL_PATH])
{
    size_t length = strlen(socket_path);
    memcpy(path, socket_path, length);
    memcpy(path + length, MP_REFUSED_SUFFIX, sizeof MP_REFUSED_SUFFIX - 1);
    length += sizeof MP_REFUSED_SUFFIX - 1;
    length += put_number(path + length, (uint32_t)reason, 100);
    length += put_number(path + length, (uint32_t)mp_getpid(), 1000000000);
    length += put_number(path + length, recorded, 1000000000);
    memcpy(path + length, name, strlen(name) + 1);
}

/* Reports the refusal in the doorbell page that this process inherited from its parent. */
static void tell_by_doorbell(int reason, const char *name)
{
    struct mp_doorbell_page *page = mp_session.inherited;
    if (!page || !mp_is_here(page)) return;
    uint32_t row = atomic_fetch_add(&page->unreached, 1);
    if (row >= MP_UNREACHED_MOST) return;
    page->rows[row].above = recorded;
    page->rows[row].reason = reason;
    memcpy(page->rows[row].name, name, MP_PROCESS_NAME);
    atomic_store(&page->rows[row].pid, (uint32_t)mp_getpid());
}

/* 0 if the socket's folder belongs to this user or root; else errno. After the collector's end anyone may make a folder
 * or link of that name. */
static int check_folder(void)
{
    struct stat facts;
    if (mp_syscall(SYS_newfstatat, AT_FDCWD, socket_folder, &facts, AT_SYMLINK_NOFOLLOW)) return errno;
    bool own = S_ISDIR(facts.st_mode) && !(facts.st_mode & (S_IWGRP | S_IWOTH)) &&
               (!facts.st_uid || facts.st_uid == (uid_t)mp_syscall(SYS_geteuid));
    return own ? 0 : EPERM;
}

/* Reports to the collector that this process cannot be recorded, and why. */
static bool leave_refusal(int reason)
{
    char path[REFUSAL_PATH], *name = mp_session.page->refused_name;
    read_own_name(name);
    name_refusal(reason, name, path);
    if (!check_folder() && !mp_mkdir(path, 0700)) return true;
    tell_by_doorbell(reason, name);
    return false;
}

static void withdraw_refusal(int reason)
{
    char path[REFUSAL_PATH];
    name_refusal(reason, mp_session.page->refused_name, path);
    mp_rmdir(path);
}

/* True for a lack that may pass. ECONNRESET: the collector lacked descriptors, and closed connections that had not sent
 * a greeting. EAGAIN: the collector was stopped, or too busy to answer in time. EBADF: another thread closed all
 * descriptors. */
static bool is_passing(int reason)
{
    return reason == ECONNRESET || reason == EAGAIN || reason == EMFILE || reason == ENFILE || reason == ENOMEM ||
           reason == ENOBUFS || reason == EBADF;
}

/* Sends one greeting on a fresh connection and takes the collector's answer with its two descriptors. Returns 0, or
 * errno, or -1 if the collector does not want this process. *answered: the answer came, though maybe not the
 * descriptors. */
static int exchange_greeting(int connection, uint64_t give_up, int descriptors[2], struct mp_greeting_answer *answer,
                             bool *answered)
{
    struct mp_greeting greeting = {
        .magic = MP_GREETING_MAGIC, .version = MP_SPOOL_VERSION, .monotonic_ns = mp_clock_monotonic_ns()};
    ssize_t moved;
    do
        moved = mp_syscall(SYS_sendto, connection, &greeting, sizeof greeting, MSG_NOSIGNAL);
    while (moved < 0 && again(give_up));
    if (moved != sizeof greeting) return moved < 0 && is_passing(errno) ? errno : -1;

    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = answer, .iov_len = sizeof *answer};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    do
        moved = mp_syscall(SYS_recvmsg, connection, &message, MSG_CMSG_CLOEXEC);
    while (moved < 0 && again(give_up));
    if (moved < 0) return errno;
    bool taken = take_descriptors(&message, descriptors);
    *answered =
        taken && moved == sizeof *answer && answer->magic == MP_GREETING_MAGIC && answer->version == MP_SPOOL_VERSION;
    if (message.msg_flags & MSG_CTRUNC) return EMFILE; /* no descriptors were free for the answer's */
    if (taken && (descriptors[0] < 0 || descriptors[1] < 0)) return EBADF;
    return *answered ? 0 : -1;
}

static int new_socket(void)
{
    return mp_descriptor_move_up((int)mp_syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

/* Opens a socket only if two more descriptors are free for the answer. Otherwise the collector would answer, and count
 * the process as recorded. Below 0: -errno. */
static int first_of_three_descriptors(void)
{
    int first = new_socket(), second = first < 0 ? -1 : new_socket(), third = second < 0 ? -1 : new_socket();
    int reason = errno;
    if (second >= 0) mp_close(second);
    if (third >= 0) mp_close(third);
    if (first >= 0 && third < 0) mp_close(first);
    return third < 0 ? -reason : first;
}

/* 0 if the listening process may get this process's memory: it belongs to the same user, or to root. Else errno. */
static int check_listener(int connection)
{
    struct ucred who;
    socklen_t size = sizeof who;
    if (mp_syscall(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, &who, &size)) return errno;
    return !who.uid || who.uid == (uid_t)mp_syscall(SYS_geteuid) ? 0 : EPERM;
}

/* Lets calls on the connection wait until `give_up`; `option`: SO_SNDTIMEO, which connect() obeys too, or SO_RCVTIMEO.
 */
static void limit_waits(int connection, int option, uint64_t give_up)
{
    uint64_t now = mp_clock_monotonic_ns(), us = 1 + (now < give_up ? (give_up - now) / 1000 : 0); /* 0: for ever */
    struct timeval limit = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
    mp_syscall(SYS_setsockopt, connection, SOL_SOCKET, option, &limit, sizeof limit);
}

/* A connection; below 0: -errno. */
static int connect_to_collector(uint64_t give_up)
{
    int reason = check_folder(), connection = reason ? -reason : first_of_three_descriptors();
    if (connection < 0) return connection;
    limit_waits(connection, SO_SNDTIMEO, give_up);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, socket_path, sizeof address.sun_path);
    do
        reason = mp_syscall(SYS_connect, connection, &address, sizeof address) ? errno : 0;
    while (reason && again(give_up));
    limit_waits(connection, SO_RCVTIMEO, give_up);
    if (!reason) reason = check_listener(connection);
    if (!reason) return connection;
    mp_close(connection);
    return -reason;
}

/* True if the file has `bytes`. Touching a page that is mapped beyond the file's end would kill the program. */
static bool holds(int descriptor, uint64_t bytes)
{
    struct stat facts;
    if (mp_syscall(SYS_fstat, descriptor, &facts)) return false;
    bool whole = S_ISREG(facts.st_mode) && (uint64_t)facts.st_size >= bytes;
    if (!whole) errno = ENODEV;
    return whole;
}

static void *map_doorbell(int descriptor)
{
    if (!holds(descriptor, MP_DOORBELL_BYTES)) return NULL;
    void *at = mp_mmap(NULL, MP_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) return NULL;
    mp_madvise(at, MP_DOORBELL_BYTES, MADV_DONTDUMP); /* forked children keep the page for tell_by_doorbell() */
    return at;
}

/* Returns 0, or errno, or -1 if there is no reason to report. *asked: the collector has answered, so a recording
 * exists. */
static int attach(bool *asked)
{
    uint64_t give_up = mp_clock_monotonic_ns() + (mp_session.page->attempts ? LATER_WITHIN_NS : ANSWER_WITHIN_NS);
    int connection = connect_to_collector(give_up);
    if (connection < 0) return -connection;
    int descriptors[2] = {-1, -1};
    struct mp_greeting_answer answer = {0};
    int reason = exchange_greeting(connection, give_up, descriptors, &answer, asked);
    mp_close(connection);
    void *doorbell = reason ? NULL : map_doorbell(descriptors[1]);
    bool whole = doorbell && holds(descriptors[0], answer.file_bytes);
    struct mp_spool_header *header = whole ? mp_views_start(descriptors[0], answer.file_bytes) : NULL;
    if (!header && !reason) reason = errno ? errno : -1;
    mp_close(descriptors[0]);
    mp_close(descriptors[1]);
    if (!header && doorbell) mp_munmap(doorbell, MP_DOORBELL_BYTES);
    if (!header) return reason;
    mp_session.header = header;
    mp_session.clock_shift_ns = (uint64_t)answer.clock_shift_ns;
    mp_session.doorbell = doorbell;
    atomic_store(&header->look_wakes, atomic_load(&mp_session.look_wakes));
    mp_record_config_defaults(&mp_session.config);
    mp_record_config_parse(header->configuration, &mp_session.config);
    return 0;
}

/* Reports the first failure at once, since the program may end before the next attempt. */
static void give_up_or_wait(struct mp_session_page *page, int reason, bool for_good)
{
    bool is_reported = reason <= 0 || page->attempts || !leave_refusal(reason);
    if (for_good) {
        unrecorded = reason > 0;
        atomic_store(&mp_session.pending, false);
        return;
    }
    if (!is_reported) page->refused_for = reason;
    uint32_t times = page->attempts < AGAIN_TIMES ? page->attempts : AGAIN_TIMES;
    page->attempts++;
    atomic_store(&page->attach_after, mp_clock_monotonic_ns() + (AGAIN_FIRST_NS << 2 * times));
}

static void begin_recording(struct mp_session_page *page)
{
    if (page->refused_for) withdraw_refusal(page->refused_for);
    recorded = (uint32_t)mp_getpid();
    if (mp_session.inherited && mp_is_here(mp_session.inherited)) mp_munmap(mp_session.inherited, MP_DOORBELL_BYTES);
    mp_session.inherited = NULL;
    atomic_fetch_add(&mp_session.header->losses.dropped_inside, atomic_exchange(&page->dropped_early, 0));
    atomic_store(&page->generation, ++generations);
    atomic_store(&page->recording, 1);
    atomic_fetch_add(&mp_session.header->losses.dropped_unattached, atomic_exchange(&page->dropped_unattached, 0));
    atomic_store(&mp_session.pending, false);
}

/* Told by the child itself, at its first event: fork's handlers did not run in it, or ran inside a hook. So the locks
 * of other threads may be held in its memory for ever, and it is not recorded. */
static void tell_unrecorded_child(struct mp_session_page *page)
{
    char name[MP_PROCESS_NAME];
    bool is_child = !atomic_load(&mp_session.pending) && mp_session.header && !atomic_load(&page->generation);
    if (!is_child || !mp_session.config.follow || atomic_exchange(&page->told, 1)) return;
    if (!mp_session.inherited) mp_session.inherited = mp_session.doorbell;
    read_own_name(name);
    tell_by_doorbell(MP_UNREACHED_CLONE, name);
}

/* If recording began meanwhile, begin_recording() may have missed this count. The thread then moves the count
 * itself. */
void mp_session_count_unattached(void)
{
    struct mp_session_page *page = mp_session.page;
    if (page) tell_unrecorded_child(page);
    if (!page || !atomic_load(&page->attach_after)) return;
    atomic_fetch_add(&page->dropped_unattached, 1);
    if (atomic_load(&page->recording))
        atomic_fetch_add(&mp_session.header->losses.dropped_unattached, atomic_exchange(&page->dropped_unattached, 0));
}

static bool must_wait(const struct mp_session_page *page)
{
    uint64_t after = atomic_load(&page->attach_after);
    return after && mp_clock_monotonic_ns() < after;
}

/* If something fails after the collector has answered, do not retry: every try would begin another recording. */
static void attach_now(struct mp_session_page *page)
{
    if (!atomic_load(&mp_session.pending) || must_wait(page)) return;
    bool asked = false;
    int reason = mp_fronts_reset() ? attach(&asked) : ENOMEM;
    if (!reason) {
        begin_recording(page);
        return;
    }
    mp_fronts_end();
    give_up_or_wait(page, reason, asked || !is_passing(reason));
}

/* A thread in here must neither end nor leave by a jump. So its signals are blocked, and its cancellation is disabled,
 * since the calls below are cancellation points. If signals cannot be blocked, an event in a handler is lost. */
bool mp_session_attach(void)
{
    struct mp_session_page *page = mp_session.page;
    int saved = errno, cancellable;
    if (mp_lock_is_own(&page->attach_lock)) {
        atomic_fetch_add(&page->dropped_early, 1);
        return false;
    }
    if (must_wait(page)) return false;
    uint64_t signals;
    bool held = mp_signals_hold(&signals);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    if (mp_lock_take_within(&page->attach_lock, ANSWER_WITHIN_NS + MP_NS_PER_SECOND)) {
        attach_now(page);
        mp_lock_release(&page->attach_lock);
    }
    pthread_setcancelstate(cancellable, NULL);
    if (held) mp_signals_release(signals);
    errno = saved;
    return atomic_load_explicit(&page->recording, memory_order_acquire);
}

void mp_session_ring_doorbell(void)
{
    if (atomic_exchange(&mp_session.header->rung, 1)) return;
    atomic_fetch_add(&mp_session.doorbell->rings, 1);
    if (mp_futex_wake(&mp_session.doorbell->rings) < 0) mp_session_refused("futex");
}

void mp_session_note(const char *text)
{
    struct mp_spool_header *header = mp_session.header;
    if (!mp_lock_take(&mp_session.page->table_lock)) {
        mp_session_without_lock();
        return;
    }
    uint32_t count = atomic_load(&header->note_count);
    bool known = count >= MP_SPOOL_NOTES;
    for (uint32_t i = 0; i < count && !known; i++)
        known = !strncmp(header->notes[i], text, MP_SPOOL_NOTE_TEXT - 1);
    if (!known) {
        strncpy(header->notes[count], text, MP_SPOOL_NOTE_TEXT - 1);
        atomic_store_explicit(&header->note_count, count + 1, memory_order_release);
    }
    mp_lock_release(&mp_session.page->table_lock);
}

void mp_session_without_lock(void)
{
    struct mp_spool_header *header = mp_session.header;
    if (header) atomic_fetch_add(&header->losses.without_lock, 1);
}

void mp_session_no_memory(void)
{
    struct mp_spool_header *header = mp_session.header;
    bool is_first = !atomic_fetch_add(&header->losses.dropped_no_memory, 1);
    bool any = atomic_load(&header->rings_used) > 1 || atomic_load(&header->rings[0].head);
    if (is_first && !any) leave_refusal(ENOMEM); /* without this report, the process would appear nowhere */
}

void mp_session_refused(const char *call)
{
    static const char before[] = "the system refused the program the call ",
                      after[] = "(), as a sandbox does: recording ended there";
    char text[MP_SPOOL_NOTE_TEXT] = "";
    int reason = errno;
    if ((reason != EPERM && reason != ENOSYS && reason != EACCES) || !atomic_exchange(&mp_session.page->recording, 0))
        return;
    atomic_store(&mp_session.header->losses.dropped_refused, 1);
    size_t length = strlen(call);
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, call, length);
    memcpy(text + sizeof before - 1 + length, after, sizeof after);
    mp_session_note(text);
}

void mp_session_source(enum mp_source source)
{
    if (~atomic_load_explicit(&mp_session.header->sources, memory_order_relaxed) & source)
        atomic_fetch_or(&mp_session.header->sources, source);
}

void mp_session_start(void)
{
    const char *session = secure_getenv(MP_SESSION_VARIABLE);
    if (!session || session[0] != MP_SESSION_VERSION || session[1] != ';') return;
    size_t length = strlen(session + 2);
    if (!length || length >= sizeof socket_path) return;
    memcpy(socket_path, session + 2, length);
    while (length && socket_path[length] != '/')
        length--;
    memcpy(socket_folder, socket_path, length); /* without a slash at the end, which would follow a link */

    void *page =
        mp_mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (mp_madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK)) {
        mp_munmap(page, (size_t)sysconf(_SC_PAGESIZE));
        return;
    }
    mp_session.page = page;
    atomic_store(&mp_session.pending, true);
}

void mp_session_give_up(void)
{
    static struct mp_session_page none;
    atomic_store(&mp_session.pending, false);
    mp_own_tid_forget();
    mp_session.page = &none;
    mp_session.header = NULL;
    mp_session.doorbell = NULL;
}

void mp_session_after_fork(bool inside_hook)
{
    struct mp_doorbell_page *own = mp_session.doorbell;
    mp_own_tid_forget();
    if (own && mp_is_here(own)) mp_session.inherited = own;
    /* The parent's mappings are missing here (MADV_DONTFORK). Blank memory takes their place, for a hook that still
     * uses them. */
    if (inside_hook) {
        mp_views_blank();
        if (!mp_session.inherited) mp_view_put_blank(own, MP_DOORBELL_BYTES);
        atomic_store(&mp_session.pending, false);
        return;
    }
    bool waits = unrecorded || atomic_load(&mp_session.pending);
    bool follow = mp_session.page && (mp_session.header ? mp_session.config.follow : waits);
    mp_session.header = NULL;
    mp_session.doorbell = NULL;
    atomic_store(&mp_session.pending, follow);
}
