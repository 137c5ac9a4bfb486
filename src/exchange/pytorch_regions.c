#include "exchange/pytorch_regions.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/words.h"

#define LANES_MAX 64
#define OPEN      INT64_MAX

struct span {
    int64_t start, end;
    uint32_t name, below; /* the span of that name that was open before it, + 1 */
};

struct lane {
    MP_VEC(uint32_t) open; /* spans, outermost first */
    uint32_t order;
};

struct layout {
    MP_VEC(struct span) spans;
    struct lane lanes[LANES_MAX];
    struct mp_pytorch_marks *marks;
};

static int by_time(const void *left, const void *right)
{
    const struct mp_pytorch_annotation *a = *(const struct mp_pytorch_annotation *const *)left,
                                       *b = *(const struct mp_pytorch_annotation *const *)right;
    if (a->time_us != b->time_us) return a->time_us < b->time_us ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* An end closes the span of its name that began last; one without a start is passed over. */
static bool pair_up(const struct mp_pytorch_annotation *const *sorted, size_t count, int64_t start_us,
                    struct layout *layout)
{
    struct mp_map open = {0}; /* name + 1 to span + 1 */
    bool done = true;
    for (size_t i = 0; done && i < count; i++) {
        uint64_t *last = mp_map_insert(&open, (uint64_t)sorted[i]->name + 1, NULL);
        if (!last) {
            done = false;
        } else if (sorted[i]->begins) {
            int64_t start = sorted[i]->time_us < start_us ? start_us : sorted[i]->time_us;
            struct span span = {start, OPEN, sorted[i]->name, (uint32_t)*last};
            done = mp_vec_push(&layout->spans, span);
            *last = layout->spans.count;
        } else if (*last) {
            struct span *span = &layout->spans.at[*last - 1];
            span->end = sorted[i]->time_us;
            *last = span->below;
        }
    }
    mp_map_free(&open);
    return done;
}

static int by_start_longest_first(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    return a->end > b->end ? -1 : a->end < b->end;
}

static bool put_mark(struct layout *layout, uint32_t lane, int64_t time_us, uint32_t name, unsigned type)
{
    struct mp_pytorch_mark mark = {time_us, name, lane, layout->lanes[lane].order++, (uint8_t)type};
    return mp_vec_push(layout->marks, mark);
}

/* Ends what is over at `now`. */
static bool close_spans(struct layout *layout, uint32_t lane, int64_t now)
{
    struct lane *at = &layout->lanes[lane];
    while (at->open.count) {
        const struct span *span = &layout->spans.at[at->open.at[at->open.count - 1]];
        if (span->end > now || span->end == OPEN) break;
        at->open.count--;
        if (!put_mark(layout, lane, span->end, span->name, MP_EVENT_REGION_END)) return false;
    }
    return true;
}

static bool lay(struct layout *layout, uint32_t index)
{
    const struct span *span = &layout->spans.at[index];
    for (uint32_t lane = 0; lane < LANES_MAX; lane++) {
        struct lane *at = &layout->lanes[lane];
        if (!close_spans(layout, lane, span->start)) return false;
        bool fits = !at->open.count || layout->spans.at[at->open.at[at->open.count - 1]].end >= span->end;
        if (!fits && lane + 1 < LANES_MAX) continue;
        if (lane >= layout->marks->lanes) layout->marks->lanes = lane + 1;
        return mp_vec_push(&at->open, index) && put_mark(layout, lane, span->start, span->name, MP_EVENT_REGION_BEGIN);
    }
    return true;
}

/* Each step once, though every rank or thread may have said it. */
static bool lay_all(const struct mp_pytorch_records *records, int64_t start_us, struct layout *layout)
{
    static const char step[] = "ProfilerStep#";
    uint32_t last_step = 0;
    for (size_t i = 0; i < layout->spans.count; i++) {
        const struct span *span = &layout->spans.at[i];
        bool done = true;
        if (span->end < start_us) continue;
        if (strncmp(mp_intern_get(&records->values.texts, span->name, NULL), step, sizeof step - 1)) {
            done = lay(layout, (uint32_t)i);
        } else if (span->name != last_step) {
            last_step = span->name;
            done = put_mark(layout, 0, span->start, span->name, MP_EVENT_STEP);
        }
        if (!done) return false;
    }
    for (uint32_t lane = 0; lane < LANES_MAX; lane++)
        if (!close_spans(layout, lane, OPEN)) return false;
    return true;
}

static int by_time_lane_order(const void *left, const void *right)
{
    const struct mp_pytorch_mark *a = left, *b = right;
    if (a->time_us != b->time_us) return a->time_us < b->time_us ? -1 : 1;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

bool mp_pytorch_marks_make(struct mp_pytorch_records *records, int64_t start_us, struct mp_pytorch_marks *marks)
{
    *marks = (struct mp_pytorch_marks){.lanes = 1};
    size_t count = 0;
    const struct mp_pytorch_annotation **sorted = malloc((records->annotations.count + 1) * sizeof *sorted);
    struct layout *layout = calloc(1, sizeof *layout);
    bool done = sorted && layout;
    for (size_t i = 0; done && i < records->annotations.count; i++)
        if (records->annotations.at[i].time_us != MP_PYTORCH_NO_TIME) sorted[count++] = &records->annotations.at[i];
    if (done) {
        layout->marks = marks;
        qsort(sorted, count, sizeof *sorted, by_time);
        done = pair_up(sorted, count, start_us, layout);
    }
    if (done && layout->spans.count) {
        qsort(layout->spans.at, layout->spans.count, sizeof *layout->spans.at, by_start_longest_first);
        done = lay_all(records, start_us, layout);
        if (marks->count) qsort(marks->at, marks->count, sizeof *marks->at, by_time_lane_order);
    }
    for (size_t i = 0; layout && i < LANES_MAX; i++)
        mp_vec_free(&layout->lanes[i].open);
    if (layout) mp_vec_free(&layout->spans);
    free(layout);
    free(sorted);
    return done;
}

void mp_pytorch_marks_free(struct mp_pytorch_marks *marks)
{
    mp_vec_free(marks);
}
