#include "capture/torch/holders.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/kernel.h"
#include "capture/core/recorder.h"
#include "capture/python/asker.h"

#define FIRST_STEPS       8 /* fewer steps do not show a leak */
#define ASKED_EVERY_NS    (100 * MP_NS_PER_MS)
#define COMPUTED_EVERY_NS (10 * MP_NS_PER_MS)
#define FIRST_BLOCKS      32
#define GROWN             8 /* a peak higher by 1/GROWN than the one before makes a look due */
#define PEAK_LEAST        (1 << 20)
/* All looks at steps, blocks and peaks together take at most 1/SHARE of the time that the program has computed. In a
 * plan, whose time is not the user's, the share is larger. */
#define SHARE_OF_RUN  100
#define SHARE_OF_PLAN 10
/* A shorter program is taken for one of so many seconds: with --holders its looks may take 1 s, without 0.2 s.
 * Otherwise a short program would have one look, and no holders of its peak. */
#define SHARED_LEAST_NS (100 * MP_NS_PER_SECOND)
#define PEAKS_LEAST_NS  (20 * MP_NS_PER_SECOND)
/* Looks come at times that grow by a factor, or the peaks of a program's begin would use up the share: whole ones by 2,
 * so that the last one is seldom older than half the run, and others at peaks by 3/2, without --holders by 3. In a
 * short program, whole looks take no more than 2/5 of the share at its begin, and the rest as time passes. */
#define WHOLE_TENTHS 20
#define PEAK_TENTHS  15
#define PLAIN_TENTHS 30 /* without --holders */
#define WHOLE_FIRST  0.4

static struct mp_asker asker;
static _Atomic uint32_t steps, ooms;
static atomic_bool step_due, oom_due;
static _Atomic int64_t blocks, next_blocks = FIRST_BLOCKS, live_bytes, next_peak = PEAK_LEAST;
static _Atomic uint64_t began_ns, process_began_ns; /* when the shim began, by both clocks */
/* The process's clock is slow to read, so its last reading is kept for COMPUTED_EVERY_NS. */
static _Atomic uint64_t process_read_at, process_ns;
/* Times of looks, by the thread's own clock: when one began, all of them, the last of each kind. */
static _Atomic uint64_t look_began_ns, spent_ns, took_ns[2];
static _Atomic uint64_t ran_at_look, ran_at_whole; /* how long the program had run */
static atomic_bool is_forked;
static atomic_bool is_short;        /* the running look is */
static _Atomic uint64_t not_before; /* while Python cannot look, events ask for a look only every 100 ms */

_Atomic uint32_t mp_holders_taken;
atomic_bool mp_holders_wanted;

/* False if the user chose --budget: looks then come as often as steps and blocks make them due. */
static bool has_share(void)
{
    return mp_session.config.holders_share;
}

/* How long the program has run: as long as it has computed, since on a busy machine the clock alone would give looks
 * more than their share of its work. Not longer than by the clock, as several threads compute at once. */
static uint64_t ran_ns(void)
{
    uint64_t now = mp_clock_monotonic_ns(), ran = now - atomic_load(&began_ns);
    if (now - atomic_load(&process_read_at) >= COMPUTED_EVERY_NS) {
        atomic_store(&process_read_at, now);
        atomic_store(&process_ns, mp_clock_process_ns());
    }
    uint64_t computed = atomic_load(&process_ns) - atomic_load(&process_began_ns);
    return computed < ran ? computed : ran;
}

static void begin(void)
{
    atomic_store(&began_ns, mp_clock_monotonic_ns());
    atomic_store(&process_began_ns, mp_clock_process_ns());
    atomic_store(&process_read_at, 0);
}

/* True if another look of so many nanoseconds keeps all looks within their share. */
static bool fits_share(uint64_t ns, bool is_whole)
{
    bool plans = *mp_session.config.plan;
    uint64_t least = plans || mp_session.config.holders ? SHARED_LEAST_NS : PEAKS_LEAST_NS, ran = ran_ns();
    double shared = ran > least ? (double)ran : (double)least;
    if (is_whole && !plans && ran < least) shared = WHOLE_FIRST * (double)least + (1 - WHOLE_FIRST) * (double)ran;
    return (double)(atomic_load(&spent_ns) + ns) * (plans ? SHARE_OF_PLAN : SHARE_OF_RUN) <= shared;
}

/* A short look walks only the program's own names and the youngest objects, in some 30 milliseconds. A whole one lists
 * all of Python's objects, which takes 0.2 s after `import torch`. The first look is always made. */
static bool may_look_shortly(void)
{
    return !atomic_load(&spent_ns) || fits_share(atomic_load(&took_ns[true]), false);
}

static bool may_look_wholly(void)
{
    uint64_t took = atomic_load(&took_ns[false]);
    bool is_later = *mp_session.config.plan || ran_ns() * 10 >= atomic_load(&ran_at_whole) * WHOLE_TENTHS;
    return !has_share() || (is_later && fits_share(took ? took : MP_HOLDERS_MS * MP_NS_PER_MS, true));
}

/* Records one row in a hook of its own, which waits if the ring is full, as for any event. */
static void record_one(uint64_t address, const struct mp_record *row)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct mp_record record = *row;
    record.address = address;
    mp_record_prepared(thread, &record);
    mp_hook_leave(thread);
}

static uint32_t string_of(const char *text)
{
    struct mp_thread *thread = text && *text ? mp_hook_enter() : NULL;
    if (!thread) return 0;
    uint32_t id = mp_record_name(text);
    mp_hook_leave(thread);
    return id;
}

void mp_holders_record(const uint64_t *addresses, size_t count, int kind, int certain, const char *path,
                       const char *file, unsigned line)
{
    bool counted = !count && kind != MP_HOLDER_NONE; /* a number of the census */
    if ((count || counted) && (kind <= MP_HOLDER_NONE || kind >= MP_HOLDER_KINDS)) return;
    struct mp_record row = {.bytes = line,
                            .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                            .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                            .stack = string_of(file),
                            .name = string_of(path),
                            .track = MP_TRACK_NONE,
                            .type = MP_RECORD_HOLDER,
                            .kind = (uint8_t)kind,
                            .moment_ns = certain ? 1 : 0};
    for (size_t i = 0; i < count; i++)
        if (addresses[i]) record_one(addresses[i], &row);
    if (count) return;
    record_one(0, &row);
    if (counted) return;
    uint64_t took = mp_clock_thread_ns() - atomic_load(&look_began_ns);
    atomic_fetch_add(&spent_ns, took);
    atomic_store(&took_ns[atomic_load(&is_short)], took);
    /* Stored last, so that the collector sees this number only after all rows. */
    if (mp_session_recording()) atomic_store(&mp_session.header->look_ended, atomic_load(&mp_holders_taken));
}

void mp_holders_forked(bool inside)
{
    (void)inside;
    begin();
    atomic_store(&spent_ns, 0);
    atomic_store(&is_forked, true);
}

int mp_holders_ask(int (*ask)(void *), void *context)
{
    begin();
    mp_asker_set(&asker, ask, context);
    bool at_steps = mp_session_recording() && mp_session.config.holders;
    int given = mp_session.config.holders_share ? 0 : MP_HOLDERS_GIVEN;
    return at_steps ? (int)mp_session.config.holders_ms | given : 0;
}

/* The kernel's struct sigaction, which differs from the C library's. */
struct kernel_action {
    union {
        void (*plain)(int);
        void (*full)(int, siginfo_t *, void *);
    } handler;
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static void (*_Atomic python_handler)(int);

/* Passes the signal on to Python's handler. If a Python thread waits for a lock, the kernel would repeat its call, and
 * the wait would go on. (SA_RESTART is set, because libraries need not expect EINTR.) Every library expects that a
 * futex wait may end early, so only that call is ended. The kernel has set the thread back to the call's instruction;
 * this code moves it past the instruction. */
static void woken(int signal, siginfo_t *info, void *context)
{
    void (*handler)(int) = atomic_load(&python_handler);
    (void)info;
    if (handler) handler(signal);
#ifdef __x86_64__
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    static const unsigned char instruction[] = {0x0f, 0x05}; /* syscall */
    long operation = registers[REG_RSI] & FUTEX_CMD_MASK;
    if (registers[REG_RAX] != SYS_futex || (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) ||
        memcmp((const void *)registers[REG_RIP], instruction, sizeof instruction) != 0)
        return;
    registers[REG_RIP] += (greg_t)sizeof instruction;
    registers[REG_RAX] = -EINTR;
#else
    (void)context;
#endif
}

/* Installs woken() in front of Python's handler of SIGURG. If the program sets another handler, it replaces both. */
static void stand_before(void)
{
    struct kernel_action action = {.flags = 0};
    if (mp_syscall(SYS_rt_sigaction, SIGURG, NULL, &action, sizeof action.mask)) return;
    if (action.flags & SA_SIGINFO || action.handler.plain == SIG_DFL || action.handler.plain == SIG_IGN) return;
    atomic_store(&python_handler, action.handler.plain);
    action.handler.full = woken;
    action.flags |= SA_SIGINFO;
    (void)mp_syscall(SYS_rt_sigaction, SIGURG, &action, NULL, sizeof action.mask);
}

void mp_holders_wakes(int yes)
{
    if (yes) stand_before();
    const struct mp_session_page *page = mp_session.page;
    atomic_store(&mp_session.look_wakes, yes != 0);
    if (page && atomic_load(&page->recording)) atomic_store(&mp_session.header->look_wakes, yes != 0);
}

unsigned mp_holders_due(void)
{
    if (!mp_session_recording()) return 0;
    bool wanted = atomic_exchange(&mp_holders_wanted, false), whole = atomic_exchange(&oom_due, false);
    atomic_store(&look_began_ns, mp_clock_thread_ns());
    const struct mp_spool_look *look = &mp_session.header->look;
    uint32_t asked = atomic_load(&look->asked), budget = atomic_load(&look->budget_ms);
    bool spares = budget & MP_HOLDERS_SHORT;
    budget &= ~MP_HOLDERS_SHORT;
    if (asked && asked != atomic_load(&mp_holders_taken)) {
        atomic_store(&mp_holders_taken, asked);
        atomic_store(&mp_session.header->look_begun, asked);
        whole |= !spares;
        wanted = true;
        if (!budget || budget > MP_HOLDERS_MS_MOST) budget = MP_HOLDERS_MS;
    } else
        budget = mp_session.config.holders_ms;
    if (wanted) atomic_store(&not_before, 0); /* it can */
    atomic_store(&is_short, !whole && !may_look_wholly());
    if (wanted) atomic_store(&ran_at_look, ran_ns());
    if (wanted && !atomic_load(&is_short)) atomic_store(&ran_at_whole, ran_ns());
    return !wanted ? 0 : atomic_load(&is_short) ? budget | MP_HOLDERS_SHORT : budget;
}

void mp_holders_come_by(bool may_call_python)
{
    uint64_t now = atomic_load(&asker.ask) ? mp_clock_monotonic_ns() : 0;
    if (!now || now < atomic_load(&not_before) || mp_asker_is_asked(&asker)) return;
    atomic_store(&not_before, now + ASKED_EVERY_NS);
    mp_asker_call_soon(&asker, may_call_python);
}

/* Asks for no look: the shim only notes which frames run. A look that becomes due then is not put off for this. */
static void note_soon(bool may_call_python)
{
    if (atomic_load(&asker.ask)) (void)mp_asker_call_soon(&asker, may_call_python);
}

/* True at powers of two from `first` on. */
static bool is_time(_Atomic uint32_t *count, uint32_t first)
{
    uint32_t now = atomic_fetch_add(count, 1) + 1;
    return now >= first && !(now & (now - 1));
}

void mp_holders_step(void)
{
    if (!mp_session_recording()) return;
    uint32_t first = *mp_session.config.plan ? 1 : FIRST_STEPS; /* plans are short */
    if (is_time(&steps, first)) {
        if (mp_session.config.holders)
            atomic_store(&step_due, true);
        else
            note_soon(true);
    }
    if (atomic_load(&step_due) && (!has_share() || may_look_shortly())) {
        atomic_store(&step_due, false);
        atomic_store(&mp_holders_wanted, true);
    }
    mp_holders_pass_by(true);
}

/* Wakes a waiting main thread: otherwise another thread may free the blocks before the main thread runs Python
 * again. */
static void wake_main_thread(void)
{
    int process = (int)mp_syscall(SYS_getpid);
    if (atomic_load(&mp_session.look_wakes)) (void)mp_syscall(SYS_tgkill, process, process, SIGURG);
}

static bool may_look_at_peak(void)
{
    if (!has_share()) return true;
    unsigned tenths = mp_session.config.holders ? PEAK_TENTHS : PLAIN_TENTHS;
    bool is_later = *mp_session.config.plan || ran_ns() * 10 >= atomic_load(&ran_at_look) * tenths;
    return is_later && may_look_shortly();
}

/* The bytes are higher than at any look, and there is time for another one. */
static bool is_new_peak(int64_t now)
{
    int64_t next = atomic_load_explicit(&next_peak, memory_order_relaxed);
    return now >= next && atomic_load_explicit(&asker.ask, memory_order_relaxed) && may_look_at_peak() &&
           atomic_compare_exchange_strong(&next_peak, &next, now + now / GROWN);
}

void mp_holders_count(int64_t bytes)
{
    int change = bytes > 0 ? 1 : -1;
    int64_t live = atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed) + bytes;
    int64_t now = atomic_fetch_add_explicit(&blocks, change, memory_order_relaxed) + change;
    bool at_peaks = mp_session.config.holders || !atomic_load_explicit(&is_forked, memory_order_relaxed);
    if (bytes > 0 && at_peaks && is_new_peak(live)) {
        atomic_store(&mp_holders_wanted, true);
        mp_holders_pass_by(false);
    }
    if (!mp_session.config.holders || atomic_load_explicit(&steps, memory_order_relaxed)) return;
    int64_t next = atomic_load_explicit(&next_blocks, memory_order_relaxed);
    if (now < next || (has_share() && !may_look_shortly())) return;
    if (!atomic_compare_exchange_strong(&next_blocks, &next, 2 * now)) return;
    atomic_store(&mp_holders_wanted, true);
    mp_holders_pass_by(false);
    if ((int)mp_syscall(SYS_gettid) != (int)mp_syscall(SYS_getpid)) wake_main_thread();
}

void mp_holders_host(void)
{
    static atomic_bool asks; /* one thread at a time */
    bool may = mp_session.config.holders && atomic_load(&asker.ask) && atomic_load(&mp_session.look_wakes) &&
               !atomic_load(&steps) && !atomic_load(&blocks) && !atomic_exchange(&asks, true);
    if (!may) return;
    if (!atomic_load(&mp_holders_wanted) && may_look_at_peak()) {
        atomic_store(&mp_holders_wanted, true);
        wake_main_thread();
    }
    atomic_store(&asks, false);
}

void mp_holders_note(bool may_call_python)
{
    static _Atomic uint32_t appeared; /* increments that two threads make at once may count as one */
    uint32_t now = atomic_load_explicit(&appeared, memory_order_relaxed) + 1;
    atomic_store_explicit(&appeared, now, memory_order_relaxed);
    if (now >= FIRST_BLOCKS && !(now & (now - 1))) note_soon(may_call_python);
}

void mp_holders_oom(void)
{
    if (is_time(&ooms, 1)) {
        atomic_store(&oom_due, true);
        atomic_store(&mp_holders_wanted, true);
    }
    mp_holders_pass_by(false);
}
