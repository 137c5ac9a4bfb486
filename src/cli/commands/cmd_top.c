#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/query.h"
#include "cli/top/top_frame.h"
#include "cli/top/top_screen.h"
#include "collect/session/control.h"

#define WIDTH          80 /* columns, if the output is no terminal */
#define WIDTH_LEAST    40
#define WIDTH_MOST     500
#define SITES_OF_TEXT  10
#define INTERVAL_LEAST (100 * MP_NS_PER_MS)
#define JUDGED_WITHIN  (2 * MP_NS_PER_SECOND) /* --once: most time for judging all but the chosen process */

static const char *const styles[MP_TOP_STYLES] = {
    [MP_TOP_BOLD] = "1",      [MP_TOP_DIM] = "2",     [MP_TOP_WARNING] = "1;31", [MP_TOP_ALLOCATED] = "32",
    [MP_TOP_RESERVED] = "36", [MP_TOP_OTHERS] = "33", [MP_TOP_FREE] = "2",
};

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int read_interval(const struct mp_invocation *invocation, uint64_t *interval)
{
    const char *text = invocation->value[MP_OPT_INTERVAL];
    *interval = MP_NS_PER_SECOND;
    if (!text ||
        (mp_parse_duration(text, interval) && *interval >= INTERVAL_LEAST && *interval <= 3600 * MP_NS_PER_SECOND))
        return MP_EXIT_DONE;
    return mp_refuse("--interval %s: give a time from 100ms to 1h", text);
}

static int read_sort(const struct mp_invocation *invocation, enum mp_top_sort *sort)
{
    const char *text = invocation->value[MP_OPT_SORT];
    *sort = MP_TOP_BY_HELD;
    if (!text || !strcmp(text, "bytes")) return MP_EXIT_DONE;
    *sort = !strcmp(text, "growth") ? MP_TOP_BY_GROWTH : MP_TOP_BY_BLOCKS;
    if (*sort == MP_TOP_BY_GROWTH || !strcmp(text, "blocks")) return MP_EXIT_DONE;
    return mp_refuse("--sort: top sorts by bytes, blocks or growth, not by \"%s\"", text);
}

static int read_pid(const struct mp_invocation *invocation, pid_t *pid)
{
    const char *text = invocation->operand_count ? invocation->operands[0] : NULL;
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;
    *pid = (pid_t)number;
    if (!text || (number > 0 && number <= INT_MAX && !*end)) return MP_EXIT_DONE;
    return mp_refuse("top %s: give the number of a process", text);
}

/* The output's width: the terminal's, or COLUMNS, or WIDTH. */
static unsigned width_of_output(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) width = size.ws_col;
    if (width <= 0) return WIDTH;
    return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : (unsigned)width;
}

/* ---- one picture ------------------------------------------------------------------------------------------------ */

static void write_picture(const struct mp_top_canvas *canvas, bool color, struct mp_buffer *out)
{
    for (size_t y = 0; y < canvas->lines.count; y++) {
        size_t end = y + 1 < canvas->lines.count ? canvas->lines.at[y + 1] : canvas->runs.count, line = out->size;
        for (size_t i = canvas->lines.at[y]; i < end; i++) {
            const struct mp_top_run *run_top = &canvas->runs.at[i];
            bool styled = color && styles[run_top->style];
            if (styled) mp_buffer_printf(out, "\033[%sm", styles[run_top->style]);
            mp_buffer_append(out, canvas->text.data + run_top->start, run_top->size);
            if (styled) mp_buffer_append_text(out, "\033[0m");
        }
        while (out->size > line && out->data[out->size - 1] == ' ')
            out->size--;
        mp_buffer_append_text(out, "\n");
    }
}

/* Chooses the process that the user named by `pid`. If `pid` is a memprof, chooses the process that this memprof
 * records. */
static void choose(struct mp_top_view *view, const struct mp_top_state *state, pid_t pid)
{
    const struct mp_top_process *best = NULL;
    mp_vec_each (const struct mp_top_process, process, &state->processes) {
        bool meant = !pid || process->pid == pid || process->command_pid == pid || process->memprof == pid;
        if (process->pid == pid) {
            view->chosen = process->recording;
            return;
        }
        if (meant && (!best || mp_top_weight(process) > mp_top_weight(best))) best = process;
    }
    if (best) view->chosen = best->recording;
}

static int print_once(const struct mp_invocation *invocation, struct mp_top_gather *gather, struct mp_top_view *view,
                      bool color)
{
    struct mp_top_state state = {0};
    struct mp_top_canvas canvas = {0};
    struct mp_buffer out = {0};
    uint64_t other, begun = mp_clock_monotonic_ns();
    mp_top_gather_choose(gather, view->chosen);
    mp_top_gather_look(gather, view->chosen, false);
    while (mp_clock_monotonic_ns() - begun < JUDGED_WITHIN && (other = mp_top_gather_unjudged(gather)))
        mp_top_gather_look(gather, other, true);
    mp_top_gather_take(gather, &state);
    mp_top_frame_draw(view, &state, &canvas);
    write_picture(&canvas, color, &out);
    int status = mp_output_buffer(invocation, &out);
    mp_top_gather_give_back(gather, &state);
    mp_top_canvas_free(&canvas);
    mp_buffer_free(&out);
    return status;
}

static int run_live(struct mp_top_gather *gather, struct mp_top_view *view, bool color)
{
#ifdef HAVE_NCURSES
    return mp_top_screen_run(gather, view, color);
#else
    (void)gather, (void)view, (void)color;
    return mp_give_up(
        "this memprof was built without ncurses (libncurses-dev), which the live view needs; memprof top --once "
        "prints one picture");
#endif
}

static int show_processes(const struct mp_invocation *invocation, const char *socket, pid_t pid, uint64_t interval,
                          struct mp_top_view *view)
{
    struct mp_top_state state = {0};
    bool color, once = mp_given(invocation, MP_OPT_ONCE);
    int status = mp_query_color(invocation, &color);
    if (status) return status;
    struct mp_top_gather *gather = mp_top_gather_new(socket, interval);
    mp_top_gather_round(gather);
    mp_top_gather_take(gather, &state);
    size_t count = state.processes.count;
    choose(view, &state, pid);
    mp_top_gather_give_back(gather, &state);
    if (!count) {
        if (pid)
            mp_message("process %d has allocated nothing that is recorded", (int)pid);
        else
            mp_message(
                "nothing of yours is being recorded on this machine: start a program under memprof snapshot (of one "
                "that memprof attach records, read the growing file: memprof report FILE)");
    }
    status = MP_EXIT_COULD_NOT;
    if (count) status = once ? print_once(invocation, gather, view, color) : run_live(gather, view, color);
    mp_top_gather_free(gather);
    return status;
}

static int run_top(const struct mp_invocation *invocation)
{
    struct mp_top_view view = {.now = time(NULL), .width = width_of_output(), .limit = SITES_OF_TEXT};
    struct mp_error error;
    char socket[128];
    uint64_t interval;
    pid_t pid;
    int status = read_interval(invocation, &interval);
    if (!status) status = read_sort(invocation, &view.sort);
    if (!status) status = mp_query_limit(invocation, &view.limit);
    if (!status) status = read_pid(invocation, &pid);
    if (status) return status;
    view.utf8 = setlocale(LC_CTYPE, "") && !strcasecmp(nl_langinfo(CODESET), "UTF-8");
    if (pid && mp_control_find(pid, socket, sizeof socket, &error)) return mp_message_error(&error);
    return show_processes(invocation, pid ? socket : NULL, pid, interval, &view);
}

const struct mp_command mp_command_top = {
    .name = "top",
    .summary = "the memory of the programs that are being recorded now",
    .usage = "[PID]",
    .about =
        "Shows this user's processes under memprof snapshot on this machine. A row has a process's memory on a device: "
        "held, reserved, used by others, and total, and its steps with their pace. Below stand the sites of the chosen "
        "process that hold most now, with their growth per step since half of the program's steps. \"leak?\" marks "
        "what memprof leaks finds so far. With PID, only the processes recorded together with that one are "
        "shown.\n\nKeys: up and down choose a process; s sorts sites by held bytes, growth or blocks; p pauses the "
        "picture; q quits. The programs are never stopped: the memprof that records answers, less often if that takes "
        "long. Bars and other signs are plain without a UTF-8 locale.\n\n--once prints one picture, 80 columns wide or "
        "as COLUMNS says, and needs no terminal. It exits with 1 if nothing is being recorded.",
    .example = "memprof top --once --sort growth",
    .meanings = {{MP_OPT_SORT, "sort rows by bytes, blocks or growth (bytes)"}},
    .options = {MP_OPT_ONCE, MP_OPT_INTERVAL, MP_OPT_SORT, MP_OPT_LIMIT, MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_COLOR},
    .operands_min = 0,
    .operands_max = 1,
    .run = run_top,
};
