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

/* True for a segment that a caching allocator divides into blocks: another track has these blocks one by one. */
static bool is_segment(const struct mp_stack_line *line)
{
    return (line->function && strstr(line->function, "CachingAllocator")) ||
           (line->module && strstr(line->module, "libc10_cuda"));
}

enum mp_leak_class mp_leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                                    const struct mp_leak_place *place, const struct mp_leak_evidence *evidence)
{
    static const enum mp_leak_class by_kind[MP_KINDS] = {
        [MP_KIND_PINNED] = MP_LEAK_PINNED, [MP_KIND_HANDLE] = MP_LEAK_HANDLE, [MP_KIND_GRAPH] = MP_LEAK_GRAPH_POOL};
    struct mp_stack_lines lines = {0};
    bool python = false, segment = false, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    mp_stack_resolve(model, place->stack, &lines);
    for (size_t i = 0; i < lines.count; i++) {
        python |= lines.at[i].language == MP_PYTHON && !lines.at[i].cut;
        segment |= driver && is_segment(&lines.at[i]);
    }
    bool unknown = !lines.count && !driver; /* who called */
    mp_stack_lines_free(&lines);
    if (segment) return MP_LEAK_FRAGMENTATION;
    if (place->kind < MP_KINDS && by_kind[place->kind] != MP_LEAK_RETENTION) return by_kind[place->kind];
    if (model->tracks.at[place->track].layer == MP_LAYER_MALLOC) return MP_LEAK_NATIVE;
    if (has_new_sizes(places, place)) return MP_LEAK_SHAPE_CACHE;
    if (evidence->sawtooth) return MP_LEAK_CYCLE;
    return unknown || python ? MP_LEAK_RETENTION : MP_LEAK_NATIVE;
}

static const struct {
    const char *name, *advice;
} classes[MP_LEAK_CLASSES] = {
    [MP_LEAK_RETENTION] = {"retention",
                           "something holds these blocks: a list, a cache, a hook, or a loss with its graph; keep "
                           "numbers (.item(), .detach()) or clear it"},
    [MP_LEAK_NATIVE] = {"native",
                        "allocated by native code and not freed: a free is missing on some path, or something keeps "
                        "the object that owns it"},
    [MP_LEAK_HANDLE] = {"handle", "created in every step and not destroyed: make it once, or destroy it"},
    [MP_LEAK_PINNED] = {"pinned", "page-locked host memory: reuse one buffer instead of making a new one"},
    [MP_LEAK_GRAPH_POOL] = {"graph_pool",
                            "memory of CUDA graphs: capture into one shared pool, and reset unused graphs"},
    [MP_LEAK_SHAPE_CACHE] =
        {"shape_cache",
         "blocks of each new size stay: pad to a few sizes, bound the cache, or keep only the last of a history"},
    [MP_LEAK_CYCLE] = {"cycle", "fewer blocks are freed than made: a reference cycle waits for the garbage collector, "
                                "or a cache is cleared too seldom; break the cycle, or bound the cache"},
    [MP_LEAK_HIDDEN] = {"hidden",
                        "no recorded block explains it: the program's own heap (NumPy arrays, Python objects, "
                        "malloc, or holes that blocks kept elsewhere leave in it), a library, or the driver; memprof "
                        "snapshot --host records the heap's blocks with their lines"},
    [MP_LEAK_RETAINED_ONCE] = {"retained_once",
                               "these blocks stay, but only a few steps made them, or code behind the last step"},
    [MP_LEAK_FRAGMENTATION] = {"fragmentation", "the allocator reserves more and more, although its blocks do not "
                                                "grow; expandable segments or fewer sizes help"},
    [MP_LEAK_BOUNDED] = {"bounded", "a container with a bound is not full yet; a smaller bound takes less memory"},
};

const char *mp_leak_class_name(enum mp_leak_class class)
{
    return classes[class].name;
}

const char *mp_leak_advice(enum mp_leak_class class)
{
    return classes[class].advice;
}
