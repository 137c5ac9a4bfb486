/* A process and its collector: the answers that the recorder accepts, and the traces that it leaves if it is not
 * recorded. The collector is a thread that answers as each test needs. */
#include "capture/core/session.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "capture/core/fork.h"
#include "capture/core/front.h"
#include "capture/core/tables.h"
#include "unit/suite.h"

static char folder[64], path[128];
static int listener = -1;
static struct mp_spool_header *spool; /* the collector's view */
static int spool_fd, doorbell_fd;
static _Atomic uint32_t *doorbell;
static uint64_t spool_bytes;

/* ---- the collector ----------------------------------------------------------------------------------------------- */

struct answer {
    struct mp_greeting_answer bytes;
    size_t length, descriptors;
    int what[4];
};
static struct mp_greeting greeted;

static void *answer_one(void *context)
{
    const struct answer *answer = context;
    union {
        char bytes[CMSG_SPACE(sizeof answer->what)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)&answer->bytes, answer->length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (answer->descriptors) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(answer->descriptors * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        *rights = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(answer->descriptors * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(rights), answer->what, answer->descriptors * sizeof(int));
    }
    int connection = accept(listener, NULL, NULL);
    ssize_t got = recv(connection, &greeted, sizeof greeted, 0);
    if (got == sizeof greeted && answer->length) sendmsg(connection, &message, 0);
    close(connection);
    return NULL;
}

static void listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, name);
    listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    ck_assert(!bind(listener, (struct sockaddr *)&address, sizeof address) && !listen(listener, 8));
}

static void make_spool(const char *configuration)
{
    struct mp_spool_table tables[MP_TABLES] = {{0}};
    spool_bytes = mp_spool_layout(tables);
    spool_fd = memfd_create("spool", 0);
    doorbell_fd = memfd_create("doorbell", 0);
    ck_assert(!ftruncate(spool_fd, (off_t)spool_bytes) && !ftruncate(doorbell_fd, MP_DOORBELL_BYTES));
    spool = mmap(NULL, spool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, spool_fd, 0);
    void *bell = mmap(NULL, MP_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, doorbell_fd, 0);
    ck_assert(spool != MAP_FAILED && bell != MAP_FAILED);
    doorbell = bell;
    memcpy(spool->tables, tables, sizeof tables);
    for (int id = 0; id < MP_TABLES; id++)
        spool->tables[id].committed = tables[id].room;
    spool->rings_committed = MP_SPOOL_RINGS_MAX;
    spool->magic = MP_SPOOL_MAGIC;
    spool->version = MP_SPOOL_VERSION;
    spool->header_bytes = sizeof *spool;
    snprintf(spool->configuration, sizeof spool->configuration, "%s", configuration);
    atomic_store(&spool->collector, (uint32_t)getpid()); /* somebody holds it */
}

static void begin(void)
{
    struct mp_record_config config;
    char configuration[sizeof spool->configuration];
    mp_record_config_defaults(&config);
    config.native_stacks = config.python_stacks = false;
    config.max_events = 1234;
    ck_assert(mp_record_config_format(&config, configuration, sizeof configuration));
    strcpy(folder, "/tmp/memprof-session-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    make_spool(configuration);
    listen_at(path);
    char variable[160];
    snprintf(variable, sizeof variable, "%c;%s", MP_SESSION_VERSION, path);
    setenv(MP_SESSION_VARIABLE, variable, 1);
    ck_assert(mp_fronts_start() && mp_thread_start() && mp_fork_start());
    mp_session_start();
    ck_assert_ptr_nonnull(mp_session.page);
    ck_assert(mp_session.pending);
    ck_assert_ptr_null(mp_session.header);
}

/* The number of the refusal that the recorder left, which is removed; -1: none. */
static int refusal(void)
{
    int found = -1;
    char pattern[256], *numbers;
    glob_t names = {0};
    snprintf(pattern, sizeof pattern, "%s" MP_REFUSED_SUFFIX "???.%010d.??????????.check_session", path, (int)getpid());
    if (glob(pattern, 0, NULL, &names)) return found;
    ck_assert_uint_eq(names.gl_pathc, 1);
    numbers = names.gl_pathv[0] + strlen(path) + strlen(MP_REFUSED_SUFFIX);
    found = atoi(numbers);
    ck_assert(!rmdir(names.gl_pathv[0]));
    globfree(&names);
    return found;
}

static void end(void)
{
    ck_assert_int_eq(refusal(), -1);
    unlink(path);
    rmdir(folder);
    close(listener);
    close(spool_fd);
    close(doorbell_fd);
}

static struct answer good_answer(void)
{
    return (struct answer){.bytes = {MP_GREETING_MAGIC, MP_SPOOL_VERSION, spool_bytes, -5000},
                           .length = sizeof(struct mp_greeting_answer),
                           .descriptors = 2,
                           .what = {spool_fd, doorbell_fd, doorbell_fd, doorbell_fd}};
}

static bool attach(const struct answer *answer)
{
    pthread_t thread;
    struct answer given = *answer;
    atomic_store(&mp_session.pending, true);
    ck_assert(!pthread_create(&thread, NULL, answer_one, &given));
    errno = ENOTTY;
    bool attached = mp_session_recording();
    ck_assert_int_eq(errno, ENOTTY);
    pthread_join(thread, NULL);
    ck_assert(!mp_session.pending);
    ck_assert_int_eq(mp_session.page->recording, attached);
    return attached;
}

START_TEST(a_good_answer_is_taken_whole)
{
    begin();
    struct answer answer = good_answer();
    uint64_t before = mp_clock_monotonic_ns();
    atomic_store(&mp_session.page->dropped_early, 3);
    int open_before = mp_suite_open_descriptors();
    ck_assert(attach(&answer));
    ck_assert_int_eq(mp_suite_open_descriptors(), open_before); /* nothing stays open in the program */
    ck_assert_uint_eq(greeted.magic, MP_GREETING_MAGIC);
    ck_assert_uint_eq(greeted.version, MP_SPOOL_VERSION);
    ck_assert(greeted.monotonic_ns >= before && greeted.monotonic_ns <= mp_clock_monotonic_ns());
    ck_assert_uint_eq(mp_session.clock_shift_ns, (uint64_t)-5000);
    ck_assert_uint_eq(mp_session.config.max_events, 1234);
    ck_assert(!mp_session.config.native_stacks);
    ck_assert_uint_eq(mp_session.page->generation, 1);
    ck_assert_uint_eq(spool->losses.dropped_inside, 3);
    ck_assert_uint_eq(mp_session.page->dropped_early, 0);
    atomic_store(&spool->ring_waiters, 77); /* the same memory */
    ck_assert_uint_eq(mp_session.header->ring_waiters, 77);
    mp_session_ring_doorbell();
    mp_session_ring_doorbell(); /* no collector has listened yet */
    ck_assert_uint_eq(*doorbell, 1);
    atomic_store(&spool->rung, 0);
    mp_session_ring_doorbell();
    ck_assert_uint_eq(*doorbell, 2);
    mp_session_source(MP_SOURCE_HOOKS | MP_SOURCE_TORCH);
    mp_session_source(MP_SOURCE_HOOKS);
    ck_assert_uint_eq(spool->sources, MP_SOURCE_HOOKS | MP_SOURCE_TORCH);
    ck_assert(mp_session_recording());
    end();
}

/* The collector has ended, and another user has made its folder again. */
START_TEST(another_user_is_not_trusted)
{
    if (geteuid()) return;
    begin();
    syscall(SYS_setresuid, -1, 65534, -1); /* of this thread alone */
    ck_assert(!listen(listener, 4));       /* the kernel notes who listens */
    syscall(SYS_setresuid, -1, 0, -1);
    atomic_store(&mp_session.pending, true);
    ck_assert(!mp_session_recording());
    ck_assert_ptr_null(mp_session.header);
    ck_assert_int_eq(refusal(), EPERM);
    end();
}

/* A folder of another user gets neither a question nor a file. */
START_TEST(another_users_folder_is_left_alone)
{
    char moved[sizeof folder + 1];
    for (int how = geteuid() ? 1 : 0; how < 3; how++) {
        begin();
        snprintf(moved, sizeof moved, "%s+", folder);
        if (how == 0) ck_assert(!chown(folder, 65534, 65534));
        if (how == 1) ck_assert(!chmod(folder, 0777));
        if (how == 2) ck_assert(!rename(folder, moved) && !symlink(moved, folder));
        ck_assert_int_eq(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
        atomic_store(&mp_session.pending, true);
        ck_assert(!mp_session_recording());
        ck_assert_int_eq(refusal(), -1);
        ck_assert_int_eq(accept(listener, NULL, NULL), -1);
        if (how == 2) ck_assert(!unlink(folder) && !rename(moved, folder));
        end();
    }
}

START_TEST(any_other_answer_leaves_the_program_alone)
{
    begin();
    int open_before = mp_suite_open_descriptors();
    for (unsigned what = 0; what < 9; what++) {
        struct answer answer = good_answer();
        if (what == 0) answer.length = 0; /* it hangs up */
        if (what == 1) answer.descriptors = 0;
        if (what == 2) answer.descriptors = 1;
        if (what == 3) answer.bytes.magic++;
        if (what == 4) answer.bytes.version++;
        if (what == 5) answer.length--;
        if (what == 6) answer.what[1] = listener; /* a descriptor that cannot be mapped */
        if (what == 7) answer.what[0] = listener;
        if (what == 8) answer.bytes.file_bytes++; /* a file that ends too early */

        ck_assert_msg(!attach(&answer), "answer %u", what);
        ck_assert_ptr_null(mp_session.header);
        ck_assert_msg(mp_suite_open_descriptors() == open_before, "answer %u", what);
        int wanted = what >= 6 ? ENODEV : -1, got = refusal();
        ck_assert_msg(got == wanted, "answer %u: refused with %d", what, got);
        ck_assert(!mp_session_recording()); /* the session does not ask again */
    }
    spool->magic++; /* a file that is no spool */
    struct answer answer = good_answer();
    ck_assert(!attach(&answer));
    ck_assert_ptr_null(mp_session.header);
    spool->magic--;
    ck_assert(attach(&answer));
    ck_assert_uint_eq(mp_session.page->generation, 1);
    end();
}

START_TEST(nobody_listens)
{
    begin();
    close(listener);
    atomic_store(&mp_session.pending, true);
    ck_assert(!mp_session_recording());
    ck_assert_int_eq(refusal(), ECONNREFUSED);
    unlink(path);
    atomic_store(&mp_session.pending, true);
    ck_assert(!mp_session_recording());
    ck_assert_int_eq(refusal(), ENOENT);
    listen_at(path);
    end();
}

START_TEST(an_attaching_threads_own_events_are_counted)
{
    begin();
    struct answer answer = good_answer();
    ck_assert(mp_lock_take(&mp_session.page->attach_lock));
    ck_assert(!mp_session_attach()); /* as in a signal handler */
    ck_assert(!mp_session_attach());
    mp_lock_release(&mp_session.page->attach_lock);
    ck_assert(attach(&answer));
    ck_assert_uint_eq(spool->losses.dropped_inside, 2);
    end();
}

START_TEST(what_the_environment_may_say)
{
    static const struct {
        const char *before;
        size_t length;
        bool good;
    } cases[] = {{"1;", 0, false},   {"1;", 1, true},  {"1;", 107, true}, {"1;", 108, false},
                 {"1;", 500, false}, {"2;", 5, false}, {"1:", 5, false},  {"", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char value[600];
        size_t at = (size_t)sprintf(value, "%s", cases[i].before);
        memset(value + at, 'x', cases[i].length);
        value[at + cases[i].length] = '\0';
        mp_session = (struct mp_session){.page = NULL};
        setenv(MP_SESSION_VARIABLE, value, 1);
        mp_session_start();
        ck_assert_msg(!mp_session.page == !cases[i].good && mp_session.pending == cases[i].good, "%s of %zu",
                      cases[i].before, cases[i].length);
    }
    unsetenv(MP_SESSION_VARIABLE);
    mp_session = (struct mp_session){.page = NULL};
    mp_session_start();
    ck_assert_ptr_null(mp_session.page);
    ck_assert(!mp_session_recording());
}

START_TEST(notes_are_left_once)
{
    begin();
    struct answer answer = good_answer();
    ck_assert(attach(&answer));
    char text[MP_SPOOL_NOTE_TEXT + 40];
    memset(text, 'n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mp_session_note("one");
    mp_session_note(text); /* cut */
    mp_session_note("one");
    mp_session_note(text);
    mp_session_note("");
    ck_assert_uint_eq(spool->note_count, 3);
    ck_assert_str_eq(spool->notes[0], "one");
    ck_assert_uint_eq(strlen(spool->notes[1]), MP_SPOOL_NOTE_TEXT - 1);
    for (unsigned i = 3; i < MP_SPOOL_NOTES + 5; i++) {
        snprintf(text, sizeof text, "note %u", i);
        mp_session_note(text);
    }
    ck_assert_uint_eq(spool->note_count, MP_SPOOL_NOTES);
    snprintf(text, sizeof text, "note %u", MP_SPOOL_NOTES - 1);
    ck_assert_str_eq(spool->notes[MP_SPOOL_NOTES - 1], text);
    mp_session_without_lock();
    ck_assert_uint_eq(spool->losses.without_lock, 1);
    end();
}

/* Recording ends at the first call that a sandbox refuses. Other failures do not end it. */
START_TEST(a_refused_call_ends_recording)
{
    begin();
    static const struct {
        int reason;
        bool ends;
    } reasons[] = {{EPERM, true}, {ENOSYS, true}, {EACCES, true}, {EINTR, false}, {ENOMEM, false}, {EAGAIN, false}};
    struct answer answer = good_answer();
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        memset(spool->notes, 0, sizeof spool->notes);
        atomic_store(&spool->note_count, 0);
        atomic_store(&spool->losses.dropped_refused, 0);
        ck_assert(attach(&answer));
        for (int times = 0; times < 2; times++) {
            errno = reasons[i].reason;
            mp_session_refused("futex");
        }
        ck_assert_int_eq(mp_session_recording(), !reasons[i].ends);
        ck_assert_uint_eq(spool->losses.dropped_refused, reasons[i].ends);
        ck_assert_uint_eq(spool->note_count, reasons[i].ends);
        ck_assert_str_eq(spool->notes[0], reasons[i].ends
                                              ? "the system refused the program the call futex(), as a sandbox does: "
                                                "recording ended there"
                                              : "");
        atomic_store(&mp_session.page->recording, 0);
    }
    end();
}

START_TEST(a_child_is_pending_where_it_is_followed)
{
    begin();
    struct answer answer = good_answer();
    mp_session_after_fork(false);
    ck_assert(mp_session.pending); /* its parent was */
    atomic_store(&mp_session.pending, false);
    mp_session_after_fork(false);
    ck_assert(!mp_session.pending);
    for (int follow = 0; follow < 2; follow++) {
        ck_assert(attach(&answer));
        mp_session.config.follow = follow;
        atomic_store(&mp_session.page->recording, 0); /* the kernel wiped it */
        mp_session_after_fork(false);
        ck_assert_int_eq(mp_session.pending, follow);
        ck_assert_ptr_null(mp_session.header);
        ck_assert_ptr_null(mp_session.doorbell);
    }
    end();
}

MP_SUITE("session", a_good_answer_is_taken_whole, another_user_is_not_trusted, another_users_folder_is_left_alone,
         any_other_answer_leaves_the_program_alone, nobody_listens, an_attaching_threads_own_events_are_counted,
         what_the_environment_may_say, notes_are_left_once, a_refused_call_ends_recording,
         a_child_is_pending_where_it_is_followed)
