#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <memprof.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "base/step_function.h"
#include "capture/core/descriptor.h"
#include "capture/core/fork.h"
#include "capture/core/recorder.h"
#include "capture/core/session.h"
#include "capture/core/views.h"
#include "capture/cuda/cupti.h"
#include "capture/python/module_paths.h"
#include "capture/python/python_stack.h"
#include "capture/stack/stack.h"
#include "capture/torch/holders.h"
#include "capture/torch/operators.h"
#include "capture/torch/torch.h"
#include "capture/torch/torch_history.h"

struct mp_asked_file {
    int fd;              /* -1: the file could not be made */
    int reason;          /* errno of that failure, else 0 */
    char part[PATH_MAX]; /* the file's temporary path until it is whole */
};

/* True if the path exists and must not be replaced. Only a regular file may be replaced, and only with `force`. */
static bool is_in_the_way(const char *path, bool force)
{
    struct stat facts;
    if (mp_syscall(SYS_newfstatat, AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW)) return false;
    return !force || !S_ISREG(facts.st_mode);
}

/* Makes an empty file next to `path`. Fails if `path` exists, unless `force` is set. */
static void asked_file_make(struct mp_asked_file *file, const char *path, unsigned number, bool force)
{
    int length = snprintf(file->part, sizeof file->part, "%s.%d-%u.part", path, mp_getpid(), number);
    file->fd = -1;
    file->reason = length >= (int)sizeof file->part ? ENAMETOOLONG : is_in_the_way(path, force) ? EEXIST : 0;
    if (file->reason) return;
    int made = (int)mp_syscall(SYS_openat, AT_FDCWD, file->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->fd = mp_descriptor_move_up(made);
    if (file->fd < 0) file->reason = errno;
}

static bool move(const char *part, const char *path, bool force)
{
    if (is_in_the_way(path, force)) return false;
    enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE; some file systems do not know it */
    if (!mp_syscall(SYS_renameat2, AT_FDCWD, part, AT_FDCWD, path, force ? 0 : NO_REPLACE)) return true;
    return errno == EINVAL && !force && !mp_syscall(SYS_linkat, AT_FDCWD, part, AT_FDCWD, path, 0);
}

/* Moves the file to `path` if it is `whole`, else removes it. False: there is no file at `path`. */
static bool asked_file_end(const struct mp_asked_file *file, const char *path, bool whole, bool force)
{
    if (file->fd < 0) return false;
    bool moved = whole && move(file->part, path, force);
    mp_syscall(SYS_unlinkat, AT_FDCWD, file->part, 0);
    mp_close(file->fd);
    return moved;
}

/* The C API's functions, as include/memprof.h hands them to programs. */

#define ANSWER_WAIT_NS   (100 * MP_NS_PER_MS)
#define SNAPSHOT_WAIT_NS (30 * MP_NS_PER_SECOND)
#define LOOK_AGAIN_NS    (100 * MP_NS_PER_MS) /* a killed collector wakes nobody */

enum window { WINDOW_AS_CONFIGURED, WINDOW_OPEN, WINDOW_CLOSED };
static _Atomic int window; /* the last of start() and stop() */

static int active(void)
{
    if (!mp_session_recording()) return 0;
    int now = atomic_load(&window);
    return now == WINDOW_AS_CONFIGURED ? !mp_session.config.paused : now == WINDOW_OPEN;
}

static void plain(enum mp_event_type type, const char *name)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_session_source(MP_SOURCE_C_API);
    mp_record_plain(thread, type, name);
    mp_hook_leave(thread);
}

static void start(void)
{
    atomic_store(&window, WINDOW_OPEN);
    plain(MP_EVENT_START, NULL);
}

static void stop(void)
{
    plain(MP_EVENT_STOP, NULL);
    atomic_store(&window, WINDOW_CLOSED);
}

static void step(void)
{
    plain(MP_EVENT_STEP, NULL);
    mp_holders_step();
}

static void region_push(const char *name)
{
    plain(MP_EVENT_REGION_BEGIN, name ? name : "");
}

static void region_pop(void)
{
    plain(MP_EVENT_REGION_END, NULL);
}

static void mark(const char *name)
{
    plain(MP_EVENT_MARK, name ? name : "");
}

/* A pool's number is its index + 1. 0 means "not recorded". The number after the last is for all further pools, whose
 * events count as dropped. Numbers and names lie in the process's own memory. So a forked child, whose spool has its
 * own tracks, still knows its parent's pools. */
#define POOLS_MAX 254
#define NO_ROOM   (POOLS_MAX + 1)
static struct pool {
    char name[128];
    int device;
    _Atomic uint64_t known; /* its track */
} pools[POOLS_MAX];
static _Atomic uint32_t pool_count; /* grows under the question lock */

static uint32_t find_pool(const char *name, int device)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < atomic_load_explicit(&pool_count, memory_order_acquire) && !number; i++)
        if (pools[i].device == device && !strncmp(pools[i].name, name, sizeof pools[i].name - 1)) number = i + 1;
    return number;
}

static uint16_t track_of(struct pool *pool)
{
    bool on_host = pool->device == MEMPROF_HOST;
    return mp_record_track_once(&pool->known, on_host ? MP_DEVICE_CPU : MP_DEVICE_CUDA, pool->device, MP_LAYER_APP,
                                MP_BASIS_EXACT, pool->name);
}

static uint32_t find_or_add_pool(const char *name, int device)
{
    uint32_t number = find_pool(name, device);
    if (!number && mp_lock_take_within(&mp_session.page->question_lock, MP_NS_PER_SECOND)) {
        uint32_t count = atomic_load(&pool_count);
        number = find_pool(name, device);
        if (!number && count == POOLS_MAX) number = NO_ROOM;
        if (!number) {
            strncpy(pools[count].name, name, sizeof pools[count].name - 1);
            pools[count].device = device;
            number = count + 1;
            atomic_store_explicit(&pool_count, number, memory_order_release);
        }
        mp_lock_release(&mp_session.page->question_lock);
    }
    return number;
}

/* This is no hook, since a pool is no event. A pool that is made before recording begins, or by a thread without a
 * ring, must work later. Until then its blocks count as dropped. */
static uint32_t pool(const char *name, int device)
{
    bool recording = mp_session_recording();
    if (!recording && !mp_session_tries_again()) return 0;
    int saved = errno;
    struct mp_thread *thread = recording ? mp_thread_self() : NULL;
    if (recording && (!thread || !mp_fork_guard(thread))) {
        errno = saved;
        return 0;
    }
    uint32_t number = find_or_add_pool(name && *name ? name : "pool", device < 0 ? MEMPROF_HOST : device);
    if (number && number != NO_ROOM && thread)
        track_of(&pools[number - 1]); /* so that statistics list the pool before its first block */
    if (thread) thread->inside = 0;
    errno = saved;
    return number;
}

static struct mp_block_facts pool_block(uint32_t number, const void *ptr, size_t bytes)
{
    struct pool *pool = number == NO_ROOM ? NULL : &pools[number - 1];
    return (struct mp_block_facts){
        .track = pool ? track_of(pool) : MP_TRACK_NONE,
        .kind = pool && pool->device == MEMPROF_HOST ? MP_KIND_HOST : MP_KIND_DEVICE,
        .address = (uint64_t)(uintptr_t)ptr,
        .bytes = bytes,
        .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
        .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
        .may_be_left_out = true,
        .may_call_python = true,
    };
}

static uint64_t track_count(void)
{
    return atomic_load_explicit(&mp_session.header->tables[MP_TABLE_TRACKS].count, memory_order_acquire);
}

static struct mp_thread *enter_with_pool(uint32_t pool_number, const void *ptr)
{
    bool is_known = pool_number <= atomic_load_explicit(&pool_count, memory_order_acquire) || pool_number == NO_ROOM;
    if (!ptr || !pool_number || !is_known) return NULL;
    return mp_hook_enter();
}

static void pool_alloc(uint32_t pool_number, const void *ptr, size_t bytes)
{
    struct mp_thread *thread = enter_with_pool(pool_number, ptr);
    if (!thread) return;
    mp_session_source(MP_SOURCE_C_API);
    struct mp_block_facts block = pool_block(pool_number, ptr, bytes);
    mp_record_alloc(thread, &block);
    mp_hook_leave(thread);
}

static void pool_free(uint32_t pool_number, const void *ptr)
{
    struct mp_thread *thread = enter_with_pool(pool_number, ptr);
    if (!thread) return;
    struct mp_block_facts block = pool_block(pool_number, ptr, MP_BYTES_UNKNOWN);
    mp_record_free(thread, &block);
    mp_hook_leave(thread);
}

/* Makes the path absolute at the time of the call, since another thread may change the working folder meanwhile. False:
 * the path is too long, or the folder is gone. */
static bool absolute_path(const char *path, char *absolute, size_t room)
{
    size_t length = 0;
    if (*path != '/') {
        if (!getcwd(absolute, room)) return false;
        length = strlen(absolute);
        if (length + 1 < room) absolute[length++] = '/';
    }
    size_t more = strlen(path);
    if (length + more >= room) return false;
    memcpy(absolute + length, path, more + 1);
    return true;
}

/* Called outside of a hook, so that other threads may fork meanwhile. */
static int wait_for_snapshot(uint32_t number)
{
    struct mp_spool_snapshot_answer *answer = &mp_session.header->snapshot_answer;
    uint64_t give_up = mp_clock_monotonic_ns() + SNAPSHOT_WAIT_NS;
    for (uint32_t seen; (seen = atomic_load(&answer->answered)) != number;) {
        uint64_t now = mp_clock_monotonic_ns();
        bool passed = (int32_t)(seen - number) > 0; /* a handler asked in between */
        if (passed || now >= give_up || !mp_spool_attended(mp_session.header)) return -1;
        uint64_t rest = give_up - now;
        mp_futex_wait(&answer->answered, seen, rest < LOOK_AGAIN_NS ? rest : LOOK_AGAIN_NS);
    }
    return atomic_load(&answer->written) ? 0 : -1;
}

/* Asks the collector, under the snapshot lock. Returns the question's number. */
static uint32_t ask_for_snapshot(struct mp_thread *thread, const char *path, struct mp_asked_file *file)
{
    struct mp_record question = {.type = MP_RECORD_SNAPSHOT, .track = MP_TRACK_NONE};
    question.bytes = atomic_fetch_add(&mp_session.header->snapshot_answer.asked, 1) + 1;
    if (path) {
        asked_file_make(file, path, (unsigned)question.bytes, mp_session.config.force);
        question.name = mp_record_name(path);
        question.address = (uint64_t)file->fd;
        question.moment_ns = (uint64_t)file->reason;
    }
    mp_record_question(thread, &question);
    return (uint32_t)question.bytes;
}

static int snapshot(const char *path)
{
    struct mp_asked_file file = {.fd = -1};
    char absolute[PATH_MAX];
    if (path && (!*path || !absolute_path(path, absolute, sizeof absolute))) return -1;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return -1;
    mp_lock *lock = &mp_session.page->snapshot_lock;
    if (!mp_hook_lock(thread, lock, SNAPSHOT_WAIT_NS)) {
        mp_hook_leave(thread);
        return -1;
    }
    uint32_t number = ask_for_snapshot(thread, path ? absolute : NULL, &file);
    mp_hook_leave(thread);
    int done = wait_for_snapshot(number), saved = errno;
    if (path && !asked_file_end(&file, absolute, !done, mp_session.config.force)) done = -1;
    mp_lock_release(lock);
    errno = saved;
    return done;
}

/* A track's number by its name. NULL: all tracks. MP_RECORD_ALL_TRACKS - 1: no track has that name. */
#define NO_SUCH_TRACK (MP_RECORD_ALL_TRACKS - 1)
static uint16_t track_by_name(const char *name)
{
    if (!name) return MP_RECORD_ALL_TRACKS;
    const uint64_t count = track_count(); /* read before the views, as other threads add tracks */
    const struct mp_wire_track *tracks = (const struct mp_wire_track *)mp_view(MP_TABLE_TRACKS)->at;
    const char *strings = mp_view(MP_TABLE_STRINGS)->at; /* NULL: no strings yet, so no track has a name */
    for (uint64_t i = 0; i < count; i++) {
        uint32_t length = 0;
        const char *pool_name = "";
        if (tracks[i].name) {
            pool_name = strings + (size_t)tracks[i].name * 4 + sizeof length;
            memcpy(&length, pool_name - sizeof length, sizeof length);
        }
        char id[MP_ID_TEXT];
        mp_format_track_id(id, sizeof id, tracks[i].device_type, tracks[i].device_index, tracks[i].layer, pool_name,
                           length);
        if (!strcmp(id, name)) return (uint16_t)i;
    }
    return NO_SUCH_TRACK;
}

static int ask(struct mp_thread *thread, uint16_t track, struct memprof_stats *stats)
{
    struct mp_spool_answer *answer = &mp_session.header->answer;
    uint32_t number = atomic_fetch_add(&answer->asked, 1) + 1;
    mp_record_question(thread, &(struct mp_record){.type = MP_RECORD_STATS, .track = track, .bytes = number});
    uint64_t give_up = mp_clock_monotonic_ns() + ANSWER_WAIT_NS;
    for (uint32_t seen; (seen = atomic_load(&answer->answered)) != number;) {
        uint64_t now = mp_clock_monotonic_ns();
        if (now >= give_up || !mp_spool_attended(mp_session.header)) return -1;
        mp_futex_wait(&answer->answered, seen, give_up - now);
    }
    stats->live_bytes = atomic_load(&answer->live_bytes);
    stats->peak_bytes = atomic_load(&answer->peak_bytes);
    stats->live_blocks = atomic_load(&answer->live_blocks);
    return atomic_load(&answer->found) ? 0 : -1;
}

static int stats(const char *track, struct memprof_stats *result)
{
    struct mp_thread *thread = result ? mp_hook_enter() : NULL;
    if (!thread) return -1;
    uint16_t number = track_by_name(track);
    int done = -1;
    if (number != NO_SUCH_TRACK && mp_hook_lock(thread, &mp_session.page->question_lock, MP_NS_PER_SECOND)) {
        done = ask(thread, number, result);
        mp_lock_release(&mp_session.page->question_lock);
    }
    mp_hook_leave(thread);
    return done;
}

static void reset_peak(const char *track)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    uint16_t number = track_by_name(track);
    if (number != NO_SUCH_TRACK)
        mp_record_question(thread, &(struct mp_record){.type = MP_RECORD_RESET_PEAK, .track = number});
    mp_hook_leave(thread);
}

static int release_cupti(void)
{
    int saved = errno, done = mp_session_recording() && mp_cupti_release() ? 0 : -1;
    errno = saved;
    return done;
}

static void module_code(const void *code)
{
    if (code) mp_python_module_code(code);
}

static void label(const void *address, int role, const char *name)
{
    if (!address || role <= MP_ROLE_NONE || role >= MP_ROLES) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_record_label(thread, (uint64_t)(uintptr_t)address, (enum mp_role)role, name && *name ? mp_record_name(name) : 0);
    mp_hook_leave(thread);
}

static void torch_mark(const char *name)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    mp_record_plain(thread, MP_EVENT_MARK, name);
    mp_hook_leave(thread);
}

static void aside(int kind, const char *text)
{
    if (!text || kind < 0 || kind >= MP_ASIDE_KINDS) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    const struct mp_record record = {
        .name = mp_record_name(text), .track = MP_TRACK_NONE, .type = MP_RECORD_ASIDE, .kind = (uint8_t)kind};
    mp_record_prepared(thread, &record);
    mp_hook_leave(thread);
}

static void torch_step(void)
{
    plain(MP_EVENT_STEP, MP_TORCH_STEP);
    mp_holders_step();
}

static void call_begins(const char *function)
{
    /* An outer memprof may have started this one, with another step function. */
    if (!function || !mp_session_recording() || !mp_step_function_means(mp_session.config.step_at, function)) return;
    mp_stack_calls_are_reported();
    plain(MP_EVENT_STEP, function);
    mp_holders_step();
}

static void shim(const char *note)
{
    mp_torch_shim_started();
    struct mp_thread *thread = note ? mp_hook_enter() : NULL;
    if (!thread) return;
    mp_session_note(note);
    mp_hook_leave(thread);
}

__attribute__((visibility("default"))) const struct memprof_api_v1 *memprof_api_v1(void);
const struct memprof_api_v1 *memprof_api_v1(void)
{
    static const struct memprof_api_v1 api = {
        .size = sizeof api,
        .active = active,
        .start = start,
        .stop = stop,
        .step = step,
        .region_push = region_push,
        .region_pop = region_pop,
        .mark = mark,
        .pool = pool,
        .alloc = pool_alloc,
        .free = pool_free,
        .snapshot = snapshot,
        .stats = stats,
        .reset_peak = reset_peak,
        .release_cupti = release_cupti,
        .module_code = module_code,
        .module_name = mp_module_name,
        .module_ask = mp_module_ask,
        .label = label,
        .torch_step = torch_step,
        .shim = shim,
        .torch_history = mp_torch_history,
        .holder = mp_holders_record,
        .holder_ask = mp_holders_ask,
        .holder_due = mp_holders_due,
        .holder_wakes = mp_holders_wakes,
        .call_begins = call_begins,
        .torch_mark = torch_mark,
        .aside = aside,
        .operators = mp_operators_begin,
        .kernel = mp_operators_kernel,
    };
    return mp_session.page ? &api : NULL;
}
