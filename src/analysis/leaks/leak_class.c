#include "analysis/leaks/leak_class.h"

#include <string.h>

#include "base/map.h"
#include "model/stack.h"

/* True if nine in ten blocks have a new size: the site makes a block when a size first appears. */
static bool has_new_sizes(const struct mp_leak_places *places, const struct mp_leak_place *place)
{
    struct mp_map sizes = {0};
    size_t stay = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        if (places->lives[i].death < places->last) continue;
        stay++;
        mp_map_at(&sizes, places->lives[i].bytes + 1, NULL);
    }
    bool yes = stay >= MP_LEAK_BIRTHS && sizes.count * 10 >= stay * 9;
    mp_map_free(&sizes);
    return yes;
}

static bool is_segment(const struct mp_stack_line *line)
{
    return (line->function && strstr(line->function, "CachingAllocator")) ||
           (line->module && strstr(line->module, "libc10_cuda"));
}

bool mp_leak_is_segment(const struct mp_model *model, const struct mp_leak_place *place)
{
    struct mp_stack_lines lines = {0};
    bool segment = false, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    if (driver) mp_stack_resolve(model, place->stack, &lines);
    for (size_t i = 0; i < lines.count && !segment; i++)
        segment = is_segment(&lines.at[i]);
    mp_stack_lines_free(&lines);
    return segment;
}

enum mp_leak_class mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                                    const struct mp_leak_place *place, const struct mp_leak_evidence *evidence)
{
    static const enum mp_leak_class by_kind[MP_KINDS] = {
        [MP_KIND_PINNED] = MP_LEAK_PINNED, [MP_KIND_HANDLE] = MP_LEAK_HANDLE, [MP_KIND_GRAPH] = MP_LEAK_GRAPH_POOL};
    struct mp_stack_lines lines = {0};
    if (mp_leak_is_segment(model, place)) return MP_LEAK_FRAGMENTATION;
    bool python = false, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    mp_stack_resolve(model, place->stack, &lines);
    for (size_t i = 0; i < lines.count; i++)
        python |= lines.at[i].language == MP_PYTHON && !lines.at[i].cut;
    bool unknown = !lines.count && !driver; /* who called */
    mp_stack_lines_free(&lines);
    if (place->kind < MP_KINDS && by_kind[place->kind] != MP_LEAK_RETENTION) return by_kind[place->kind];
    if (model->tracks.at[place->track].layer == MP_LAYER_MALLOC) return MP_LEAK_NATIVE;
    if (has_new_sizes(places, place)) return MP_LEAK_SHAPE_CACHE;
    if (evidence->sawtooth) return MP_LEAK_CYCLE;
    return unknown || python ? MP_LEAK_RETENTION : MP_LEAK_NATIVE;
}
