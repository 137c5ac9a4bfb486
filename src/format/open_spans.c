#include "format/open_spans.h"

#include "base/vec.h"

bool mp_open_spans_begin(struct mp_open_spans *open, const struct mp_event *event)
{
    struct mp_open_span span = {.time_ns = event->time_ns, .name = event->name, .thread = event->thread};
    return open->count >= MP_OPEN_SPANS_MAX || mp_vec_push(open, span);
}

void mp_open_spans_end(struct mp_open_spans *open, const struct mp_event *event)
{
    size_t at = open->count;
    while (at && (open->at[at - 1].thread != event->thread || (event->name && open->at[at - 1].name != event->name)))
        at--;
    if (!at) return; /* the region began before the file */
    size_t kept = at - 1;
    for (size_t i = at - 1; i < open->count; i++)
        if (open->at[i].thread != event->thread) open->at[kept++] = open->at[i];
    open->count = kept;
}
