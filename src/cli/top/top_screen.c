#include "cli/top/top_screen.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
/* Of ncurses' macros, those that would take names of ours. */
#define NCURSES_NOMACROS
#include <curses.h>
#include <term.h>
#undef lines
#undef columns

#include "base/memory.h"
#include "base/worker.h"
#include "cli/mcp/child.h"
#include "cli/messages.h"

#define KEY_WAIT_MS  100 /* new figures are shown so soon */
#define MESSAGE_S    5   /* a message stays for so long */
#define KEY_ESCAPE   27
#define ESCAPE_MS    50 /* after it, the rest of a key's sequence has come */
#define PAGE_OVERLAP 1

/* ---- the terminal, given back at every end ---------------------------------------------------------------------- */

static struct termios before;
static char leave[128]; /* what a terminal is sent to be as it was */
static size_t leave_size;
static volatile sig_atomic_t entered;

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE};

/* Safe in a handler: nothing of ncurses. */
static void give_back(void)
{
    if (!entered) return;
    entered = 0;
    ssize_t unused = write(STDOUT_FILENO, leave, leave_size);
    (void)unused;
    tcsetattr(STDOUT_FILENO, TCSADRAIN, &before);
}

static void end_by_signal(int number)
{
    give_back();
    signal(number, SIG_DFL);
    raise(number);
}

static mp_memory_hook *lack_before;

static void end_without_memory(size_t bytes)
{
    give_back();
    lack_before(bytes);
}

static void add_string(const char *capability)
{
    const char *text = tigetstr(capability);
    if (!text || text == (char *)-1) return;
    size_t size = strlen(text);
    if (leave_size + size > sizeof leave) return;
    memcpy(leave + leave_size, text, size);
    leave_size += size;
}

static bool enter(void)
{
    if (tcgetattr(STDOUT_FILENO, &before)) return false;
    if (!newterm(NULL, stdout, stdin)) return false;
    add_string("rmkx");
    add_string("cnorm");
    add_string("sgr0");
    add_string("rmcup");
    entered = 1;
    atexit(give_back);
    lack_before = mp_memory_on_lack(end_without_memory);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
        struct sigaction old;
        if (!sigaction(ends[i], NULL, &old) && old.sa_handler == SIG_IGN) continue;
        sigaction(ends[i], &action, NULL);
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    timeout(KEY_WAIT_MS);
    curs_set(0);
    return true;
}

static void leave_screen(void)
{
    endwin();
    entered = 0;
    mp_memory_on_lack(lack_before);
}

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

static void start_colors(void)
{
    if (!has_colors()) return;
    start_color();
    use_default_colors();
    init_pair(MP_TOP_WARNING, COLOR_RED, -1);
    init_pair(MP_TOP_ALLOCATED, COLOR_GREEN, -1);
    init_pair(MP_TOP_RESERVED, COLOR_CYAN, -1);
    init_pair(MP_TOP_OTHERS, COLOR_YELLOW, -1);
}

static attr_t attribute_of(enum mp_top_style style, bool color)
{
    switch (style) {
    case MP_TOP_BOLD:
        return A_BOLD;
    case MP_TOP_DIM:
    case MP_TOP_FREE:
        return A_DIM;
    case MP_TOP_CHOSEN:
        return A_REVERSE;
    case MP_TOP_WARNING:
        return color ? A_BOLD | COLOR_PAIR(MP_TOP_WARNING) : A_BOLD;
    case MP_TOP_ALLOCATED:
    case MP_TOP_RESERVED:
    case MP_TOP_OTHERS:
        return color ? (attr_t)COLOR_PAIR((int)style) : A_NORMAL;
    default:
        return A_NORMAL;
    }
}

static void show(const struct mp_top_canvas *canvas, bool color)
{
    int height, width;
    getmaxyx(stdscr, height, width);
    (void)width;
    erase();
    for (int y = 0; y < height && (size_t)y < canvas->lines.count; y++) {
        size_t end = (size_t)y + 1 < canvas->lines.count ? canvas->lines.at[y + 1] : canvas->runs.count;
        move(y, 0);
        for (size_t i = canvas->lines.at[y]; i < end; i++) {
            const struct mp_top_run *run = &canvas->runs.at[i];
            attrset((int)attribute_of(run->style, color));
            addnstr((const char *)canvas->text.data + run->start, (int)run->size);
        }
    }
    attrset(A_NORMAL);
    refresh();
}

/* ---- a snapshot, by a memprof of its own: nothing waits ---------------------------------------------------------- */

struct snapshot {
    pthread_mutex_t lock;
    bool runs, done;
    pid_t pid;
    char message[240];
};

static void *write_snapshot(void *context)
{
    struct snapshot *snapshot = context;
    struct mp_mcp_answer answer;
    char name[] = "memprof", command[] = "snapshot", option[] = "--pid", pid[16];
    char *arguments[] = {name, command, option, pid, NULL};
    snprintf(pid, sizeof pid, "%d", (int)snapshot->pid);
    mp_mcp_run(arguments, &answer);
    pthread_mutex_lock(&snapshot->lock);
    size_t length = 0;
    while (length < answer.messages.size && answer.messages.data[length] != '\n')
        length++;
    snprintf(snapshot->message, sizeof snapshot->message, "%.*s", (int)length,
             length ? (const char *)answer.messages.data : "");
    snapshot->runs = false;
    snapshot->done = true;
    pthread_mutex_unlock(&snapshot->lock);
    mp_buffer_free(&answer.out);
    mp_buffer_free(&answer.messages);
    return NULL;
}

static bool begin_snapshot(struct snapshot *snapshot, pid_t pid)
{
    pthread_t thread;
    sigset_t all, mask;
    pthread_mutex_lock(&snapshot->lock);
    bool free_now = !snapshot->runs;
    snapshot->runs = true;
    if (free_now) snapshot->pid = pid;
    pthread_mutex_unlock(&snapshot->lock);
    if (!free_now) return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    bool started = mp_worker_start(&thread, write_snapshot, snapshot);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (started) pthread_detach(thread);
    if (!started) snapshot->runs = false;
    return started;
}

static bool take_message(struct snapshot *snapshot, char *to, size_t room)
{
    pthread_mutex_lock(&snapshot->lock);
    bool done = snapshot->done;
    snapshot->done = false;
    if (done) snprintf(to, room, "%s", snapshot->message);
    pthread_mutex_unlock(&snapshot->lock);
    return done;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

struct screen {
    struct mp_top_gather *gather;
    struct mp_top_view *view;
    struct mp_top_state state;
    uint64_t number; /* of the state */
    struct snapshot snapshot;
    time_t message_since;
    bool over;
};

static void say(struct screen *screen, const char *text)
{
    snprintf(screen->view->message, sizeof screen->view->message, "%s", text);
    screen->message_since = time(NULL);
}

static void choose_process(struct screen *screen, long by)
{
    const struct mp_top_processes *processes = &screen->state.processes;
    long at = 0;
    for (size_t i = 0; i < processes->count; i++)
        if (processes->at[i].recording == screen->view->chosen) at = (long)i;
    at += by;
    if (at >= (long)processes->count) at = (long)processes->count - 1;
    if (at < 0) at = 0;
    if (!processes->count) return;
    screen->view->chosen = processes->at[at].recording;
    screen->view->scroll = 0;
    mp_top_gather_choose(screen->gather, screen->view->chosen);
}

static void move_by(struct screen *screen, long by)
{
    struct mp_top_view *view = screen->view;
    if (view->screen == MP_TOP_STACK) {
        view->scroll = by < 0 && view->scroll < (size_t)-by ? 0 : view->scroll + (size_t)by;
    } else if (view->in_processes) {
        choose_process(screen, by);
    } else {
        long at = (long)view->site + by, last = (long)view->rows.count - 1;
        view->site = at < 0 || last < 0 ? 0 : at > last ? (size_t)last : (size_t)at;
    }
}

static void snapshot_now(struct screen *screen)
{
    const struct mp_top_process *chosen = mp_top_chosen(screen->view, &screen->state);
    if (!chosen || chosen->state != MP_TOP_RUNS)
        say(screen, "there is no running process to take a snapshot of");
    else if (begin_snapshot(&screen->snapshot, chosen->pid))
        say(screen, "taking a snapshot ...");
    else
        say(screen, "a snapshot is being taken already");
}

static void type_key(struct screen *screen, int key)
{
    struct mp_top_view *view = screen->view;
    size_t length = strlen(view->search);
    if (key == '\r' || key == '\n' || key == KEY_ENTER) {
        view->typing = false;
    } else if (key == KEY_ESCAPE) {
        view->typing = false;
        *view->search = '\0';
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
        while (length && (view->search[length - 1] & 0xc0) == 0x80)
            view->search[--length] = '\0';
        if (length) view->search[length - 1] = '\0';
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof view->search) {
        view->search[length] = (char)key;
        view->search[length + 1] = '\0';
    }
}

static void press(struct screen *screen, int key)
{
    struct mp_top_view *view = screen->view;
    long page = view->page > PAGE_OVERLAP ? (long)view->page - PAGE_OVERLAP : 1;
    switch (key) {
    case 'q':
    case 'Q':
        screen->over = true;
        break;
    case KEY_UP:
    case 'k':
        move_by(screen, -1);
        break;
    case KEY_DOWN:
    case 'j':
        move_by(screen, 1);
        break;
    case KEY_PPAGE:
        move_by(screen, -page);
        break;
    case KEY_NPAGE:
    case ' ':
        move_by(screen, page);
        break;
    case KEY_HOME:
    case 'g':
        move_by(screen, -(1 << 30));
        break;
    case KEY_END:
    case 'G':
        move_by(screen, 1 << 30);
        break;
    case '\t':
        if (view->screen == MP_TOP_MAIN) view->in_processes = !view->in_processes;
        break;
    case '\r':
    case '\n':
    case KEY_ENTER:
        view->scroll = MP_TOP_AT_HEADLINE;
        if (view->screen == MP_TOP_MAIN && view->in_processes)
            view->in_processes = false;
        else
            view->screen = view->screen == MP_TOP_MAIN ? MP_TOP_STACK : MP_TOP_MAIN;
        break;
    case KEY_ESCAPE:
        if (view->screen == MP_TOP_MAIN) *view->search = '\0';
        view->screen = MP_TOP_MAIN;
        break;
    case 's':
        view->sort = (view->sort + 1) % MP_TOP_SORTS;
        break;
    case '/':
        view->screen = MP_TOP_MAIN;
        view->in_processes = false;
        view->typing = true;
        break;
    case 'p':
        view->paused = !view->paused;
        break;
    case 'w':
        snapshot_now(screen);
        break;
    case '?':
    case 'h':
        view->screen = view->screen == MP_TOP_KEYS ? MP_TOP_MAIN : MP_TOP_KEYS;
        break;
    default:
        break;
    }
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void take_news(struct screen *screen)
{
    struct mp_top_view *view = screen->view;
    struct mp_top_state fresh = {0};
    uint64_t number = mp_top_gather_number(screen->gather);
    bool other = screen->state.blocks_of != view->chosen; /* of the chosen process nothing is shown yet */
    if (number == screen->number || (view->paused && !other)) return;
    screen->number = number;
    mp_top_gather_take(screen->gather, &fresh);
    mp_top_view_follow(view, &fresh); /* while the blocks that it showed are still there */
    mp_top_gather_give_back(screen->gather, &screen->state);
    screen->state = fresh;
    mp_top_gather_choose(screen->gather, view->chosen);
}

int mp_top_screen_run(struct mp_top_gather *gather, struct mp_top_view *view, bool color)
{
    struct screen screen = {.gather = gather, .view = view, .snapshot = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    struct mp_top_canvas canvas = {0};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        mp_message("top needs a terminal; memprof top --once prints one picture");
        return MP_EXIT_COULD_NOT;
    }
    if (!enter()) {
        mp_message("the terminal (TERM=%s) is unknown here; memprof top --once prints one picture",
                   getenv("TERM") ? getenv("TERM") : "");
        return MP_EXIT_COULD_NOT;
    }
    if (color) start_colors();
    if (!mp_top_gather_start(gather)) screen.over = true;
    while (!screen.over) {
        int height, width;
        take_news(&screen);
        mp_top_view_follow(view, &screen.state);
        if (*view->message && time(NULL) - screen.message_since >= MESSAGE_S) *view->message = '\0';
        if (take_message(&screen.snapshot, view->message, sizeof view->message)) screen.message_since = time(NULL);
        getmaxyx(stdscr, height, width);
        view->width = (unsigned)width;
        view->height = (unsigned)height;
        if (!view->paused) view->now = time(NULL);
        mp_top_frame_draw(view, &screen.state, &canvas);
        show(&canvas, color && has_colors());
        int key = getch();
        for (; key != ERR && !screen.over; key = (timeout(0), getch())) {
            if (key == KEY_RESIZE) continue;
            if (view->typing)
                type_key(&screen, key);
            else
                press(&screen, key);
            mp_top_view_follow(view, &screen.state);
        }
        timeout(KEY_WAIT_MS);
    }
    leave_screen();
    mp_top_gather_give_back(gather, &screen.state);
    mp_top_canvas_free(&canvas);
    return MP_EXIT_DONE;
}
