#include "cli/top/top_screen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
/* Turns off ncurses' macros, which clash with our names. */
#define NCURSES_NOMACROS
#include <curses.h>
#include <term.h>
#undef lines
#undef columns

#include "base/memory.h"
#include "cli/messages.h"

#define KEY_WAIT_MS 100 /* new figures are shown within this time */
#define ESCAPE_MS   50  /* time for the rest of a key's sequence to arrive after ESC */

/* ---- the terminal, which is restored at every end --------------------------------------------------------------- */

static struct termios before;
static char leave[128]; /* sequence that resets the terminal */
static size_t leave_size;
static volatile sig_atomic_t entered;

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE};

/* Restores the terminal. Safe in a signal handler, as it calls nothing of ncurses. */
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

/* ---- keys ------------------------------------------------------------------------------------------------------- */

struct screen {
    struct mp_top_gather *gather;
    struct mp_top_view *view;
    struct mp_top_state state;
    uint64_t number; /* number of the state */
    bool over;
};

static void choose_process(struct screen *screen, int by)
{
    const struct mp_top_processes *processes = &screen->state.processes;
    size_t at = 0;
    for (size_t i = 0; i < processes->count; i++)
        if (processes->at[i].recording == screen->view->chosen) at = i;
    if (by < 0 ? at > 0 : at + 1 < processes->count) at += (size_t)by;
    if (at >= processes->count) return;
    screen->view->chosen = processes->at[at].recording;
    mp_top_gather_choose(screen->gather, screen->view->chosen);
}

static void press(struct screen *screen, int key)
{
    struct mp_top_view *view = screen->view;
    switch (key) {
    case 'q':
        screen->over = true;
        break;
    case KEY_UP:
        choose_process(screen, -1);
        break;
    case KEY_DOWN:
        choose_process(screen, 1);
        break;
    case 's':
        view->sort = (view->sort + 1) % MP_TOP_SORTS;
        break;
    case 'p':
        view->paused = !view->paused;
        break;
    default:
        break;
    }
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void take_news(struct screen *screen)
{
    struct mp_top_view *view = screen->view;
    uint64_t number = mp_top_gather_number(screen->gather);
    bool other = screen->state.blocks_of != view->chosen; /* the chosen process's blocks are not shown yet */
    if (number == screen->number || (view->paused && !other)) return;
    screen->number = number;
    mp_top_gather_give_back(screen->gather, &screen->state);
    mp_top_gather_take(screen->gather, &screen->state);
    const struct mp_top_process *chosen = mp_top_chosen(view, &screen->state);
    if (chosen) view->chosen = chosen->recording;
    mp_top_gather_choose(screen->gather, view->chosen);
}

int mp_top_screen_run(struct mp_top_gather *gather, struct mp_top_view *view, bool color)
{
    struct screen screen = {.gather = gather, .view = view};
    struct mp_top_canvas canvas = {0};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return mp_give_up("top needs a terminal; memprof top --once prints one picture");
    if (!enter())
        return mp_give_up("the terminal (TERM=%s) is unknown here; memprof top --once prints one picture",
                          getenv("TERM") ? getenv("TERM") : "");
    if (color) start_colors();
    if (!mp_top_gather_start(gather)) screen.over = true;
    while (!screen.over) {
        int height, width;
        take_news(&screen);
        getmaxyx(stdscr, height, width);
        view->width = (unsigned)width;
        view->height = (unsigned)height;
        if (!view->paused) view->now = time(NULL);
        mp_top_frame_draw(view, &screen.state, &canvas);
        show(&canvas, color && has_colors());
        int key = getch();
        for (; key != ERR && !screen.over; key = (timeout(0), getch()))
            press(&screen, key);
        timeout(KEY_WAIT_MS);
    }
    leave_screen();
    mp_top_gather_give_back(gather, &screen.state);
    mp_top_canvas_free(&canvas);
    return MP_EXIT_DONE;
}
