#include "collect/recording/step_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "model/steps_loop.h"

#define PAST        (UINT32_C(1) << 17) /* events that are looked at */
#define FIRST_LOOK  (UINT32_C(1) << 13)
#define ROUNDS_MIN  8  /* fewer may come before the program's loop */
#define LOST_STEPS  16 /* a line that was not reached for so many steps is not the loop's */
#define MOST_WAIT   (UINT64_C(1) << 20)
#define THREADS_MAX (UINT32_C(1) << 16)

enum { NOTHING, OUTSIDE, LINE_0 };
#define BACKWARD UINT32_MAX /* a node runs that was made inside; whether the function itself is running is unknown */

struct mp_step_past {
    uint32_t stack[PAST];
    uint16_t thread[PAST];
    uint8_t type[PAST];
};

void mp_step_watch_open(struct mp_step_watch *watch, const char *configuration)
{
    *watch = (struct mp_step_watch){.next_look = FIRST_LOOK, .infer = true};
    mp_setting(watch->asked, sizeof watch->asked, configuration, "step_at");
}

static bool is_watched(const struct mp_step_watch *watch, const struct mp_tables *tables,
                       const struct mp_wire_frame *frame)
{
    if (frame->language != MP_PYTHON) return false;
    return mp_tables_spool_string(tables, frame->function) == watch->function &&
           mp_tables_spool_string(tables, frame->file) == watch->file;
}

/* Classifies a stack; the outermost frame of the function counts. Parents come before their children in the table. */
static uint32_t look_up(struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool,
                        uint32_t stack)
{
    const struct mp_wire_node *nodes = mp_spool_entries(spool, MP_TABLE_NODES);
    const struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    uint64_t frame_count = tables->seen[MP_TABLE_FRAMES];
    for (size_t i = watch->nodes.count; i < tables->seen[MP_TABLE_NODES]; i++) {
        uint32_t above = i && nodes[i].parent < i ? watch->nodes.at[nodes[i].parent] : OUTSIDE, frame = nodes[i].frame;
        bool enters = above == OUTSIDE && frame < frame_count && is_watched(watch, tables, &frames[frame]);
        bool leaves = above != OUTSIDE && frame < frame_count && frames[frame].language == MP_BACKWARD;
        if (!mp_vec_push(&watch->nodes, enters ? LINE_0 + frames[frame].line : leaves ? BACKWARD : above)) break;
    }
    return stack < watch->nodes.count ? watch->nodes.at[stack] : OUTSIDE;
}

/* The program, as far as its lines are needed: a model that borrows its data and is never freed as one. */
static bool make_model(const struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool,
                       struct mp_model *model)
{
    const struct mp_wire_node *nodes = mp_spool_entries(spool, MP_TABLE_NODES);
    const struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    size_t node_count = tables->seen[MP_TABLE_NODES], frame_count = tables->seen[MP_TABLE_FRAMES];
    size_t events = watch->events < PAST ? watch->events : PAST;
    *model = (struct mp_model){.strings = tables->strings, .events.count = events, .blocks.count = events};
    model->events.type = malloc(events);
    model->events.thread = malloc(events * sizeof(uint32_t));
    model->events.subject = malloc(events * sizeof(uint32_t));
    model->blocks.stack = malloc(events * sizeof(uint32_t));
    bool done = model->events.type && model->events.thread && model->events.subject && model->blocks.stack;
    done = done && mp_vec_extend(&model->stacks, node_count) && mp_vec_extend(&model->frames, frame_count) &&
           mp_vec_extend(&model->lines, frame_count);
    for (size_t i = 0; done && i < events; i++) {
        size_t at = (watch->events - events + i) % PAST;
        uint32_t stack = watch->past->stack[at];
        model->events.type[i] = watch->past->type[at];
        model->events.thread[i] = watch->past->thread[at];
        model->events.subject[i] = (uint32_t)i;
        model->blocks.stack[i] = stack < node_count ? stack : 0;
    }
    for (size_t i = 1; done && i < node_count; i++) {
        bool cut = nodes[i].frame >= frame_count;
        model->stacks.at[i].parent = nodes[i].parent < i ? nodes[i].parent : 0;
        model->stacks.at[i].frame = cut ? MP_FRAME_CUT : nodes[i].frame;
    }
    for (size_t i = 0; done && i < frame_count; i++) {
        model->frames.at[i].raw.language = frames[i].language < MP_LANGUAGES ? (uint8_t)frames[i].language : MP_NATIVE;
        model->frames.at[i].first_line = (uint32_t)i;
        model->frames.at[i].line_count = 1;
        model->lines.at[i].function = mp_tables_spool_string(tables, frames[i].function);
        model->lines.at[i].file = mp_tables_spool_string(tables, frames[i].file);
        model->lines.at[i].line = frames[i].line;
    }
    return done;
}

static void free_model(struct mp_model *model)
{
    free(model->events.type);
    free(model->events.thread);
    free(model->events.subject);
    free(model->blocks.stack);
    mp_vec_free(&model->stacks);
    mp_vec_free(&model->frames);
    mp_vec_free(&model->lines);
}

struct look {
    const struct mp_model *model;
    struct mp_loop *loop;
};

static void find_loop(void *context)
{
    struct look *look = context;
    if (!mp_loop_find(look->model, NULL, look->loop)) look->loop->rounds = 0;
}

/* Looks for the loop as long as none is found, each time after twice as many events. */
static void look_for_loop(struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool)
{
    struct mp_model model;
    struct mp_loop loop = {.rounds = 0};
    uint64_t wait = watch->events - watch->last_look;
    watch->last_look = watch->events;
    watch->next_look = watch->events + (wait < FIRST_LOOK ? FIRST_LOOK : wait < MOST_WAIT ? wait * 2 : wait);
    struct look look = {&model, &loop};
    if (!make_model(watch, tables, spool, &model) || !mp_memory_try(find_loop, &look)) loop.rounds = 0;
    uint64_t seen = model.events.count;
    free_model(&model);
    if (loop.rounds < ROUNDS_MIN) return;
    watch->function = loop.function;
    watch->file = loop.file;
    watch->line = loop.line;
    watch->by_backward = loop.backward;
    watch->usual_events = seen / loop.rounds + 1;
    watch->last_step = watch->events;
    watch->nodes.count = watch->threads.count = 0;
}

static void remember(struct mp_step_watch *watch, const struct mp_event *event)
{
    if (!watch->past) watch->past = malloc(sizeof *watch->past);
    if (!watch->past) return;
    size_t at = watch->events % PAST;
    watch->past->stack[at] = event->type == MP_EVENT_ALLOC ? event->stack : 0;
    watch->past->thread[at] = (uint16_t)event->thread;
    watch->past->type[at] = event->type;
}

/* The line of the loop is reached: another one of its function was before, or was the one that called for backward. */
static bool begins(struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool,
                   const struct mp_event *event)
{
    if (event->type != MP_EVENT_ALLOC || event->thread >= THREADS_MAX || !watch->line) return false;
    uint32_t now = look_up(watch, tables, spool, event->stack);
    if (now == BACKWARD && !watch->by_backward) return false;
    if (!mp_vec_extend(&watch->threads, event->thread + 1)) return false;
    uint32_t before = watch->threads.at[event->thread];
    if (now != OUTSIDE) watch->threads.at[event->thread] = now;
    return before != now && now == LINE_0 + watch->line;
}

bool mp_step_watch_event(struct mp_step_watch *watch, const struct mp_tables *tables, struct mp_spool_header *spool,
                         const struct mp_event *event)
{
    bool step = begins(watch, tables, spool, event);
    if (step) watch->last_step = watch->events;
    if (!watch->infer) return step;
    remember(watch, event);
    watch->events++;
    if (watch->line && watch->events - watch->last_step > LOST_STEPS * watch->usual_events + FIRST_LOOK) {
        watch->line = 0;
        watch->last_look = watch->next_look = watch->events;
    }
    if (!watch->line && watch->past && watch->events >= watch->next_look) look_for_loop(watch, tables, spool);
    return step;
}

void mp_step_watch_marked(struct mp_step_watch *watch)
{
    if (!watch->infer) return;
    free(watch->past);
    watch->past = NULL;
    watch->infer = false;
    watch->line = 0;
}

size_t mp_step_watch_bytes(const struct mp_step_watch *watch)
{
    return watch->nodes.room * sizeof *watch->nodes.at + watch->threads.room * sizeof *watch->threads.at +
           (watch->past ? sizeof *watch->past : 0);
}

void mp_step_watch_close(struct mp_step_watch *watch)
{
    free(watch->past);
    mp_vec_free(&watch->nodes);
    mp_vec_free(&watch->threads);
    *watch = (struct mp_step_watch){.infer = false};
}
