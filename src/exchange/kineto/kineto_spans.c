#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/order.h"
#include "base/search.h"
#include "exchange/kineto/kineto_parts.h"

#define OPEN_MAX        1024 /* spans that enclose one event; further ones are left out */
#define SPANS_PER_EVENT 256  /* most spans kept per memory event, on average; no program nests deeper */
#define SPANS_MIN       65536

/* A span that encloses an alloc. Texts are ids in finder.texts. */
struct span {
    int64_t start_ns, end_ns;
    uint32_t order; /* position in the file */
    uint32_t thread, name, shapes, call_stack;
    uint32_t frame; /* MP_NONE: not made yet */
    bool python;
};

struct finder {
    struct mp_kineto *kineto;
    struct mp_intern texts;
    MP_VEC(struct span) spans;
    MP_VEC(uint32_t) events; /* allocs and ooms by thread, then time */
    MP_VEC(size_t) first;    /* per thread: the beginning of its events in `events`; one more entry at the end */
    MP_VEC(uint32_t) open;   /* open spans around the present event, outermost first */
};

static bool wants_stack(const struct mp_kineto_memory *memory)
{
    return memory->type != MP_EVENT_FREE;
}

/* A counting sort by thread. `memory` is already in order of time, and the sort keeps that order. */
static void sort_events(struct finder *finder)
{
    struct mp_kineto *kineto = finder->kineto;
    size_t threads = kineto->owners.count, at = 0;
    mp_vec_grow_to(&finder->first, threads + 1);
    mp_vec_grow_to(&finder->events, kineto->memory.count);
    for (size_t i = 0; i < kineto->memory.count; i++)
        finder->first.at[kineto->memory.at[i].thread] += wants_stack(&kineto->memory.at[i]);
    for (size_t i = 0; i <= threads; i++) {
        size_t count = finder->first.at[i];
        finder->first.at[i] = at;
        at += count;
    }
    for (size_t i = 0; i < kineto->memory.count; i++)
        if (wants_stack(&kineto->memory.at[i]))
            finder->events.at[finder->first.at[kineto->memory.at[i].thread]++] = (uint32_t)i;
    memmove(finder->first.at + 1, finder->first.at, threads * sizeof *finder->first.at);
    finder->first.at[0] = 0;
}

/* True if an event of the thread lies within the times. */
static bool encloses(const struct finder *finder, uint32_t thread, int64_t start_ns, int64_t end_ns)
{
    size_t first = finder->first.at[thread], count = finder->first.at[thread + 1] - first;
    const struct mp_kineto_memory *memory = finder->kineto->memory.at;
    size_t before = MP_COUNT_BEFORE(count, i, memory[finder->events.at[first + i]].ns < start_ns);
    return before < count && memory[finder->events.at[first + before]].ns <= end_ns;
}

static void text(struct finder *finder, const struct mp_kineto_event *event, enum mp_kineto_text which, uint32_t *id)
{
    *id = mp_intern_add(&finder->texts, event->texts[which], event->lengths[which]);
}

static void on_span(void *context, const struct mp_kineto_event *event)
{
    struct finder *finder = context;
    if (!mp_kineto_is_operator(event)) return;
    const uint64_t *thread = mp_map_find(&finder->kineto->thread_ids, mp_kineto_thread_key(event));
    struct span span = {
        .start_ns = event->facts[MP_KINETO_START_NS],
        .end_ns = event->facts[MP_KINETO_START_NS] + event->facts[MP_KINETO_DURATION_NS],
        .order = (uint32_t)finder->spans.count,
        .thread = thread ? (uint32_t)*thread : 0,
        .frame = MP_NONE,
        .python = !strcmp(event->texts[MP_KINETO_CATEGORY], "python_function"),
    };
    if (!thread || !encloses(finder, span.thread, span.start_ns, span.end_ns)) return;
    if (finder->spans.count / SPANS_PER_EVENT >= finder->events.count && finder->spans.count >= SPANS_MIN) {
        finder->kineto->spans_left++;
        return;
    }
    text(finder, event, MP_KINETO_NAME, &span.name);
    text(finder, event, MP_KINETO_SHAPES, &span.shapes);
    text(finder, event, MP_KINETO_CALL_STACK, &span.call_stack);
    mp_vec_add(&finder->spans, span);
}

MP_ORDER(by_thread_then_nesting, struct span,
         MP_RISING(thread) ?: MP_RISING(start_ns) ?: MP_FALLING(end_ns) ?: MP_RISING(order))

/* Makes a frame from "train.py(12): main": file, line, function. A text of another form is a function without file and
 * line. An object's address in the text is left out, since it differs in the next run. */
static uint32_t python_frame(struct mp_import_tables *tables, const char *entry, size_t length)
{
    const char *close = memmem(entry, length, "): ", 3), *digit = close;
    uint32_t line = 0;
    while (digit && digit > entry && digit[-1] >= '0' && digit[-1] <= '9')
        digit--;
    if (digit && digit > entry + 1 && digit < close && digit[-1] == '(' && close - digit < 10) {
        for (const char *at = digit; at < close; at++)
            line = line * 10 + (uint32_t)(*at - '0');
        uint32_t file = mp_import_text(tables, entry, (size_t)(digit - 1 - entry));
        uint32_t function = mp_import_text(tables, close + 3, length - (size_t)(close + 3 - entry));
        return mp_import_frame(tables, MP_PYTHON, function, file, line);
    }
    const char *address = memmem(entry, length, " object at 0x", 13);
    if (!address) return mp_import_frame(tables, MP_PYTHON, mp_import_text(tables, entry, length), 0, 0);
    char name[256];
    int cut = snprintf(name, sizeof name, "%.*s>", (int)(address - entry), entry);
    if (cut >= (int)sizeof name) cut = sizeof name - 1;
    return mp_import_frame(tables, MP_PYTHON, mp_import_text(tables, name, (size_t)cut), 0, 0);
}

/* True if a list of shapes has any: "[[], []]" does not. */
static bool any_shape(const char *shapes)
{
    return strpbrk(shapes, "0123456789");
}

/* Makes a frame from "aten::addmm([16, 4], [4, 8])": the operator, with its tensors' shapes if the trace has them. */
static uint32_t operator_frame(struct finder *finder, const struct span *span)
{
    struct mp_import_tables *tables = &finder->kineto->tables;
    size_t name_length, length;
    const char *name = mp_intern_get(&finder->texts, span->name, &name_length);
    const char *shapes = mp_intern_get(&finder->texts, span->shapes, &length);
    struct mp_buffer function = {0};
    mp_buffer_append(&function, name, name_length);
    if (any_shape(shapes)) {
        bool whole = length >= 2 && shapes[length - 1] == ']';
        mp_buffer_append_text(&function, "(");
        mp_buffer_append(&function, shapes + 1, length - 1 - whole);
        mp_buffer_append_text(&function, whole ? ")" : "...)");
    }
    mp_buffer_append(&function, "", 1);
    uint32_t full = mp_import_text(tables, (const char *)function.data, function.size - 1);
    uint32_t frame = mp_import_frame(tables, MP_NATIVE, full, 0, 0);
    mp_buffer_free(&function);
    return frame;
}

static uint32_t span_frame(struct finder *finder, struct span *span)
{
    if (span->frame != MP_NONE) return span->frame;
    size_t length;
    const char *name = mp_intern_get(&finder->texts, span->name, &length);
    span->frame = span->python ? python_frame(&finder->kineto->tables, name, length) : operator_frame(finder, span);
    return span->frame;
}

/* Makes the stack of "inner;outer;outermost"; returns its id. */
static uint32_t call_stack(struct finder *finder, uint32_t entries)
{
    size_t length;
    const char *start = mp_intern_get(&finder->texts, entries, &length), *end = start + length;
    uint32_t stack = 0;
    while (end > start) {
        const char *before = memrchr(start, ';', (size_t)(end - start));
        const char *entry = before ? before + 1 : start;
        if (end > entry)
            stack = mp_import_stack(&finder->kineto->tables, stack,
                                    python_frame(&finder->kineto->tables, entry, (size_t)(end - entry)));
        end = before ? before : start;
    }
    return stack;
}

static uint32_t stack_at(struct finder *finder, int64_t ns)
{
    uint32_t stack = 0;
    for (size_t i = 0; i < finder->open.count; i++) {
        struct span *span = &finder->spans.at[finder->open.at[i]];
        if (span->end_ns < ns) continue; /* the span ended within an inner span */
        if (!stack && span->call_stack) stack = call_stack(finder, span->call_stack);
        stack = mp_import_stack(&finder->kineto->tables, stack, span_frame(finder, span));
    }
    return stack;
}

/* Opens a span, and closes those that ended before it begins. In traces with whole microseconds an inner span may end
 * in the same microsecond as the outer one. */
static void open_span(struct finder *finder, uint32_t index)
{
    const struct span *next = &finder->spans.at[index];
    while (finder->open.count) {
        const struct span *top = &finder->spans.at[finder->open.at[finder->open.count - 1]];
        if (top->end_ns > next->start_ns || (top->end_ns == next->start_ns && next->end_ns <= top->end_ns)) break;
        finder->open.count--;
    }
    if (finder->open.count >= OPEN_MAX) {
        finder->kineto->spans_left++;
        return;
    }
    mp_vec_add(&finder->open, index);
}

static void close_spans(struct finder *finder, int64_t ns)
{
    while (finder->open.count && finder->spans.at[finder->open.at[finder->open.count - 1]].end_ns < ns)
        finder->open.count--;
}

static void set_stacks(struct finder *finder)
{
    struct mp_kineto *kineto = finder->kineto;
    size_t next = 0;
    if (finder->spans.count)
        qsort(finder->spans.at, finder->spans.count, sizeof *finder->spans.at, by_thread_then_nesting);
    for (uint32_t thread = 0; thread < kineto->owners.count; thread++) {
        finder->open.count = 0;
        for (size_t i = finder->first.at[thread]; i < finder->first.at[thread + 1]; i++) {
            struct mp_kineto_memory *memory = &kineto->memory.at[finder->events.at[i]];
            for (; next < finder->spans.count && finder->spans.at[next].thread == thread &&
                   finder->spans.at[next].start_ns <= memory->ns;
                 next++)
                open_span(finder, (uint32_t)next);
            close_spans(finder, memory->ns);
            memory->stack = stack_at(finder, memory->ns);
        }
    }
}

enum mp_status mp_kineto_attribute(struct mp_kineto *kineto, const char *path, struct mp_error *error)
{
    struct finder finder = {.kineto = kineto};
    const struct mp_kineto_sink sink = {.event = on_span, .context = &finder};
    mp_intern_add_text(&finder.texts, "");
    sort_events(&finder);
    enum mp_status status = mp_kineto_read(path, &sink, error);
    if (!status) set_stacks(&finder);
    mp_intern_free(&finder.texts);
    mp_vec_free(&finder.spans);
    mp_vec_free(&finder.events);
    mp_vec_free(&finder.first);
    mp_vec_free(&finder.open);
    return status;
}
